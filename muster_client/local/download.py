"""Writing files that a server names below a folder of the user's, whatever names it gives them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from muster_client.errors import MusterError

if TYPE_CHECKING:
    from muster_client.answers.outputs import OutputFile

_NOT_ON_WINDOWS = frozenset('<>:"|?*\\')


class DownloadError(MusterError):
    """A file that was not written, or not as the server has it."""


def chosen(files: Sequence[OutputFile], patterns: Sequence[str], *, rank: int | None) -> list[OutputFile]:
    """Return the files of the newest attempt that has any which fit; `*` in a pattern stands for folders too."""
    found = [
        file
        for file in files
        if file["state"] == "kept"
        and (rank is None or file["rank"] == rank)
        and (not patterns or any(fnmatchcase(file["path"], pattern) for pattern in patterns))
    ]
    newest = max((file["attempt"] for file in found), default=0)
    return [file for file in found if file["attempt"] == newest]


def places(files: Sequence[OutputFile], folder: Path) -> list[Path]:
    """Return where each file goes: by its path, below a folder for its rank if there is more than one rank."""
    ranks = {file["rank"] for file in files}
    return [place_below(folder / f"rank-{file['rank']}" if len(ranks) > 1 else folder, file["path"]) for file in files]


def place_below(folder: Path, path: str) -> Path:
    """Return the place of a path below the folder; raise for one that would lead elsewhere."""
    parts = path.split("/")
    for part in parts:
        strange = "\0" in part or (os.name == "nt" and _NOT_ON_WINDOWS.intersection(part))
        if part in {"", ".", ".."} or strange:
            raise DownloadError(f"The server names a file {path!r}, which cannot be written below {folder}.")
    place = folder
    for part in parts[:-1]:
        place /= part
        if place.is_symlink():
            raise DownloadError(f"{place} is a link; nothing is written through it.")
    return place / parts[-1]


def is_there(place: Path, file: OutputFile) -> bool:
    """Return whether the place holds these bytes already."""
    if place.is_symlink() or not place.is_file() or place.stat().st_size != file["size"]:
        return False
    with place.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest() == file["sha256"]


def write(place: Path, file: OutputFile, parts: Iterable[bytes]) -> None:
    """Write a file whole or not at all; raise if its bytes are not those that the server told of."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=place.parent, prefix=".muster-")
    except OSError as error:
        raise DownloadError(f"{place} cannot be written: {error.strerror}.") from error
    digest = hashlib.sha256()
    try:
        with os.fdopen(descriptor, "wb") as handle:
            for part in parts:
                handle.write(part)
                digest.update(part)
        if digest.hexdigest() != file["sha256"]:
            raise DownloadError(f"{file['path']!r} came with other bytes than the server has; it is not kept.")
        Path(draft).replace(place)  # a link that lies there is replaced, not followed
    except OSError as error:
        raise DownloadError(f"{place} cannot be written: {error.strerror}.") from error
    finally:
        Path(draft).unlink(missing_ok=True)
