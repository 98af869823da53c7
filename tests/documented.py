"""A job's environment in docs/operator/configuration.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_DOCUMENT = Path(__file__).parents[1] / "docs" / "operator" / "configuration.md"
_OF_THE_SHELL = {"PWD", "OLDPWD", "SHLVL", "_"}


def undocumented(names: Iterable[str]) -> set[str]:
    """The variables of a job's environment that the table does not list and that no shell sets by itself."""
    section = _DOCUMENT.read_text().partition("## What a job finds\n")[2].partition("\n## ")[0]
    first_column = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    listed = {name for cell in first_column for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert "MUSTER_JOB_ID" in listed
    return set(names) - listed - _OF_THE_SHELL
