"""The predicted run time of a job that runs.

1. The share of jobs that take longer than `t` is .9 at the p10, .5 at the p50 and .1 at the p90, and a power of `t`
   between these. Above the p90 it falls as 1/t: a job that outlives its p90 is expected to take twice as long as yet.
   The quantiles are those of the jobs that take longer than `ran_s`.
2. Steps done, of all steps, give the whole time at the present pace. The nearer the end, the more they count. They may
   lengthen a prediction at will, and shorten it to the p10 of the jobs that took as long: a job that names few steps
   to come gains little.
"""

from __future__ import annotations

import math
from itertools import pairwise

from scheduler.predict.history import within
from scheduler.predict.runtimes.quantiles import RunTime, Source
from scheduler.predict.runtimes.rules import Z

_SOON_S = 1e-3  # a moment counts as reached from this long before
_SHARES = (0.9, 0.5, 0.1)  # of jobs that take longer
_PACE_SPREAD = 0.3  # deviation of the logarithm of the time by steps, at the first step
_MIN_DEVIATION = 0.02
_MIN_STEP_SHARE = 0.01  # before, most of the time went into the start


def corrected(
    run_time: RunTime,
    *,
    ran_s: float,
    limit_s: float | None = None,
    step: float | None = None,
    total: float | None = None,
) -> RunTime:
    """The quantiles of the whole run time of a job that has run for `ran_s` and done `step` of `total` steps."""
    if not ran_s > 0:
        return run_time
    points = [(0.0, 0.0)]  # logarithms of time and of the share of longer jobs
    for seconds, share in zip((run_time.p10_s, run_time.p50_s, run_time.p90_s), _SHARES, strict=True):
        points.append((max(points[-1][0] + 1e-6, math.log(max(seconds, 1.0))), math.log(share)))
    lived = _log_share(points, math.log(max(ran_s, 1.0)))
    logs = [_log_time(points, lived + math.log(share)) for share in _SHARES]
    source = Source.OUTLIVED if ran_s >= run_time.p90_s else run_time.source
    by_steps = _by_steps(logs, ran_s, step, total)
    if by_steps is not None:
        logs, source = by_steps, Source.PROGRESS
    low, middle, high = (max(ran_s, within(math.exp(log), limit_s)) for log in logs)
    return RunTime(low, middle, high, source)


def corrected_at(run_time: RunTime, *, ran_s: float, limit_s: float | None = None) -> RunTime:
    """The quantiles for the order of jobs: corrected when the job outlives its p50, and again when it outlives that.

    Between, the time left only falls, so that two jobs alike do not preempt each other over and over.
    """
    known = run_time
    while known.p50_s <= ran_s + _SOON_S:
        longer = corrected(run_time, ran_s=known.p50_s, limit_s=limit_s)
        if longer.p50_s <= known.p50_s:  # the limit
            return corrected(run_time, ran_s=ran_s, limit_s=limit_s)
        known = longer
    return known


def _by_steps(logs: list[float], ran_s: float, step: float | None, total: float | None) -> list[float] | None:
    if step is None or total is None or not (math.isfinite(total) and 0 < step <= total):
        return None
    done = step / total
    if done < _MIN_STEP_SHARE:
        return None
    pace = math.log(max(ran_s, 1.0) / done)
    deviation = max(_MIN_DEVIATION, _PACE_SPREAD * (1 - done))
    prior = max(_MIN_DEVIATION, (logs[2] - logs[0]) / (2 * Z))
    weight = prior**2 / (prior**2 + deviation**2)
    middle = weight * pace + (1 - weight) * logs[1]
    spread = Z * deviation * weight**0.5
    return [max(logs[0], middle + at * spread) for at in (-1.0, 0.0, 1.0)]


def _log_share(points: list[tuple[float, float]], log_s: float) -> float:
    """The logarithm of the share of jobs that take longer."""
    for (low, above), (high, below) in pairwise(points):
        if log_s <= high:
            return above + (below - above) * (log_s - low) / (high - low)
    last, share = points[-1]
    return share - (log_s - last)


def _log_time(points: list[tuple[float, float]], log_share: float) -> float:
    """The logarithm of the time that this share of the jobs takes longer than."""
    for (low, above), (high, below) in pairwise(points):
        if log_share >= below:
            return low + (high - low) * (log_share - above) / (below - above)
    last, share = points[-1]
    return last + (share - log_share)
