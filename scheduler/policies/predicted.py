"""How long a job will run yet, by what was predicted of it; several policies order jobs by that.

All times are work: seconds at the speed for which the run time was predicted. So a job that runs on slow GPUs and one
that waits compare by what each would need on the same GPUs. A running job is charged the work that it does
(`Running.work_rate`), also beyond its prediction: then it has less than nothing left, and still comes before all those
that are predicted to need something.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from scheduler.model import Job, Running

UNKNOWN_S: Final[Mapping[str, Any]] = {
    "type": ["number", "null"],
    "minimum": 0,
    "default": None,
    "description": "The run time of a job of which none is predicted. null: it comes last.",
}


def whole_s(job: Job, unknown_s: float | None) -> float:
    """Seconds that the job runs in all; without a prediction, `unknown_s`, or no end of them."""
    if job.expected_s is not None:
        return job.expected_s
    return math.inf if unknown_s is None else unknown_s


def rest_s(job: Job, unknown_s: float | None) -> float:
    """Seconds that a waiting job will run yet; without a prediction of them, what its whole run time leaves."""
    if job.remaining_s is not None:
        return job.remaining_s
    return whole_s(job, unknown_s) - (job.ran_s if job.checkpoints else 0.0)


def ends_at(run: Running, unknown_s: float | None) -> float:
    """The moment at which a running job will end at its present speed; it does not change while it runs."""
    rest = rest_s(run.job, unknown_s)
    return run.placed_at + (rest if run.work_rate == 1.0 else rest / run.work_rate if run.work_rate > 0 else math.inf)


def left_s(run: Running, now: float, unknown_s: float | None) -> float:
    """Work that a running job has left, in seconds: less than 0 once it has done more than was predicted.

    Not by `ends_at`, whose rounding would put a job that has just begun behind one that waits and needs as long.
    """
    return rest_s(run.job, unknown_s) - run.work_rate * (now - run.placed_at)


def width(job: Job) -> int:
    """By how much the run time of a job is multiplied for its service: its GPUs, and 1 for a job without any."""
    return max(1, job.gpus_total)
