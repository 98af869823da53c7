"""The wheel installs and runs on a machine that has nothing of the platform."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[3]
BASE = {"httpx", "httpx-sse", "pathspec", "pyyaml", "rich", "typer"}

# Refuses what the base install does not bring; the wheel's own folder goes before the working tree.
PROGRAM = """
import sys
sys.path[:] = [sys.argv[1]] + [path for path in sys.path if path and path != sys.argv[2]]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"django", "rest_framework", "celery", "redis", "psycopg2", "muster", "starlette"}:
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Refuse())
import muster_client.main, nodeagent
assert muster_client.__file__.startswith(sys.argv[1]), muster_client.__file__
sys.argv[1:] = ["--help"]
muster_client.main.main()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return folder / build_wheel(str(folder))


def test_the_base_install_needs_neither_django_nor_the_platform(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
        entry_points = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert {line.split("=")[0].lower() for line in needed} == BASE
    assert "muster = muster_client.main:main" in entry_points


def test_the_wheel_says_that_it_is_typed_and_has_nothing_of_the_platform(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "muster_client/py.typed" in names
    assert "scheduler/diagnosis/failures/rules/facts.yaml" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "muster_client",
        "nodeagent",
        "scheduler",
    }


def test_the_command_starts_from_the_wheel_without_django(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert "Run jobs on a GPU cluster." in result.stdout
