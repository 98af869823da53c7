"""Files of a job's working folder: finding those that its patterns name, and opening them.

The folder is a member's and need not be friendly. So every step goes from an open folder to an entry in it and follows
no link; only regular files of the job's own user are opened, never FIFOs or devices; what is looked at and what is
taken is bounded; and a file that is not what it was when it was found is not taken.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from dataclasses import dataclass, field
from typing import FrozenSet, Iterator, List, Optional, Sequence, Tuple

from nodeagent.protocol.messages import MAX_OUTPUT_PATH_BYTES, MAX_OUTPUTS_AT_ONCE, Excluded
from nodeagent.runtime.port import WorkFolder
from nodeagent.ship import patterns
from nodeagent.ship.patterns import Rest
from nodeagent.system.files import FOLDER

MAX_ENTRIES = 100_000
_MAX_DEPTH = 40
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotTaken(Exception):
    """A file that cannot be taken after all; `reason` is one of those of `Excluded`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True)
class Leftover:
    """A file that can be taken, as it was when it was found."""

    path: str
    size: int
    mtime_ns: int
    inode: int


@dataclass
class Findings:
    """The files that a walk found; of those left out, the first ones are named and the others counted."""

    files: List[Leftover] = field(default_factory=list)
    left_out: List[Excluded] = field(default_factory=list)
    more: int = 0
    cut_short: bool = False

    def leave_out(self, path: str, reason: str, size: int = 0) -> None:
        """Note that a file was not taken."""
        if len(self.left_out) < MAX_OUTPUTS_AT_ONCE:
            self.left_out.append(Excluded(_shown(path), reason, size))
        else:
            self.more += 1


def find(
    folder: WorkFolder, wanted: Tuple[str, ...], *, max_bytes: int, max_files: int, max_entries: int = MAX_ENTRIES
) -> Findings:
    """The files that the patterns name, in the order of their paths, as far as they fit."""
    findings = Findings()
    walk = _Walk(folder.uid, findings, max_bytes, max_files, max_entries)
    try:
        root = open_folder(folder)
    except OSError:
        findings.leave_out(".", "vanished")
        return findings
    walk.look(root, ".", patterns.compiled(wanted), 0)
    return findings


def open_folder(folder: WorkFolder) -> int:
    """A descriptor of the folder in which the command started."""
    descriptor = os.open(folder.path, FOLDER)
    return _descend(descriptor, folder.below)


def open_file(root: int, uid: int, file: Leftover) -> int:
    """A descriptor of the file, or `NotTaken` when it is not what was found."""
    parts = file.path.split("/")
    try:
        parent = _descend(os.dup(root), parts[:-1])
        try:
            descriptor = os.open(parts[-1], _FILE, dir_fd=parent)
        finally:
            os.close(parent)
    except FileNotFoundError as error:
        raise NotTaken("vanished") from error
    except OSError as error:
        raise NotTaken("unreadable") from error
    if not is_still(descriptor, uid, file):
        os.close(descriptor)
        raise NotTaken("changed")
    return descriptor


def is_still(descriptor: int, uid: int, file: Leftover) -> bool:
    """True if an open file is the same as when it was found, unchanged."""
    status = os.fstat(descriptor)
    now = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_uid)
    return stat.S_ISREG(status.st_mode) and now == (file.size, file.mtime_ns, file.inode, uid)


class _Walk:
    def __init__(self, uid: int, findings: Findings, max_bytes: int, max_files: int, max_entries: int) -> None:
        self._uid = uid
        self._findings = findings
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._entries_left = max_entries
        self._bytes = 0

    def look(self, folder: int, path: str, rests: FrozenSet[Rest], depth: int) -> None:
        """Look at all that is in an open folder, and below it; the folder is closed."""
        prefix = "" if path == "." else path + "/"
        try:
            for name, status in self._entries(folder):
                rest = patterns.advance(rests, name)
                if rest and stat.S_ISDIR(status.st_mode):
                    self._look_below(folder, name, prefix + name, patterns.below_folder(rest), depth + 1)
                elif patterns.names_file(rest):
                    self._take(prefix + name, status)
        except OSError:
            self._findings.leave_out(path, "unreadable")
        finally:
            os.close(folder)

    def _entries(self, folder: int) -> Iterator[Tuple[str, os.stat_result]]:
        with os.scandir(folder) as entries:
            found = sorted(itertools.islice(entries, self._entries_left + 1), key=lambda entry: os.fsencode(entry.name))
            if len(found) > self._entries_left:
                self._findings.cut_short = True
                found.pop()
            self._entries_left -= len(found)
            for entry in found:
                with contextlib.suppress(FileNotFoundError):  # gone since
                    yield entry.name, entry.stat(follow_symlinks=False)

    def _look_below(self, folder: int, name: str, path: str, rests: FrozenSet[Rest], depth: int) -> None:
        if depth > _MAX_DEPTH:
            self._findings.leave_out(path, "too_deep")
            return
        try:
            below = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            self._findings.leave_out(path, "unreadable")
            return
        self.look(below, path, rests, depth)

    def _take(self, path: str, status: os.stat_result) -> None:
        why = self._why_not(path, status)
        if why is not None:
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            self._findings.leave_out(path, why, size)
            return
        self._bytes += status.st_size
        self._findings.files.append(Leftover(path, status.st_size, status.st_mtime_ns, status.st_ino))

    def _why_not(self, path: str, status: os.stat_result) -> Optional[str]:
        if not stat.S_ISREG(status.st_mode):
            return "not_a_file"
        if status.st_uid != self._uid:
            return "not_owned"  # perhaps a hard link to another user's file
        if not path.isprintable() or len(path.encode()) > MAX_OUTPUT_PATH_BYTES:
            return "bad_name"
        if status.st_size > self._max_bytes:
            return "too_large"
        if len(self._findings.files) >= self._max_files or self._bytes + status.st_size > self._max_bytes:
            return "over_limit"
        return None


def _descend(descriptor: int, parts: Sequence[str]) -> int:
    """A descriptor of the folder at these names below `descriptor`, which is closed."""
    for part in parts:
        try:
            below = os.open(part, FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _shown(path: str) -> str:
    """The path as it can be told: what cannot be printed is escaped, and what is too long cut."""
    if not path.isprintable():
        path = "".join(part if part.isprintable() else ascii(part)[1:-1] for part in path)
    while len(path.encode()) > MAX_OUTPUT_PATH_BYTES:
        path = path[: len(path) * 3 // 4]
    return path
