"""The remaining run time of jobs by their predictions, for policies that order jobs by it.

All times are work: seconds at the speed for which the run time was predicted. So a job on slow GPUs and a waiting job
compare by what each would need on the same GPUs. A running job is charged the work that it does (`Running.work_rate`),
also beyond its prediction: its remaining time is then negative, and it precedes all jobs with a positive one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from scheduler.authoring import Job, Running

UNKNOWN_S: Final[Mapping[str, Any]] = {
    "type": ["number", "null"],
    "minimum": 0,
    "default": None,
    "description": "The assumed run time of a job without a prediction. null: such jobs come last.",
}


def whole_s(job: Job, unknown_s: float | None) -> float:
    """The total run time, s; without a prediction, `unknown_s` or infinity."""
    if job.expected_s is not None:
        return job.expected_s
    return math.inf if unknown_s is None else unknown_s


def rest_s(job: Job, unknown_s: float | None) -> float:
    """The remaining run time of a waiting job, s; without a prediction of it, from its total run time."""
    if job.remaining_s is not None:
        return job.remaining_s
    return whole_s(job, unknown_s) - (job.ran_s if job.checkpoints else 0.0)


def ends_at(run: Running, unknown_s: float | None) -> float:
    """The end of a running job at its present speed; it is constant while the job runs."""
    rest = rest_s(run.job, unknown_s)
    return run.placed_at + (rest if run.work_rate == 1.0 else rest / run.work_rate if run.work_rate > 0 else math.inf)


def left_s(run: Running, now: float, unknown_s: float | None) -> float:
    """The remaining work of a running job, s; negative once it exceeds its prediction.

    Not computed from `ends_at`, whose rounding would put a job that has just begun behind a waiting one of equal
    length.
    """
    return rest_s(run.job, unknown_s) - run.work_rate * (now - run.placed_at)


def width(job: Job) -> int:
    """The factor from a job's run time to its service: its GPUs, or 1 for a job without any."""
    return max(1, job.request.gpus_total)
