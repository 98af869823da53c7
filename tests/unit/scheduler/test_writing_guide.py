"""docs/policies/writing.md, run: each of its classes is installed as it says and works in the simulator."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from scheduler.authoring import Cycle
from tests.plugins.installed import install

PAGE = (Path(__file__).parents[3] / "docs" / "policies" / "writing.md").read_text(encoding="utf-8")
MODULES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
POLICIES = {"widest": "WidestFirst", "turns": "TurnByTurn", "equal": "Equal", "fastest": "Fastest"}


def simulate(folder: Path, *arguments: str) -> str:
    """The output of a simulation with the plug-ins in this folder."""
    words = [sys.executable, "-m", "scheduler.sim", "--generate", "gavel:jobs=20", "--no-timing", *arguments]
    words += [] if "--cluster" in arguments else ["--cluster", "V100:1x8,P100:1x8,K80:1x8"]
    path = ":".join([str(folder), str(Path(__file__).parents[3])])
    done = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": path}, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All classes of the page in one distribution."""
    points = "\n".join(f"{name} = written:{plugin}" for name, plugin in POLICIES.items())
    groups: Mapping[str, str] = {"muster.policies": points, "muster.admissions": "half = written:AtMostHalf"}
    return install(tmp_path_factory.mktemp("site"), "written", "\n\n".join(MODULES), groups)


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_of_the_page_runs_all_jobs(policy: str, installed: Path) -> None:
    printed = simulate(installed, "--policy", "fifo", "--policy", policy)
    assert policy in printed


def test_the_admission_of_the_page_admits_jobs(installed: Path) -> None:
    assert "fifo" in simulate(installed, "--policy", "fifo", "--admission", "half")


def test_the_entry_points_of_the_page_are_of_groups_that_are_read() -> None:
    (project,) = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    assert set(project["project"]["entry-points"]) == {"muster.policies"}
    assert {"muster.policies", "muster.admissions", "muster.placements"} <= set(re.findall(r"`(muster\.\w+)`", PAGE))


def test_the_page_lists_what_a_cycle_reads_and_writes() -> None:
    public = {name for name in vars(Cycle) if not name.startswith("_")} | {"now", "seed", "state"}
    rows = re.findall(r"^\| (.+?) \|", PAGE, re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert public <= listed
