"""How long a job will take yet, by what was predicted of it; several policies order jobs by that.

A running job is charged a second for each second that it runs, also beyond its prediction: then it has less than
nothing left, and still comes before all those that are predicted to need something. So the order of those that run
never changes by itself, and no clock has to be asked to keep it.
"""

from __future__ import annotations

import math

from scheduler.model import Job, Running


def rest_s(job: Job, unknown_s: float | None) -> float:
    """Seconds that a waiting job will run yet; without a prediction, what is left of `unknown_s`, or no end of them."""
    if job.remaining_s is not None:
        return job.remaining_s
    if job.expected_s is not None:
        return job.expected_s - (job.ran_s if job.checkpoints else 0.0)
    if unknown_s is None:
        return math.inf
    return unknown_s - (job.ran_s if job.checkpoints else 0.0)


def ends_at(run: Running, unknown_s: float | None) -> float:
    """The moment at which a running job will end; without a prediction, never, or as `unknown_s` says."""
    return run.placed_at + rest_s(run.job, unknown_s)


def left_s(run: Running, now: float, unknown_s: float | None) -> float:
    """Seconds that a running job will run yet: less than 0 once it has run for longer than was predicted."""
    return ends_at(run, unknown_s) - now


def stayed(run: Running, now: float, least_s: float) -> bool:
    """Whether a running job has had its GPUs for so long; a microsecond is nothing, as clocks are counted in floats."""
    return now - run.placed_at >= least_s - 1e-6
