"""Reads the stream of a pull, and gives the pull up when it is no longer wanted or its registry is too slow.

A spec may name any host as a registry, also one that takes a connection and then says nothing, or one that lets an
image drip. So a pull ends

1. when it shows nothing at all for a time, which depends on what it is `Doing`;
2. when in a whole window less has come from its registry than from the slowest honest line.
"""

from __future__ import annotations

import os
import select
import time
from typing import Callable, Iterator

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container.engine import EngineError, ImageProblem
from nodeagent.runtime.container.images import Doing
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED, Wanted

STALLED_S = 120.0
"""So long a pull may go without any progress. Then its registry counts as out of reach."""
WINDOW_S = 300.0
MIN_BYTES_PER_S = float(16 << 10)
"""Bytes per second below which, for a whole window, a registry counts as out of reach too."""

_UNPACKING_S = 900.0
"""Seconds that an engine may be silent while it unpacks layers: some do not report progress then."""
_HELD_UP_S = 1800.0
"""Seconds that an engine may queue a pull behind others; it says the same of one whose registry has fallen silent."""
_LOOK_EVERY_S = 0.5
_READ_BYTES = 1 << 16


class Pulse:
    """Signs of life of a pull: the bytes it has `moved`, and its phase, `doing`."""

    def __init__(self, moved: Callable[[], int], doing: Callable[[], Doing]) -> None:
        self._moved = moved
        self._doing_now = doing
        self._count = moved()
        self._since = time.monotonic()
        self._begin_window(doing(), self._since)

    def look(self, came: bool) -> None:
        """Return if it may go on; `came` says whether there was a word of it. Else `ImageProblem`."""
        now, before, doing = time.monotonic(), self._count, self._doing_now()
        self._count = self._moved()
        if came or self._count != before or doing is not self._doing:
            self._since = now
        elif now - self._since >= _patience_s(doing):
            raise _out_of_reach("nothing came for {:.0f} s, and the pull was given up".format(now - self._since))
        if doing is not self._doing:
            self._begin_window(doing, now)
        elif now - self._window_at >= WINDOW_S:
            self._end_window(now)

    def _begin_window(self, doing: Doing, now: float) -> None:
        self._doing = doing
        self._window_at, self._window_count = now, self._count

    def _end_window(self, now: float) -> None:
        """Begin the next window with what this one tells; only of what it fetches is a registry the cause."""
        took_s = now - self._window_at
        bytes_per_s = (self._count - self._window_count) / took_s
        self._begin_window(self._doing, now)
        if self._doing is not Doing.FETCHING:
            return
        if bytes_per_s < MIN_BYTES_PER_S:
            text = "no more than {:.2f} KiB/s came for {:.0f} s, and the pull was given up"
            raise _out_of_reach(text.format(bytes_per_s / 1024, took_s))


def pieces_of(
    descriptor: int, wanted: Wanted, *, moved: Callable[[], int], doing: Callable[[], Doing] = lambda: Doing.FETCHING
) -> Iterator[bytes]:
    """Yield a descriptor's bytes as they come, until its end; `ImageProblem` when the pull is given up.

    `wanted`, which says if it may go on, is asked twice a second, with or without new bytes.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    pulse = Pulse(moved, doing)
    while True:
        if not wanted():
            raise EngineError(STOPPED_BEFORE_IT_STARTED)
        ready = bool(poller.poll(_LOOK_EVERY_S * 1000))
        pulse.look(ready)
        if ready:
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                return
            yield data


def _patience_s(doing: Doing) -> float:
    least = {Doing.FETCHING: 0.0, Doing.UNPACKING: _UNPACKING_S, Doing.HELD_UP: _HELD_UP_S}
    return max(STALLED_S, least[doing])


def _out_of_reach(detail: str) -> ImageProblem:
    return ImageProblem(EndReason.IMAGE_UNREACHABLE, detail)
