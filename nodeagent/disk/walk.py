"""What folders of jobs take of a disk: bytes that are really held, or files. A tree may be built to defeat who looks.

1. Nothing is followed: each folder is opened by its name below the one that is open, as a folder and no link.
2. A tree may be of any depth. Down to some level the folders on the way stay open; below, the way back is `..`, and
   what is found there must be the folder that was left.
3. Other mounts are left out, and a file with several names counts once. Of more such files than can be remembered,
   each name counts for its part.
4. There is an end to it: after so many entries, so much time, or as soon as it is `enough`.
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
from nodeagent.files import FOLDER
from nodeagent.runtime.shim.tree import seen_at

_BLOCK_BYTES = 512
_MAX_OPEN_FOLDERS = 64
_LOOK_AT_CLOCK_EVERY = 1024
# A name may have 255 bytes, and those of folders wait for their turn.
_MAX_PENDING_FOLDERS = 100_000
# Each takes some 80 bytes.
_MAX_LINKED_FILES = 250_000
_DELETED = " (deleted)"

MAX_ENTRIES, MAX_WALK_S = 2_000_000, 20.0


@dataclass(frozen=True)
class Taken:
    """What a folder takes, in the unit that was asked for; `whole` is False where not everything could be counted, and
    then it takes at least that. `entries` are the names that were counted.
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
        most_entries: int = MAX_ENTRIES,
        most_s: float = MAX_WALK_S,
        enough: Optional[int] = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._unit = unit
        self._left = most_entries
        self._now = now
        self._until = now() + most_s
        self._enough = enough
        self._seen: Dict[int, Set[int]] = {}
        """The files with several names that were counted, by their disk."""
        self._seen_left = _MAX_LINKED_FILES
        self._total = 0.0
        self._over = False

    def count(self, folder: str) -> Taken:
        """What the tree of `folder` takes of the disk that this walk is of."""
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
        """Whether a folder lies on the disk that is looked at."""
        return found.st_dev == self._device

    def take(self, found: os.stat_result) -> float:
        """What an entry adds."""
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
        """How much of a file one of its names counts for; all of them never for more than the file."""
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
        """Whether nothing more is to be counted."""
        return self._over


class _Level:
    """A folder on the way down: its descriptor (-1 while it is closed), what it is, and the folders to go to in it."""

    __slots__ = ("descriptor", "identity", "names")

    def __init__(self, descriptor: int, identity: Tuple[int, int]) -> None:
        self.descriptor = descriptor
        self.identity = identity
        self.names: List[str] = []


class _Tree:
    """How far the walk through one tree is."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._waiting = 0
        self.levels: List[_Level] = []
        self.amount = 0.0
        self.entries = 0
        self.whole = True

    def step(self) -> None:
        """Go one folder down, or up where there is none left."""
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
        """Count what is in the folder; it is the newest level from now on."""
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
        """Let go of every folder."""
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
        """Somebody moves the folders about: go on from the last one that is still open."""
        self.whole = False
        while self.levels and self.levels[-1].descriptor < 0:
            self._waiting -= len(self.levels.pop().names)


def _way_back(descriptor: int, identity: Tuple[int, int]) -> int:
    """The folder above, open; -1 where that is not the one that was left."""
    try:
        above = os.open("..", FOLDER, dir_fd=descriptor)
    except OSError:
        return -1
    found = os.fstat(above)
    if (found.st_dev, found.st_ino) == identity:
        return above
    os.close(above)
    return -1


def deleted(pids: Iterable[int], devices: Iterable[int], unit: Unit, *, most_entries: int = 20_000) -> int:
    """What files take that no folder names any more and that processes keep open, on disks of these numbers.

    Only what was deleted is looked at: any other may lie on a server that does not answer, and then a look has no end.
    """
    wanted, seen, total, left = set(devices), set(), 0, most_entries
    for pid in pids:
        folder = seen_at(pid) + "/fd"
        names: List[str] = []
        with contextlib.suppress(OSError):  # it is gone, or somebody else's
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
    """What a file takes of its disk."""
    return found.st_blocks * _BLOCK_BYTES if unit is Unit.BYTES else 1


def _is_deleted(descriptor: str) -> bool:
    """Whether the name of an open file says that it is none any more. The kernel knows that, and asks nobody."""
    try:
        return os.readlink(descriptor).endswith(_DELETED)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG  # it lies deeper than a path can tell, and may be deleted
