"""The folder of the published traces; they are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path


class NoData(FileNotFoundError):
    """The published traces are not on this machine."""


def data_folder() -> Path:
    """`$MUSTER_DATA`, or `shared/data` beside the checkout; raises `NoData` when neither is there."""
    named = os.environ.get("MUSTER_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise NoData(f"{folder} is no folder; set MUSTER_DATA to the folder with the traces")
    return folder


def with_part(text: str, name: str, part: str) -> str:
    """The page with another text between `<!-- name -->` and `<!-- /name -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    start, stop = text.index(begin) + len(begin), text.index(end)
    return text[:start] + part + text[stop:]
