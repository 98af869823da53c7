"""Ships the logs and the files of all allocations with a few threads; one log is never in two threads at once."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Generic, Optional, Protocol, TypeVar

from nodeagent.ship.logstream import LogStream
from nodeagent.sync.outbox import Entry
from nodeagent.system.workpool import WorkPool

END_PATIENCE_S = 0.05
"""Seconds that the end of a log waits for the end of its job, to be told in one message."""


class Stream(Protocol):
    """Something of one allocation that is shipped piece by piece."""

    id: int
    done: bool
    """True if all is shipped, or the platform no longer wants it."""

    def step(self) -> Optional[float]:
        """Ship one piece; return in how many seconds to come again, or None when there is nothing to do for now."""

    def close(self) -> None:
        """Let go of open files."""


S = TypeVar("S", bound=Stream)


class _Slot(Generic[S]):
    """A stream and whether it is queued, being shipped, or needed again meanwhile; `turn` numbers its turns."""

    def __init__(self, stream: S) -> None:
        self.stream = stream
        self.busy = False
        self.again = False
        self.stepping = False
        self.turn = 0


class Shipper(Generic[S]):
    """All streams of one kind. Its methods may be called from any thread."""

    def __init__(self, pool: WorkPool, finished: Callable[[S], None]) -> None:
        self._pool = pool
        self._finished = finished
        self._mutex = threading.Lock()
        self._slots: Dict[int, _Slot[S]] = {}
        self._paused_until = 0.0

    def add(self, stream: S) -> None:
        """Ship it from now on."""
        with self._mutex:
            self._slots[stream.id] = _Slot(stream)
        self.poke(stream.id)

    def poke(self, allocation_id: int, delay_s: float = 0.0) -> None:
        """There is something new to ship, in `delay_s` seconds at the latest."""
        with self._mutex:
            slot = self._slots.get(allocation_id)
            if slot is None:
                return
            if slot.busy:
                slot.again = True
                return
            slot.busy = True
            turn = slot.turn
        self._pool.submit(lambda: self._turn(slot, turn), max(delay_s, self._pause_left_s()))

    def drop(self, allocation_id: int) -> None:
        """Ship no more of it."""
        with self._mutex:
            slot = self._slots.pop(allocation_id, None)
        if slot is not None:
            slot.stream.done = True

    def pause(self, seconds: float) -> None:
        """Ship nothing for a while: the platform asked."""
        self._paused_until = time.monotonic() + seconds

    def _pause_left_s(self) -> float:
        return max(0.0, self._paused_until - time.monotonic())

    def _turn(self, slot: _Slot[S], turn: int) -> None:
        """Ship one piece, then let others have their turn."""
        with self._mutex:
            if turn != slot.turn:
                return
            slot.stepping = True
        wait_s: Optional[float] = self._pause_left_s()
        if not wait_s:
            slot.again = False
            wait_s = slot.stream.step()
        self._stepped(slot, wait_s)

    def _stepped(self, slot: _Slot[S], wait_s: Optional[float]) -> None:
        if slot.stream.done:
            slot.stream.close()
            with self._mutex:
                known = self._slots.pop(slot.stream.id, None)
            if known is not None:
                self._finished(slot.stream)
            return
        with self._mutex:
            slot.stepping = False
            if wait_s is None and not slot.again:
                slot.busy = False
                return
            turn = slot.turn
        self._pool.submit(lambda: self._turn(slot, turn), wait_s or 0.0)


class LogShipper(Shipper[LogStream]):
    """All logs of the agent."""

    def finalise(self, allocation_id: int, size: int) -> None:
        """A job is over; its log is closed once it is shipped. For a moment that is left to who tells the job's end."""
        with self._mutex:
            slot = self._slots.get(allocation_id)
        if slot is not None:
            slot.stream.finalise(size)
            self.poke(allocation_id, END_PATIENCE_S)

    def take_last(self, allocation_id: int) -> Optional[Entry]:
        """The log's final entry, to be told with the job's end, if it is ready now: nothing waits for it."""
        with self._mutex:
            slot = self._slots.get(allocation_id)
            if slot is None or slot.stepping or self._pause_left_s():
                return None
            slot.turn += 1  # the turn that it waits for is off
            slot.busy = slot.stepping = True
            slot.again = False
        item = slot.stream.last()
        if item is None:
            self._stepped(slot, 0.0)
            return None
        return item, lambda answer: self._stepped(slot, slot.stream.told(answer))

    def size(self, allocation_id: int) -> Optional[int]:
        """Bytes that a job has written, if its log is still being shipped."""
        with self._mutex:
            slot = self._slots.get(allocation_id)
        return None if slot is None else slot.stream.size()
