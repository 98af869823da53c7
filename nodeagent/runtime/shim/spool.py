"""A bounded spool of bytes: segment files named by the offset of their first byte.

The shim alone writes and deletes, the agent alone reads; they share no lock. A byte that could not be kept (the spool
was full of newer ones, or the disk was) is a hole, and holes need no record of their own: they are what no segment
covers. Offsets count every byte that was offered.

The first segment stays as long as there are others to give up. A log above its cap keeps its beginning and its newest
part: a job that floods its log would otherwise write over the beginning before a reader comes.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import List, Optional, Tuple

_FULL = (errno.ENOSPC, errno.EDQUOT)


def _name(start: int) -> str:
    return "{:020d}".format(start)


def _starts(folder: str) -> List[int]:
    return sorted(int(name) for name in os.listdir(folder) if name.isdigit())


def _by_worth(starts: List[int]) -> List[int]:
    """In the order in which segments are given up."""
    return [*starts[1:], 0] if starts[:1] == [0] else starts


class SpoolWriter:
    """Appends to a spool and gives up its oldest segments but the first beyond `cap_bytes`.

    Never raises, whatever becomes of the disk or the folder: who writes answers for a job, and must not end before it.
    """

    def __init__(self, folder: str, cap_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = max(1, cap_bytes // 8)
        self._keep = 8
        self._descriptor = -1
        self._room = 0
        self.size = 0
        """Bytes offered so far; the offset of the next one."""

    def append(self, data: bytes) -> None:
        """Keep `data` as far as there is room, and count it in any case."""
        view = memoryview(data)
        while view:
            try:
                written = self._write(view)
            except OSError:  # such as of a folder that was taken away
                written = None
            if written is None:  # these bytes become a hole, as on a full disk
                self._abandon_segment()
                self.size += len(view)
                return
            self.size += written
            self._room -= written
            view = view[written:]

    def close(self) -> None:
        """Let go of the open segment; the next byte begins a new one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._room = -1, 0

    def _abandon_segment(self) -> None:
        """Close the segment before a hole; an empty one goes, or empty ones would crowd out what is kept."""
        if self._descriptor >= 0 and self._room == self._segment_bytes:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, _name(self.size)))
        self.close()

    def _write(self, view: memoryview) -> Optional[int]:
        for _ in range(self._keep):
            try:
                if self._room <= 0:
                    self._open_segment()
                return os.write(self._descriptor, view[: self._room])
            except OSError as error:
                if error.errno not in _FULL:
                    raise
            if not self._give_up_oldest():
                return None
        return None

    def _open_segment(self) -> None:
        self.close()
        starts = _starts(self._folder)
        for start in _by_worth(starts)[: max(0, len(starts) - self._keep + 1)]:
            os.unlink(os.path.join(self._folder, _name(start)))
        path = os.path.join(self._folder, _name(self.size))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._room = self._segment_bytes

    def _give_up_oldest(self) -> bool:
        """Free the oldest segment that is not being written, the first one last; False when there is none."""
        starts = _starts(self._folder)
        if self._descriptor >= 0:
            starts = starts[:-1]
        if not starts:
            return False
        os.unlink(os.path.join(self._folder, _name(_by_worth(starts)[0])))
        return True


class SpoolReader:
    """Reads a spool while it is being written; every byte it returns is at the offset it says."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptor = -1
        self._start = 0

    def read(self, offset: int, limit: int) -> Tuple[int, bytes]:
        """The first bytes kept at or after `offset`, and where they begin; empty when there are none (yet)."""
        data = self._read_open(offset, limit)
        if data:
            return offset, data
        starts = _starts_or_none(self._folder)
        # A later segment exists, so the writer has left the open one: what is in it now is all there will be.
        data = self._read_open(offset, limit)
        if data:
            return offset, data
        before = [start for start in starts if start <= offset]
        for start in before[-1:] + [start for start in starts if start > offset]:
            if not self._open(start):
                continue
            begin = max(offset, start)
            data = self._read_open(begin, limit)
            if data:
                return begin, data
        return offset, b""

    def end(self) -> int:
        """The offset after the last byte that is kept."""
        for start in reversed(_starts_or_none(self._folder)):
            try:
                size = os.stat(os.path.join(self._folder, _name(start))).st_size
            except FileNotFoundError:
                continue
            if size:
                return start + size
        return 0

    def close(self) -> None:
        """Let go of the open segment."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _open(self, start: int) -> bool:
        if self._descriptor >= 0 and self._start == start:
            return True
        self.close()
        try:
            self._descriptor = os.open(os.path.join(self._folder, _name(start)), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # given up meanwhile: the next segment tells how much
            return False
        self._start = start
        return True

    def _read_open(self, offset: int, limit: int) -> bytes:
        if self._descriptor < 0 or offset < self._start:
            return b""
        return os.pread(self._descriptor, limit, offset - self._start)


def _starts_or_none(folder: str) -> List[int]:
    """A folder that was removed is an empty spool."""
    try:
        return _starts(folder)
    except FileNotFoundError:
        return []
