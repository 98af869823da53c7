"""Work that is done in batches until none is left, as far as one turn of a worker reaches."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_TURN_S = 20.0
"""So long a worker may go on with what waits before it looks at other tasks."""


def in_batches(step: Callable[[], int], *, of: int, until: float | None = None) -> int:
    """Does `step` until it does fewer than `of` things, or the turn is over at `until`; returns how many there were."""
    until = time.monotonic() + MAX_TURN_S if until is None else until
    count = 0
    while time.monotonic() < until:
        found = step()
        count += found
        if found < of:
            break
    return count
