"""Waiting in tests: for a condition and against a deadline, never for a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A look may read many files, and what takes long is not looked at as often.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.03


def eventually(look: Callable[[], T], what: str = "the condition", within_s: float = 10.0) -> T:
    """The first true value of `look`; fails when there is none in time."""
    until, pause_s = time.monotonic() + within_s, _FIRST_PAUSE_S
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() >= until:
            raise AssertionError(f"{what} did not come true within {within_s} s; last seen: {value!r}")
        select.select([], [], [], pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.1)
