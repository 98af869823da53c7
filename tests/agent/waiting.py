"""Waiting in tests: for a condition and against a deadline, never for a time."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], what: str = "the condition", within_s: float = 10.0) -> T:
    """The first true value of `look`; fails when there is none in time."""
    until = time.monotonic() + within_s
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() >= until:
            raise AssertionError(f"{what} did not come true within {within_s} s; last seen: {value!r}")
        select.select([], [], [], 0.005)
