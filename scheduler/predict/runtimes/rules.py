"""The run time of a job without a model, the first of these that is known:

1. the geometric mean of *name stem* and of the user's estimate by the user's record, or that of both which is known;
2. *last two*, or the user's estimate if that is longer;
3. the user's estimate, of a user without any ended job;
4. the limit.

While an owner has ended jobs and no record, the user's own number counts only where it gains nothing: a small one costs
nothing to name.
"""

from __future__ import annotations

import math
from statistics import pstdev

from scheduler.predict.history import History, RunTimeJob, usable_s, within
from scheduler.predict.runtimes.quantiles import RunTime, Source

Z = 1.2816  # of the 90th percentile of a normal distribution
MIN_SPREAD_RUNS = 3  # of fewer runs the spread is unknown
UNKNOWN_SPREAD = 1.5  # deviation of the logarithm
MIN_SPREAD = 0.1
_LIMIT_SHARE = 0.1  # a tenth of the jobs takes less than this share of the limit


def by_rules(job: RunTimeJob, history: History) -> RunTime | None:
    """The run time by rules alone; None if nothing is known."""
    stem_s, told_s = history.name_stem_s(job), history.user_s(job)
    known = [math.log(seconds) for seconds in (stem_s, told_s) if seconds is not None]
    if known:
        logs = history.claims(job) if stem_s is None else [math.log(past.took_s) for past in history.of_stem(job)]
        spread = pstdev(logs) if len(logs) >= MIN_SPREAD_RUNS else UNKNOWN_SPREAD
        source = Source.USER if stem_s is None else Source.HISTORY
        return around(sum(known) / len(known), max(MIN_SPREAD, spread), job.limit_s, source)
    last_s, limit_s, user_s = history.last_two_s(job), usable_s(job.limit_s), usable_s(job.user_s)
    if last_s is not None:
        source = Source.HISTORY if user_s is None or user_s <= last_s else Source.USER
        return around(math.log(max(last_s, user_s or 0.0)), UNKNOWN_SPREAD, job.limit_s, source)
    if user_s is not None:
        return around(math.log(user_s), UNKNOWN_SPREAD, job.limit_s, Source.USER)
    return None if limit_s is None else RunTime(within(_LIMIT_SHARE * limit_s, limit_s), limit_s, limit_s, Source.LIMIT)


def around(center: float, spread: float, limit_s: float | None, source: Source) -> RunTime:
    """The run time with this mean and deviation of its logarithm, which is normal."""
    low, middle, high = (within(math.exp(center + z * spread), limit_s) for z in (-Z, 0.0, Z))
    return RunTime(low, middle, high, source)
