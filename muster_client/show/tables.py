"""The tables and sheets of the command line."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from muster_client.local.terminal import clean

_STYLES = {
    "succeeded": "green",
    "failed": "red",
    "lost": "red",
    "down": "red",
    "active": "cyan",
    "running": "cyan",
    "ready": "green",
    "queued": "yellow",
    "waiting": "yellow",
    "kept": "green",
    "arriving": "yellow",
    "suspect": "yellow",
    "cancelled": "dim",
    "preempted": "magenta",
}


def make_table(*columns: str) -> Table:
    """Return an empty table with these heads."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=column not in {"WHY", "REASON"}, min_width=len(column))
    return table


def sheet(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return labels with their values, one below the other."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, value)
    return table


def plain_lines(table: Table, max_width: int) -> list[str] | None:
    """Return the lines of a table of ours without colours; None if only a console can lay it out.

    They are those that a console writes into a pipe, in a tenth of the time.
    """
    columns: list[list[str]] = []
    for column in table.columns:
        cells = [column.header] if table.show_header else []
        cells += list(column.cells)
        texts = [cell.plain if isinstance(cell, Text) else cell for cell in cells if isinstance(cell, str | Text)]
        if len(texts) < len(cells) or any("\n" in text for text in texts):
            return None
        width = max([column.min_width or 0, *map(cell_len, texts)]) + 2
        columns.append([text + " " * (width - cell_len(text)) for text in texts])
    lines = ["".join(cells) for cells in zip(*columns, strict=True)]
    return None if any(cell_len(line) > max_width for line in lines) else lines


def text_of(value: object, limit: int | None = None) -> Text:
    """Return a value as one line of clean text, cut to the limit."""
    text = clean(value)
    return Text(text if limit is None or len(text) <= limit else text[: limit - 1] + "…")


def state_text(state: str) -> Text:
    """Return a state in its colour."""
    return Text(clean(state), style=_STYLES.get(state, ""))
