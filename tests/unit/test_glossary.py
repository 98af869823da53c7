"""The glossary lists terms that the project uses, and the README links it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/glossary.md"
ROW = re.compile(r"^\| ([a-zA-Z][^|]*) \| `([^`|]+)` \| ([^|]+) \|", re.MULTILINE)
CODE = ("scheduler", "nodeagent", "muster_client", "platform", "frontend/src")


def in_use(words: str, *folders: str) -> bool:
    """True if the words are in a tracked file of the folders, other than the glossary."""
    arguments = ["git", "grep", "-qiFe", words, "--", *folders, ":!docs/reference/glossary.md"]
    return subprocess.run(arguments, cwd=ROOT, check=False).returncode == 0


def test_each_term_of_the_glossary_is_in_use_with_its_name_in_code() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert len(rows) == len([line for line in PAGE.read_text().splitlines() if line.startswith("| ")]) - 4
    assert len({term for term, *_ in rows}) == len(rows)
    assert [term for term, *_ in rows if not in_use(term, *CODE, "docs", "README.md")] == []
    assert [name for _, name, _ in rows if not in_use(name, *CODE)] == []


def test_the_readme_links_the_glossary() -> None:
    assert "(docs/reference/glossary.md)" in (ROOT / "README.md").read_text()
