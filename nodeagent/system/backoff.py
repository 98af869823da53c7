"""Waiting times between tries that fail: doubling, bounded, and jittered so that agents do not come back in step."""

from __future__ import annotations

import random


class Backoff:
    """The waits of one thing that is tried again and again."""

    def __init__(self, first_s: float = 0.2, max_s: float = 5.0) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def wait_s(self) -> float:
        """Seconds to wait before the next try: between half and all of the current step."""
        step_s = self._next_s
        self._next_s = min(self._max_s, step_s * 2)
        return step_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret

    def reset(self) -> None:
        """Begin anew: it went well."""
        self._next_s = self._first_s
