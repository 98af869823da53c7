"""Disk usage of the folders of jobs, in allocated bytes or in files. A job may build a tree to defeat the count.

1. No link is followed: each folder is opened relative to its parent's descriptor, as a folder.
2. A tree may be of any depth. The first levels stay open; below those, `..` leads back up, and it must be the folder
   that the walk came from.
3. Other mounts are left out. A hard-linked file counts once; past `_MAX_LINKED_FILES`, each of its names counts for a
   fraction of it.
4. The walk ends after a number of entries or seconds, or once the amount reaches `enough`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from nodeagent.disk.rules import Unit
from nodeagent.runtime.shim.tree import seen_at
from nodeagent.system.files import FOLDER

_BLOCK_BYTES = 512
_MAX_OPEN_FOLDERS = 64
_LOOK_AT_CLOCK_EVERY = 1024
# Each holds a name of up to 255 bytes.
_MAX_PENDING_FOLDERS = 100_000
# Each takes about 80 bytes.
_MAX_LINKED_FILES = 250_000
_DELETED = " (deleted)"

MAX_ENTRIES, MAX_WALK_S = 2_000_000, 20.0


@dataclass(frozen=True)
class Taken:
    """The amount that a folder takes, in the unit of the walk, and the number of names counted. If `whole` is False,
    the count is incomplete and `amount` is a lower bound.
    """

    amount: int = 0
    entries: int = 0
    whole: bool = True


class Walk:
    """Counts the folders of one job, within bounds for all of them together."""

    def __init__(
        self,
        device: int,
        unit: Unit,
        *,
        max_entries: int = MAX_ENTRIES,
        max_s: float = MAX_WALK_S,
        enough: Optional[int] = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._unit = unit
        self._left = max_entries
        self._now = now
        self._until = now() + max_s
        self._enough = enough
        self._seen: Dict[int, Set[int]] = {}
        """Inodes of the hard-linked files that were counted, by device."""
        self._seen_left = _MAX_LINKED_FILES
        self._total = 0.0
        self._over = False

    def count(self, folder: str) -> Taken:
        """Measure the tree of `folder` on this walk's disk."""
        try:
            descriptor = os.open(folder, FOLDER)
        except OSError as error:
            return Taken(whole=isinstance(error, (FileNotFoundError, NotADirectoryError)))
        tree = _Tree(self)
        try:
            tree.enter(descriptor)
            while tree.levels and not self._over:
                tree.step()
        finally:
            tree.close()
        return Taken(int(tree.amount), tree.entries, tree.whole and not self._over and self._seen_left >= 0)

    def is_ours(self, found: os.stat_result) -> bool:
        """True if a folder lies on this walk's disk."""
        return found.st_dev == self._device

    def take(self, found: os.stat_result) -> float:
        """The amount that an entry adds."""
        self._left -= 1
        if self._left <= 0 or (self._left % _LOOK_AT_CLOCK_EVERY == 0 and self._now() >= self._until):
            self._over = True
        amount: float = _held(found, self._unit)
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            amount *= self._part(found)
        self._total += amount
        if self._enough is not None and self._total >= self._enough:
            self._over = True
        return amount

    def _part(self, found: os.stat_result) -> float:
        """The share of a hard-linked file that one of its names counts for; the shares add up to 1 at most."""
        seen = self._seen.setdefault(found.st_dev, set())
        if found.st_ino in seen:
            return 0.0
        if self._seen_left <= 0:
            self._seen_left = -1
            return 1 / found.st_nlink
        self._seen_left -= 1
        seen.add(found.st_ino)
        return 1.0

    @property
    def over(self) -> bool:
        """True if the walk has reached one of its limits."""
        return self._over


class _Level:
    """A folder on the current path: its descriptor (-1 while closed), its identity, and the subfolders to visit."""

    __slots__ = ("descriptor", "identity", "names")

    def __init__(self, descriptor: int, identity: Tuple[int, int]) -> None:
        self.descriptor = descriptor
        self.identity = identity
        self.names: List[str] = []


