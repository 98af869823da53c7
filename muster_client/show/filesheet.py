"""The files of a job in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from muster_client.show.tables import make_table, state_text, text_of

if TYPE_CHECKING:
    from muster_client.answers.outputs import OutputFile, OutputsSummary


def files_table(files: Sequence[OutputFile]) -> RenderableType:
    """Return a table with one line per file that a job left, or would have."""
    if not files:
        return Text("No files.")
    table = make_table("ATTEMPT", "RANK", "SIZE", "STATE", "PATH")
    for file in files:
        table.add_row(
            str(file["attempt"]),
            str(file["rank"]),
            _size(file["size"]),
            state_text(file["state"]),
            text_of(file["path"]),
        )
    return table


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def files_notes(summary: OutputsSummary) -> list[str]:
    """Return what is to be said of a job's files beside the list of them."""
    notes = []
    if not summary["patterns"]:
        notes.append("The job's spec names no outputs, so nothing of its working folder is kept.")
    if summary["pending"]:
        notes.append(f"Files of {_count(summary['pending'], 'rank')} are still to come.")
    if summary["lost"]:
        notes.append(f"The nodes of {_count(summary['lost'], 'rank')} were lost with what they left.")
    if summary["unnamed"]:
        notes.append(f"Not kept: {_count(summary['unnamed'], 'more file')}.")
    if summary["cut_short"]:
        notes.append("Not all was looked at: a working folder held too many files.")
    return notes


def _size(count: int) -> str:
    """Return a number of bytes with a binary unit, such as "1.5 MiB"."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"
