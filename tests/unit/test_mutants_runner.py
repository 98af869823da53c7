"""The command that tries mutants, on a repository with one function."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import main

CATALOGUE = """
- {name: noticed, property: A limit includes its last value., file: product.py, old: n <= 3, new: n < 3,
   tests: ["test_product.py::test_at_the_limit"]}
- {name: missed, property: A limit includes its last value., file: product.py, old: n <= 3, new: n < 3,
   tests: ["test_product.py::test_far_below"]}
- {name: skipped, property: A limit includes its last value., file: product.py, old: n <= 3, new: n < 3,
   tests: ["test_product.py::test_skipped"]}
- {name: stale, property: A limit includes its last value., file: product.py, old: n < 3, new: n <= 3,
   tests: ["test_product.py::test_at_the_limit"]}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one function, and tests: of its limit, of another value, and one that is skipped."""
    (tmp_path / "product.py").write_text("def few(n):\n    return n <= 3\n")
    (tmp_path / "test_product.py").write_text(
        "import pytest\nimport product\n\n"
        "def test_at_the_limit():\n    assert product.few(3)\n\n"
        "def test_far_below():\n    assert product.few(1)\n\n"
        "@pytest.mark.skip\ndef test_skipped():\n    assert False\n"
    )
    (tmp_path / "mutants.yaml").write_text(CATALOGUE)
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path


def run(tree: Path, *names: str) -> int:
    chosen = [part for name in names for part in ("--only", name)]
    return main([*chosen, "--jobs", "1"], root=tree, catalogue=tree / "mutants.yaml")


def test_a_mutant_that_no_test_notices_fails_the_run(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (tree / "product.py").read_text()
    assert run(tree, "noticed", "missed") == 1
    told = {line.split()[3]: line.split()[0] for line in capsys.readouterr().out.splitlines() if " s  " in line}
    assert told == {"noticed": "killed", "missed": "SURVIVED"}
    assert (tree / "product.py").read_text() == before


def test_a_skipped_test_cannot_judge_a_mutant(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "skipped") == 1
    assert "test_product.py::test_skipped finds no test that runs here" in capsys.readouterr().out


def test_a_mutant_whose_text_is_gone_fails_the_run(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, "stale") == 1
    assert capsys.readouterr().out == "STALE     stale: its old text is 0 times in product.py\n"
