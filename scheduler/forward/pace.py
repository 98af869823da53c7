"""The moments of a draw at which it decides: at each change in the first minutes, then on a growing grid.

Where decisions cost so much that a draw could not come to its end in its time, they are made as rarely as it needs,
yet before more than a fifth of the GPUs is idle: a draw that decides too rarely has too little throughput.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EXACT_S = 900.0  # until then each change is decided on at once
COARSE = 0.02  # afterwards, the parts of the GPUs and of the time for which a decision waits
_PLENTY = 1_000  # affordable decisions, from which on their cost does not count
_MAX_IDLE = 0.2  # of the GPUs
_GRID_S = 300.0  # rare decisions are spaced evenly by the logarithm of the time plus this


class Pace:
    """The pace of one draw in a pool with this many GPUs, which must end at `over_at` by the clock."""

    def __init__(
        self, *, gpus: int, horizon_s: float, coarse: float, clock: Callable[[], float], over_at: float
    ) -> None:
        self._gpus, self._horizon_s, self._coarse = gpus, horizon_s, coarse
        self._clock, self._over_at = clock, over_at
        self._took_s, self._decisions = 0.0, 0

    @property
    def is_over(self) -> bool:
        """True if the time is used up."""
        return self._clock() >= self._over_at

    @contextmanager
    def decision(self) -> Iterator[None]:
        """Count the block as one decision, with its cost."""
        began = self._clock()
        yield
        self._took_s += self._clock() - began
        self._decisions += 1

    def waits(self, passed_s: float, *, next_s: float, since_s: float, freed: int, wanted: float) -> bool:
        """True if what has changed since `since_s` is decided on at a later event, of which the next is at `next_s`.

        These are times of the draw, of which `passed_s` is the present one. `freed` GPUs are idle since the last
        decision, and waiting jobs ask for `wanted` GPUs.
        """
        if not self._coarse:
            return False
        gap_s = self._coarse * passed_s if passed_s > EXACT_S else 0.0
        enough = self._coarse * self._gpus
        affordable = self._affordable()
        if affordable < _PLENTY:
            span = math.log((self._horizon_s + _GRID_S) / (passed_s + _GRID_S))
            gap_s = max(gap_s, (passed_s + _GRID_S) * span / affordable)
            enough = max(enough, min(_MAX_IDLE * self._gpus, wanted / affordable))
        return freed < max(1.0, enough) and next_s <= since_s + gap_s

    def _affordable(self) -> float:
        """The number of decisions for which there is time."""
        if not self._took_s:
            return math.inf
        return max(1.0, (self._over_at - self._clock()) * self._decisions / self._took_s)
