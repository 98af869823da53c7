"""Waiting in tests: for a condition and against a deadline, never for a time."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A look may read many files, and many tests wait at once: the pauses between looks grow with the time waited, so that
# waiting takes little of a processor and no more than a twentieth longer than it has to.
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.005, 0.1
_PAUSE_SHARE = 0.05
_MAX_PATIENCE = 4.0


def eventually(
    look: Callable[[], T], what: str = "the condition", within_s: float = 10.0, *, max_pause_s: float = _MAX_PAUSE_S
) -> T:
    """Return the first true value of `look`.

    Raises:
        AssertionError: there was none within `within_s` seconds, or a multiple of them on a busy machine.
    """
    began = time.monotonic()
    while True:
        value = look()
        if value:
            return value
        waited_s = time.monotonic() - began
        # The load is read again in each turn: other workers may have begun something heavy since.
        patience_s = stretched(within_s)
        if waited_s >= patience_s:
            raise AssertionError(f"{what} did not come true within {patience_s:g} s; last seen: {value!r}")
        select.select([], [], [], min(max_pause_s, max(_FIRST_PAUSE_S, waited_s * _PAUSE_SHARE)))


def stretched(limit_s: float) -> float:
    """A limit of time, as much longer as this machine is busy now."""
    return limit_s * patience(os.getloadavg()[0], os.cpu_count() or 1)


def patience(load: float, cpus: int) -> float:
    """The factor by which deadlines are longer where `load` processes want `cpus` processors: from 1 to 4."""
    return min(_MAX_PATIENCE, max(1.0, load / cpus))