class _Tree:
    """The state of a walk through one tree."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._waiting = 0
        self.levels: List[_Level] = []
        self.amount = 0.0
        self.entries = 0
        self.whole = True

    def step(self) -> None:
        """Enter the next subfolder, or go up if there is none."""
        level = self.levels[-1]
        if not level.names:
            self._leave()
            return
        self._waiting -= 1
        try:
            descriptor = os.open(level.names.pop(), FOLDER, dir_fd=level.descriptor)
        except FileNotFoundError:
            return
        except OSError:  # no folder any more, or not one that we may read
            self.whole = False
            return
        self.enter(descriptor)

    def enter(self, descriptor: int) -> None:
        """Count the folder's entries and make it the deepest level."""
        found = os.fstat(descriptor)
        if not self._walk.is_ours(found):
            os.close(descriptor)
            return
        if len(self.levels) >= _MAX_OPEN_FOLDERS:
            os.close(self.levels[-1].descriptor)
            self.levels[-1].descriptor = -1
        level = _Level(descriptor, (found.st_dev, found.st_ino))
        self.levels.append(level)
        if len(self.levels) == 1:
            self._add(found)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    self._look_at(entry, level)
                    if self._walk.over:
                        return
        except OSError:
            self.whole = False

    def close(self) -> None:
        """Close every folder."""
        for level in self.levels:
            if level.descriptor >= 0:
                os.close(level.descriptor)
        self.levels = []

    def _look_at(self, entry: "os.DirEntry[str]", level: _Level) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            self._add(found)
        elif self._walk.is_ours(found):
            self._add(found)
            if self._waiting < _MAX_PENDING_FOLDERS:
                level.names.append(entry.name)
                self._waiting += 1
            else:
                self.whole = False

    def _add(self, found: os.stat_result) -> None:
        self.amount += self._walk.take(found)
        self.entries += 1

    def _leave(self) -> None:
        left = self.levels.pop()
        if self.levels and self.levels[-1].descriptor < 0:
            above = self.levels[-1]
            above.descriptor = _way_back(left.descriptor, above.identity)
            if above.descriptor < 0:
                self._drop_lost()
        os.close(left.descriptor)

    def _drop_lost(self) -> None:
        """Go on from the deepest folder that is still open: folders were moved during the walk."""
        self.whole = False
        while self.levels and self.levels[-1].descriptor < 0:
            self._waiting -= len(self.levels.pop().names)


def _way_back(descriptor: int, identity: Tuple[int, int]) -> int:
    """A descriptor of the parent folder; -1 if its identity differs."""
    try:
        above = os.open("..", FOLDER, dir_fd=descriptor)
    except OSError:
        return -1
    found = os.fstat(above)
    if (found.st_dev, found.st_ino) == identity:
        return above
    os.close(above)
    return -1


def deleted(pids: Iterable[int], devices: Iterable[int], unit: Unit, *, max_entries: int = 20_000) -> int:
    """The amount on these devices in deleted files that these processes keep open.

    Only deleted files are looked at: `stat` of another one may hang on a network server without an answer.
    """
    wanted, seen, total, left = set(devices), set(), 0, max_entries
    for pid in pids:
        folder = seen_at(pid) + "/fd"
        names: List[str] = []
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            names = os.listdir(folder)
        for name in names:
            left -= 1
            if left < 0:
                return total
            path = "{}/{}".format(folder, name)
            try:
                if not _is_deleted(path):
                    continue
                found = os.stat(path)
            except OSError:
                continue
            key = (found.st_dev, found.st_ino)
            if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_dev in wanted and key not in seen:
                seen.add(key)
                total += _held(found, unit)
    return total


def _held(found: os.stat_result, unit: Unit) -> int:
    """The bytes that are allocated to a file, or 1 for one file."""
    return found.st_blocks * _BLOCK_BYTES if unit is Unit.BYTES else 1


def _is_deleted(descriptor: str) -> bool:
    """True if the kernel marks an open file as deleted. It answers without asking the file system."""
    try:
        return os.readlink(descriptor).endswith(_DELETED)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG  # too deep for the kernel to give a path: it may be deleted
