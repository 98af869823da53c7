"""The page about failures tells each class as the rules have it."""

from __future__ import annotations

import os
from pathlib import Path

from scheduler.diagnosis.failures import builtin

PAGE = Path(__file__).parents[3] / "docs" / "user" / "failures.md"
BEGIN, END = "<!-- classes -->\n", "<!-- /classes -->"


def table() -> str:
    rows = ["| class | category | retry | hint |", "|---|---|---|---|"]
    rows += [
        f"| {one.name} | {one.category} | {one.retry} | {one.hint} |"
        for one in sorted(builtin().classes.values(), key=lambda one: (one.category, one.name))
    ]
    return "\n".join(rows) + "\n"


def test_the_page_has_the_classes_as_the_rules_have_them() -> None:
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    if os.environ.get("MUSTER_WRITE_DOCUMENTS"):
        PAGE.write_text(text[:begin] + table() + text[end:])
        return
    assert text[begin:end] == table(), "MUSTER_WRITE_DOCUMENTS=1 writes it"
