"""Run times of jobs whose owners are unknown: from the ended runs of their group that were submitted at like moments.

Users submit jobs in bursts, and programs submit them by the clock. So an ended run counts the more, the nearer its
submission is in time, and if it was submitted at the same second of the ten minutes; one of another kind counts less.
The run time is the geometric mean with these weights, and its quantiles are those of a normal distribution of the
logarithm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.history import usable_s
from scheduler.predict.runtimes.quantiles import RunTime, Source
from scheduler.predict.runtimes.rules import MIN_SPREAD, around

MAX_RUNS = 1000  # of a group, the latest to end
NEAR_S = 60.0  # at this distance a run counts half
BEAT_S = 600.0
BEAT_WIDTH_S = 3.0
FORGET_S = 86_400.0  # at this distance a run on the beat counts half
FAR_WEIGHT = 1e-3  # of a run at any distance
OTHER_KIND = 0.1

Floats = NDArray[np.float64]


class Neighbours:
    """The latest ended runs by group."""

    def __init__(self) -> None:
        self._runs: defaultdict[Hashable, Floats] = defaultdict(lambda: np.zeros((3, 0)))
        self._new: defaultdict[Hashable, list[tuple[float, float, float]]] = defaultdict(list)
        self._kinds: dict[Hashable, int] = {}

    def add(self, group: Hashable, kind: Hashable, submitted_at: float, took_s: float) -> None:
        """Learn from a run that ended after those that are known; one without a usable duration does not count."""
        seconds = usable_s(took_s)
        if seconds is not None:
            self._new[group].append((submitted_at, seconds, self._number(kind)))

    def knows(self, group: Hashable) -> bool:
        """True if a run of the group has ended."""
        return group in self._runs or group in self._new

    def predict(self, group: Hashable, jobs: Sequence[tuple[Hashable, float, float | None]]) -> list[RunTime] | None:
        """The run times of jobs of one group, by kind, submission and limit; None if no run of it has ended."""
        if not self.knows(group):
            return None
        submitted, took_s, kinds = self._latest(group)
        kind, at, limits = zip(*jobs, strict=True)
        distance = np.abs(np.array(at)[:, None] - submitted)
        phase = distance % BEAT_S
        on_beat = (phase <= BEAT_WIDTH_S) | (phase >= BEAT_S - BEAT_WIDTH_S)
        weights = 1 / (1 + (distance / NEAR_S) ** 2) + FAR_WEIGHT + on_beat / (1 + distance / FORGET_S)
        same = np.array([self._number(one) for one in kind])[:, None] == kinds
        weights *= np.where(same, 1.0, OTHER_KIND)
        weights /= weights.sum(axis=1, keepdims=True)
        logs = np.log(took_s)
        center = weights @ logs
        spread = np.sqrt(np.maximum(0.0, weights @ logs**2 - center**2))
        return [
            around(middle, max(MIN_SPREAD, deviation), limit_s, Source.HISTORY)
            for middle, deviation, limit_s in zip(center.tolist(), spread.tolist(), limits, strict=True)
        ]

    def _latest(self, group: Hashable) -> Floats:
        """Submissions, run times, s, and kinds of the group's latest runs, (3, n)."""
        new = self._new.pop(group, None)
        if new:
            self._runs[group] = np.hstack([self._runs[group], np.array(new).T])[:, -MAX_RUNS:]
        return self._runs[group]

    def _number(self, kind: Hashable) -> int:
        return self._kinds.setdefault(kind, len(self._kinds))
