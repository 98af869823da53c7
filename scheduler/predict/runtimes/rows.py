"""Runs as they were known when they were submitted: what a model learns from, and what it is scored on.

A run that its limit stops takes seconds longer, until its processes have ended; it counts as long as the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.history import EndedRun, History, usable_s, within
from scheduler.predict.runtimes.features import categories, numbers
from scheduler.predict.trees import Floats

_AT_LIMIT = 0.99  # of the limit


@dataclass(frozen=True, slots=True)
class Rows:
    """One row for each run, in the order of their ends. Durations are logarithms of seconds."""

    numbers: Floats  # (runs, features)
    categories: Sequence[tuple[str, ...]]
    submitted_at: Floats
    ended_at: Floats
    took: Floats
    censored: NDArray[np.bool_]
    limit: Floats  # infinite without one
    last_two: Floats  # by that rule, else the limit; NaN if neither is known

    def __len__(self) -> int:
        return len(self.took)

    def part(self, which: NDArray[np.int64]) -> Rows:
        """The rows with these indices."""
        return Rows(
            self.numbers[which],
            [self.categories[at] for at in which],
            self.submitted_at[which],
            self.ended_at[which],
            self.took[which],
            self.censored[which],
            self.limit[which],
            self.last_two[which],
        )

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Rows whose time under their limit is known: runs that ended by themselves or by the limit."""
        return ~self.censored | (self.took >= self.limit + math.log(_AT_LIMIT))


def rows_of(runs: Iterable[EndedRun], *, until: float = math.inf) -> Rows:
    """The rows of the runs that ended by `until`; those without a usable duration are left out."""
    usable = [run for run in runs if run.ended_at <= until and usable_s(run.took_s) is not None]
    usable.sort(key=lambda run: run.job.submitted_at)
    history, ends = History(), list[tuple[float, int]]()
    told: list[list[float]] = []
    rules: list[tuple[float, float]] = []
    for at, run in enumerate(usable):
        job = run.job
        while ends and ends[0][0] <= job.submitted_at:
            history.add(usable[heappop(ends)[1]])
        heappush(ends, (run.ended_at, at))
        told.append(numbers(job, history))
        limit_s, last_s = usable_s(job.limit_s), history.last_two_s(job)
        rules.append((_log(limit_s, math.inf), _log(limit_s if last_s is None else last_s, math.nan)))
    limits, last_two = np.array(rules, dtype=np.float64).reshape(-1, 2).T
    ended_at = np.array([run.ended_at for run in usable], dtype=np.float64)
    rows = Rows(
        np.array(told, dtype=np.float64),
        [categories(run.job) for run in usable],
        np.array([run.job.submitted_at for run in usable], dtype=np.float64),
        ended_at,
        np.array([math.log(within(run.took_s, run.job.limit_s)) for run in usable], dtype=np.float64),
        np.array([run.censored for run in usable], dtype=np.bool_),
        limits,
        last_two,
    )
    return rows.part(np.argsort(ended_at, kind="stable"))


def _log(seconds: float | None, otherwise: float) -> float:
    return otherwise if seconds is None else math.log(seconds)
