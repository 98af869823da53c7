"""Packs a code folder into an archive whose digest depends on nothing but what is in the folder.

1. Walk the folder in the order of names, without what the defaults and `.musterignore` (read as a .gitignore is)
   leave out.
2. Follow links that stay in the folder and store what they point to; refuse the others, by name.
3. Write a tar with no times, owners or names of users in it, and compress it with no time in the header.
4. Take the SHA-256 of the result. The same folder packed again is the same archive, and is not sent twice.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import pathspec

from muster_client.errors import PackError

IGNORE_FILE = ".musterignore"
MAX_ARCHIVE_BYTES = 100 * 1024 * 1024
# What the platform takes; asked here, so that nothing is packed and sent only to be refused.
MAX_ENTRIES = 50_000
MAX_DEPTH = 64
MAX_PATH_BYTES = 1024
CHUNK_BYTES = 256 * 1024
# A `!` line of .musterignore takes any of these back in.
DEFAULT_IGNORES = (".git/", ".hg/", ".svn/", ".venv/", "__pycache__/", "*.py[co]", ".DS_Store")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder that goes into the archive; `source` is where its bytes are read."""

    name: str
    source: Path
    is_folder: bool
    size: int
    executable: bool


@dataclass(slots=True)
class Archive:
    """A packed folder in a temporary file, gone when closed."""

    sha256: str
    size: int
    entries: int
    file: IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """Yield the archive from its start; may be called again for a second try."""
        self.file.seek(0)
        while chunk := self.file.read(CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        """Delete the temporary file."""
        self.file.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def pack_folder(
    folder: Path, *, max_bytes: int = MAX_ARCHIVE_BYTES, told: Callable[[Entry], None] | None = None
) -> Archive:
    """Return the folder as a tar.gz archive; `told` hears of each entry as it is written."""
    entries = list_entries(folder)
    file = tempfile.TemporaryFile(prefix="muster-code-")  # noqa: SIM115 - the archive owns it
    try:
        sink = _Sink(file, max_bytes)
        with (
            gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for entry in entries:
                _add(tar, entry)
                if told is not None:
                    told(entry)
    except _TooLargeError as error:
        file.close()
        raise PackError(_too_large(folder, entries, max_bytes)) from error
    except BaseException:
        file.close()
        raise
    return Archive(sha256=sink.digest.hexdigest(), size=sink.size, entries=len(entries), file=file)


def list_entries(folder: Path) -> list[Entry]:
    """Return what would be packed, in the order of the archive."""
    try:
        root = folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise PackError(f"The code folder {folder} does not exist.") from error
    if not root.is_dir():
        raise PackError(f"code: {folder} is not a folder.")
    walk = _Walk(root=root, ignored=_read_ignores(root))
    walk.enter(root, "", (root,))
    return walk.entries


class _Walk:
    def __init__(self, *, root: Path, ignored: pathspec.GitIgnoreSpec) -> None:
        self.root = root
        self.ignored = ignored
        self.entries: list[Entry] = []

    def enter(self, folder: Path, prefix: str, above: tuple[Path, ...]) -> None:
        try:
            names = sorted(os.listdir(folder), key=os.fsencode)
        except OSError as error:
            raise PackError(f"{prefix or '.'} cannot be read: {error.strerror}.") from error
        for name in names:
            self._take(folder / name, prefix + name, above)

    def _take(self, path: Path, name: str, above: tuple[Path, ...]) -> None:
        try:
            mode = path.lstat().st_mode
            is_link = stat.S_ISLNK(mode)
            # A pattern such as `data/` means folders only. Git takes a link for a file, and so do we.
            if self.ignored.match_file(name + ("/" if stat.S_ISDIR(mode) else "")):
                return
            source = self._follow(path, name) if is_link else path
            status = source.stat()
        except OSError as error:
            raise PackError(f"{_shown(name)} cannot be read: {error.strerror}.") from error
        try:
            length = len(name.encode())
        except UnicodeEncodeError as error:
            raise PackError(
                f"{_shown(name)} has a name that is not UTF-8; rename it or list it in {IGNORE_FILE}."
            ) from error
        if name.count("/") >= MAX_DEPTH or length >= MAX_PATH_BYTES:
            raise PackError(
                f"{name[:60]}… lies deeper than {MAX_DEPTH} folders, or its path has more than {MAX_PATH_BYTES} bytes; "
                f"list it in {IGNORE_FILE}."
            )
        if len(self.entries) >= MAX_ENTRIES:
            raise PackError(f"The code folder has more than {MAX_ENTRIES} files; list the rest in {IGNORE_FILE}.")
        if stat.S_ISDIR(status.st_mode):
            if is_link and source in above:
                raise PackError(f"{name} is a link to a folder that it lies in; list it in {IGNORE_FILE}.")
            self.entries.append(Entry(name=name, source=source, is_folder=True, size=0, executable=True))
            self.enter(source, name + "/", (*above, source))
        elif stat.S_ISREG(status.st_mode):
            executable = bool(status.st_mode & stat.S_IXUSR)
            self.entries.append(
                Entry(name=name, source=source, is_folder=False, size=status.st_size, executable=executable)
            )
        else:
            raise PackError(f"{name} is neither a file nor a folder; list it in {IGNORE_FILE}.")

    def _follow(self, path: Path, name: str) -> Path:
        try:
            target = path.resolve(strict=True)
        except (FileNotFoundError, RuntimeError) as error:
            raise PackError(f"{name} is a link to {os.readlink(path)}, which does not exist.") from error
        if not target.is_relative_to(self.root):
            raise PackError(
                f"{name} is a link to {os.readlink(path)}, outside the code folder. "
                f"Copy what it points to, or list it in {IGNORE_FILE}."
            )
        return target


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.is_folder:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        return
    try:
        with entry.source.open("rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, file)
    except _TooLargeError:
        raise
    except OSError as error:
        # tarfile says "unexpected end of data" when a file got shorter than it was a moment ago.
        raise PackError(f"{entry.name} cannot be packed: {error.strerror or 'it changed meanwhile'}.") from error


class _TooLargeError(Exception):
    """The archive passed its limit."""


class _Sink:
    """Counts and digests what is written to a file, up to a limit."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file = file
        self._max_bytes = max_bytes
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes, /) -> int:
        self.size += len(data)
        if self.size > self._max_bytes:
            raise _TooLargeError
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _read_ignores(root: Path) -> pathspec.GitIgnoreSpec:
    try:
        lines = (root / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"{IGNORE_FILE} cannot be read: {error}") from error
    try:
        return pathspec.GitIgnoreSpec.from_lines([*DEFAULT_IGNORES, *lines])
    except ValueError as error:
        raise PackError(f"{IGNORE_FILE} has a line that is not a pattern: {error}") from error


def _too_large(folder: Path, entries: list[Entry], max_bytes: int) -> str:
    largest = sorted(entries, key=lambda entry: (-entry.size, entry.name))[:3]
    names = ", ".join(f"{entry.name} ({entry.size / 1024**2:.1f} MiB)" for entry in largest)
    limit = f"{max_bytes // 1024**2} MiB" if max_bytes >= 1024**2 else f"{max_bytes} bytes"
    return (
        f"The code folder {folder} is larger than {limit} when packed. Largest: {names}. "
        f"List in {IGNORE_FILE} what the job does not need; data belongs on a volume."
    )


def _shown(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()
