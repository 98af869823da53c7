"""A file that the database refers to, as a backup needs to know it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the state folder, of which the database refers to the first `size` bytes.

    `sha256` is the digest that the database has of the file, or empty.
    """

    path: PurePosixPath
    size: int
    sha256: str = ""
