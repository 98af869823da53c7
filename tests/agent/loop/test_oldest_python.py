"""The oldest Python that the agent promises to run on: how its modules are written, and its one file run by it."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

import nodeagent
from nodeagent.cli.build import build

OLDEST = (3, 9)
PACKAGE = Path(nodeagent.__file__).parent
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
# Imports every module of the file that is no program, and prints those for which Docker's package is wanting:
# the machine brings it, in a version for its Python.
IMPORT_ALL = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import nodeagent
for one in pkgutil.walk_packages(nodeagent.__path__, "nodeagent."):
    try:
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
    except ModuleNotFoundError as error:
        if error.name != "docker":
            raise
        print(one.name)
"""
UNPACK = """
import sys
sys.path.insert(0, sys.argv[1])
from nodeagent import jobside
jobside.unpack_commands("commands")
"""


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_written_for_it(module: str) -> None:
    tree = ast.parse((PACKAGE / module).read_text(), feature_version=OLDEST)
    # What stands in an annotation is not evaluated, so that types of a newer Python do no harm there.
    if any(isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation for node in ast.walk(tree)):
        future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        assert [name.name for node in future for name in node.names] == ["annotations"]


def oldest() -> str:
    """A Python of that version, or of the next one, wherever it is; the test is skipped where there is none."""
    folders = [*os.get_exec_path(), *(str(path) for path in Path.home().glob(".pyenv/versions/*/bin"))]
    for minor in (OLDEST[1], OLDEST[1] + 1):
        for folder in folders:
            program = Path(folder, f"python3.{minor}")
            if program.exists() and _runs(program, minor):
                return str(program)
    pytest.skip(f"no Python 3.{OLDEST[1]} or 3.{OLDEST[1] + 1} is here")


def _runs(program: Path, minor: int) -> bool:
    """True if it is one: a name may stand for a version that is not installed."""
    asked = subprocess.run([program, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, check=False)
    return asked.stdout.strip() == str(minor).encode()


def test_the_one_file_runs_and_all_of_it_can_be_imported(tmp_path: Path) -> None:
    python, program = oldest(), tmp_path / "muster-agent.pyz"
    build(str(program))
    helped = subprocess.run([python, program, "run", "--help"], capture_output=True, text=True, check=True)
    assert "--url" in helped.stdout
    imported = subprocess.run(
        [python, "-c", IMPORT_ALL, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert imported.returncode == 0, imported.stderr
    subprocess.run([python, "-c", UNPACK, program], cwd=tmp_path, check=True)
    listed = subprocess.run(
        [tmp_path / "commands" / "muster-commands" / "bin" / "scontrol", "show", "hostlist", "n1,n2"],
        env={"MUSTER_PYTHON": python},
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout == "n[1-2]\n"
    assert all(name.startswith("nodeagent.runtime.docker.") for name in imported.stdout.split()), imported.stdout
