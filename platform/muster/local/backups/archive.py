"""The form of a backup: a folder or a tar with a manifest that has the size and the digest of every file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

FORMAT = 1
MANIFEST, DUMP = "manifest.json", "database.dump"
FOLDERS = ("logs", "outputs", "code")
"""Parts of the state folder in a backup."""
_PIECE_BYTES = 1 << 20


class BackupError(Exception):
    """A backup that cannot be made, read or restored; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    size: int
    sha256: str


@dataclass(slots=True)
class Manifest:
    """The content of a backup, and its needs for a restore."""

    taken_at: datetime
    keys: list[str]
    """The fingerprints of the encryption keys of the installation."""
    migrations: list[str]
    files: dict[str, Entry] = field(default_factory=dict)


class Writer:
    """A backup that is being written: to a folder, or to a tar."""

    def __init__(self, place: Path, tar: tarfile.TarFile | None) -> None:
        self.place = place
        self._tar = tar
        self.files: dict[str, Entry] = {}

    def add(self, name: str, source: BinaryIO, size: int) -> None:
        """Add the first `size` bytes of the source, which has at least as many."""
        reader = _Digesting(source, size)
        self._put(name, reader, size)
        if reader.left:
            raise BackupError(f"{name} became shorter while it was copied")
        self.files[name] = Entry(size, reader.digest.hexdigest())

    def add_text(self, name: str, text: str) -> None:
        """Add a small file that the manifest does not list."""
        data = text.encode()
        self._put(name, _Digesting(BytesIO(data), len(data)), len(data))

    def _put(self, name: str, reader: _Digesting, size: int) -> None:
        if self._tar is not None:
            member = tarfile.TarInfo(name)
            member.size, member.mode = size, 0o600
            self._tar.addfile(member, reader)
        else:
            path = self.place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as target:
                shutil.copyfileobj(reader, target, _PIECE_BYTES)


class _Digesting:
    """Reads up to a number of bytes, and digests them."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        self._source = source
        self.left = size
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(data)
        self.digest.update(data)
        return data


@contextmanager
def writing(destination: Path) -> Iterator[Writer]:
    """A backup, a tar if it is named so, that appears on the disk when the block ends without an error."""
    if destination.exists() or destination.is_symlink():
        raise BackupError(f"{destination} exists already: name another file or folder")
    if not destination.parent.is_dir():
        raise BackupError(f"there is no folder {destination.parent}: make it first")
    draft = destination.with_name(f".{destination.name}.{os.getpid()}.partial")
    umask = os.umask(0o077)
    try:
        if destination.suffix == ".tar":
            with tarfile.open(draft, "x", format=tarfile.PAX_FORMAT) as tar:
                yield Writer(draft, tar)
        else:
            draft.mkdir()
            yield Writer(draft, None)
        os.sync()
        draft.rename(destination)
        _sync_folder(destination.parent)
    except BaseException:
        if draft.is_dir():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)
        raise
    finally:
        os.umask(umask)


def manifest_text(manifest: Manifest) -> str:
    return json.dumps({"format": FORMAT, **asdict(manifest), "taken_at": manifest.taken_at.isoformat()}, indent=1)


def read_manifest(source: Path) -> Manifest:
    """The manifest of a backup; `BackupError` for what is none, or of a format that this version cannot read."""
    try:
        told = json.loads(_manifest_bytes(source))
        if told["format"] != FORMAT:
            raise BackupError(f"{source} is a backup of format {told['format']}; this version reads format {FORMAT}")
        return Manifest(
            taken_at=datetime.fromisoformat(told["taken_at"]),
            keys=list(told["keys"]),
            migrations=list(told["migrations"]),
            files={name: Entry(**entry) for name, entry in told["files"].items()},
        )
    except (OSError, tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise BackupError(f"{source} is not a backup, or not a whole one: {error!r}") from error


def stage(source: Path, manifest: Manifest, target: Path) -> None:
    """Copy a backup to an empty folder; `BackupError` names files that differ from its manifest."""
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            target.mkdir(mode=0o700)
            with tarfile.open(source) as tar:
                tar.extractall(target, filter="data")
    except (OSError, tarfile.TarError, shutil.Error) as error:
        raise BackupError(f"{source} cannot be read: {error}") from error
    found = {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir() or path.is_symlink()}
    wrong = sorted(found ^ {*manifest.files, MANIFEST})
    wrong += [name for name in sorted(found & manifest.files.keys()) if not _is_whole(target / name, manifest, name)]
    if wrong:
        some = ", ".join(wrong[:3]) + (" …" if len(wrong) > 3 else "")
        raise BackupError(f"{source} is damaged: {len(wrong)} files differ from its manifest, {some}")


def _is_whole(path: Path, manifest: Manifest, name: str) -> bool:
    entry = manifest.files[name]
    if path.is_symlink() or path.stat().st_size != entry.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256


def _manifest_bytes(source: Path) -> bytes:
    if source.is_dir():
        return (source / MANIFEST).read_bytes()
    with tarfile.open(source) as tar:
        member: Any = tar.extractfile(MANIFEST)
        if member is None:
            raise KeyError(MANIFEST)
        data: bytes = member.read()
        return data


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
