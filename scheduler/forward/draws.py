"""Draws of run times: how much longer each job of a snapshot computes, by its quantiles and how far it is.

The logarithm of a run time is linear in the normal quantile between p10, p50 and p90, and beyond them. A job that has
run for a while is drawn from the rest of its distribution; one that has outlived its p90 runs about as long again as is
expected of it. A time limit ends each run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scheduler.model import Job, Running

UNKNOWN_S = 3600.0  # the median of a job of which neither a run time nor a limit is known
_Z90 = NormalDist().inv_cdf(0.9)
# The p10 and p90 of a job of which only the median is known, as parts of the median.
_P10, _P90 = 0.2, 3.0
# A limit tells little: the quantiles of a job of which only the limit is known, as parts of the limit.
_OF_LIMIT = (0.02, 0.25, 0.9)
_OUTLIVED = 0.95  # the part of a distribution that is behind a job that has outlived it
_MIN_S = 1.0
_MAX_LOG = math.log(366 * 86_400.0)

Floats = NDArray[np.float64]

_Z: Floats = np.linspace(-5, 5, 2001)
_AT: Floats = np.array([NormalDist().cdf(z) for z in _Z])


@dataclass(frozen=True, slots=True)
class Spread:
    """The quantiles of the run time of a job, s, of which `done_s` are behind it, and its limit."""

    p10_s: float
    p50_s: float
    p90_s: float
    done_s: float
    limit_s: float | None

    def left_s(self, at: Floats) -> Floats:
        """The run times that are left at numbers from 0 to 1."""
        low, middle, high = (math.log(max(each, _MIN_S)) for each in (self.p10_s, self.p50_s, self.p90_s))
        done_s = self.done_s
        behind = _probability(math.log(done_s), low, middle, high) if done_s > 0 else 0.0
        if self.p10_s == self.p90_s and done_s < self.p50_s:
            left = np.full(at.shape, self.p50_s - done_s)
        elif behind > _OUTLIVED:
            left = max(self.p50_s - done_s, done_s / 2, _MIN_S) * np.exp(_normal(at))
        else:
            z = _normal(behind + (1 - behind) * at)
            total = np.exp(np.minimum(middle + z / _Z90 * np.where(z < 0, middle - low, high - middle), _MAX_LOG))
            left = np.maximum(total - done_s, 0.0)
        if self.limit_s is not None:
            left = np.minimum(left, max(self.limit_s - done_s, 0.0))
        found: Floats = np.maximum(left, _MIN_S)
        return found


def spread_of(job: Job, run: Running | None, now: float) -> Spread:
    """The distribution of the run time of a job that waits, or runs as told."""
    limit_s, expected_s = job.time_limit_s, job.expected_s
    if job.expected_p10_s is not None and job.expected_p90_s is not None and expected_s is not None:
        low_s, high_s = job.expected_p10_s, max(job.expected_p10_s, job.expected_p90_s)
        middle_s = max(low_s, expected_s)
        high_s = max(high_s, middle_s)
    elif expected_s is not None and (limit_s is None or expected_s < limit_s):
        low_s, middle_s, high_s = expected_s * _P10, expected_s, expected_s * _P90
    elif limit_s is not None:
        low_s, middle_s, high_s = (limit_s * part for part in _OF_LIMIT)
    else:
        low_s, middle_s, high_s = UNKNOWN_S * _P10, UNKNOWN_S, UNKNOWN_S * _P90
    return Spread(low_s, middle_s, high_s, _done_s(job, run, now), limit_s)


def drawn_left_s(spreads: Sequence[Spread], draws: int, seed: int) -> Floats:
    """The run time that each job has left in each draw, s, of the shape (jobs, draws).

    The draws of a job are spread evenly over its distribution, in an order of its own.
    """
    generator = np.random.default_rng(seed)
    strata = generator.permuted(np.tile(np.arange(draws, dtype=np.float64), (len(spreads), 1)), axis=1)
    at = (strata + generator.random((len(spreads), draws))) / draws
    return np.array([spread.left_s(row) for spread, row in zip(spreads, at, strict=True)]).reshape(at.shape)


def _done_s(job: Job, run: Running | None, now: float) -> float:
    """The seconds of its run time that a job has behind it: by its progress, if that is known."""
    ran_s = (job.ran_s if job.checkpoints else 0.0) + (0.0 if run is None else max(0.0, now - run.placed_at))
    left_s = job.remaining_s if run is None else run.remaining_s(now)
    return ran_s if not left_s or job.expected_s is None else max(0.0, job.expected_s - left_s)


def _probability(log_s: float, low: float, middle: float, high: float) -> float:
    """The probability of a run time that is at most this long."""
    span = middle - low if log_s < middle else high - middle
    if span <= 0:
        return 0.0 if log_s < middle else 1.0
    return NormalDist().cdf((log_s - middle) / span * _Z90)


def _normal(at: Floats) -> Floats:
    """The normal quantiles of probabilities."""
    return np.interp(at, _AT, _Z)
