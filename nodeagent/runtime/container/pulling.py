"""Reading what comes from a pull, and when a pull is given up: nobody wants it any more, or its registry is silent.

A spec may name any host as a registry, also one that takes a connection and then says nothing.
"""

from __future__ import annotations

import os
import select
import time
from typing import Callable, Iterator

from nodeagent.protocol import EndReason
from nodeagent.runtime.container.engine import EngineError, ImageProblem, Wanted
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED

STALLED_S = 120.0
"""So long a pull may go without any progress. Then its registry counts as out of reach."""

_LOOK_EVERY_S = 0.5
_READ_BYTES = 1 << 16


def pieces_of(
    descriptor: int,
    wanted: Wanted,
    *,
    moved: Callable[[], int] = lambda: 0,
    patience_s: Callable[[], float] = lambda: STALLED_S,
) -> Iterator[bytes]:
    """What can be read from a descriptor, as it comes, until its end.

    Whether it is `wanted` is looked at twice a second, whatever comes. `ImageProblem` when for `patience_s` nothing
    came and `moved`, a count of whatever shows progress without a word, has not changed.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    count, since = moved(), time.monotonic()
    while True:
        if not wanted():
            raise EngineError(STOPPED_BEFORE_IT_STARTED)
        ready, now = poller.poll(_LOOK_EVERY_S * 1000), time.monotonic()
        last, count = count, moved()
        if ready or count != last:
            since = now
        elif now - since >= patience_s():
            detail = "nothing came for {:.0f} s, and the pull was given up".format(now - since)
            raise ImageProblem(EndReason.IMAGE_UNREACHABLE, detail)
        if ready:
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                return
            yield data
