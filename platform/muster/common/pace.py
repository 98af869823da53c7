"""Rate limits: a few times at once, and once in a period in the long run."""

from __future__ import annotations

import math


class Pace:
    """Turns that are `every_s` seconds apart in the long run; after a pause, up to `at_once` of them follow each other.

    It is the generic cell rate algorithm.
    """

    def __init__(self, every_s: float, *, at_once: int) -> None:
        self._every_s = every_s
        self._spared_s = (at_once - 1) * every_s
        self._next_at = -math.inf

    def wait_s(self, now: float) -> float:
        """The seconds until the next turn may begin, after one that has begun at `now` on any steady clock."""
        self._next_at = max(self._next_at, now - self._spared_s) + self._every_s
        return max(0.0, self._next_at - now)
