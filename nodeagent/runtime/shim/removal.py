"""Removal of a folder with all files that a job has made in it.

Its contents are a member's and need not be friendly: folders in folders as deep as the disk has room for, and perhaps
another process of the same user that moves things about meanwhile. So:

1. The folder's mode is set so that only the agent can pass through it.
2. For each folder in it, files are unlinked and subfolders are moved up beside it. Then it is empty and is removed.
3. This repeats until nothing is left or the time is over: a surviving process may create files faster than they go.

Each step goes from an open folder to a name in it and follows no link, and none goes back up by `..`: whatever is
swapped for whatever, only what stands in the tree is unlinked or moved. Two folders are open at a time, however deep
the tree is, and no path is longer than one name.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
import uuid
from typing import Callable, Iterator, Optional, Tuple

from nodeagent.system.files import FOLDER

_FOLDER_TO_CHANGE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_FRUITLESS_PASSES = 3
"""So often in a row nothing may go before it is given up: what was just swapped for something else goes next time."""

MAX_REMOVAL_S = 300.0
"""So long a removal may take at once."""


def remove_tree(path: str, max_s: float = MAX_REMOVAL_S, now: Callable[[], float] = time.monotonic) -> None:
    """Remove a folder, in which only the agent makes names, and all below it.

    OSError when something of it cannot be removed; all else is gone then. TimeoutError, which is one, when something
    was left after `max_s` seconds: the next removal goes on from there.
    """
    top = os.open(path, FOLDER)
    try:
        os.fchmod(top, 0o700)
        _Removal(top, now() + max_s, now).run()
    finally:
        os.close(top)
    os.rmdir(path)


class _Removal:
    def __init__(self, top: int, until: float, now: Callable[[], float]) -> None:
        self._top = top
        self._until = until
        self._now = now
        self._is_root = os.geteuid() == 0
        prefix = uuid.uuid4().hex  # an earlier removal may have left what it moved
        self._names = ("{}-{}".format(prefix, number) for number in itertools.count())
        self._progress = False
        self._problem: Optional[OSError] = None
        self._is_late = False

    def run(self) -> None:
        """Remove all that is in the folder."""
        fruitless = 0
        while fruitless < _FRUITLESS_PASSES:
            self._progress, self._problem = False, None
            self._empty(self._top)
            if self._is_late:
                raise TimeoutError(errno.ETIMEDOUT, "it took too long, and something is left")
            if not self._progress and self._problem is None:
                return
            fruitless = 0 if self._progress else fruitless + 1
        if self._problem is not None:
            raise self._problem

    def _empty(self, folder: int) -> None:
        """Unlink what is no folder; take apart those at the top, and move deeper ones there."""
        for name, is_folder in _entries(folder):
            if self._now() >= self._until:
                self._is_late = True
                return
            try:
                if not is_folder:
                    os.unlink(name, dir_fd=folder)
                elif folder == self._top:
                    self._take_apart(name)
                else:
                    self._move_up(name, folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._problem = self._problem or error
            else:
                self._progress = True

    def _take_apart(self, name: str) -> None:
        self._unlock(name, self._top)
        folder = os.open(name, FOLDER, dir_fd=self._top)
        try:
            self._empty(folder)
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=self._top)

    def _move_up(self, name: str, folder: int) -> None:
        try:
            os.rmdir(name, dir_fd=folder)  # which also goes where the folder may not be moved
        except FileNotFoundError:
            raise
        except OSError:
            self._unlock(name, folder)
            os.rename(name, next(self._names), src_dir_fd=folder, dst_dir_fd=self._top)

    def _unlock(self, name: str, folder: int) -> None:
        """Let an agent without root do what the job, whose user is its own, has forbidden: caches are read-only."""
        if self._is_root:
            return
        descriptor = os.open(name, _FOLDER_TO_CHANGE, dir_fd=folder)
        try:
            os.chmod("/proc/self/fd/{}".format(descriptor), 0o700)
        finally:
            os.close(descriptor)


def _entries(folder: int) -> Iterator[Tuple[str, bool]]:
    """The names in an open folder, and which of them are folders, as far as they can be told."""
    with os.scandir(folder) as found:
        for entry in found:
            yield entry.name, entry.is_dir(follow_symlinks=False)
