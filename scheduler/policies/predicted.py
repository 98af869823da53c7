"""The remaining run time of jobs by their predictions, for policies that order jobs by it.

All times are work: seconds at the speed for which the run time was predicted. So a job on slow GPUs and a waiting job
compare by what each would need on the same GPUs. A running job is charged the work that it does (`Running.work_rate`),
also beyond its prediction: its remaining time is then negative, and it precedes all jobs with a positive one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scheduler.authoring import Job, Key, Need, OrderedPolicy, Running, param
from scheduler.policies.preemptive import Preemptive

# The weight of the p90, beside the p50, in the logarithm of the run time by which jobs are ordered: it adds half of the
# deviation of a normal logarithm.
_HIGH = 0.39
_UNKNOWN = "The assumed run time of a job without a prediction. null: such jobs come last."


@dataclass(frozen=True, slots=True)
class ShortestFirst(OrderedPolicy):
    """Serves the job with the least predicted run time times `breadth` first, without preemption."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REMAINING})

    unknown_s: float | None = param(None, _UNKNOWN, minimum=0)

    def breadth(self, job: Job) -> int:
        """The weight of the job's time; by default all jobs have one."""
        return 1

    def waiting_key(self, job: Job) -> Key:
        """By the predicted run time or service, then submission."""
        return (whole_s(job, self.unknown_s) * self.breadth(job), job.submitted_at)


@dataclass(frozen=True, slots=True)
class ShortestRemainingFirst(Preemptive):
    """Serves the job with the least predicted remaining time times `breadth` first, and preempts jobs with more."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REMAINING})

    unknown_s: float | None = param(None, _UNKNOWN, minimum=0)

    def breadth(self, job: Job) -> int:
        """The weight of the job's time; by default all jobs have one."""
        return 1

    def waiting_key(self, job: Job) -> Key:
        """By the remaining time or service, then submission."""
        return (rest_s(job, self.unknown_s) * self.breadth(job), job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By the time or service remaining now, then submission."""
        return (left_s(run, now, self.unknown_s) * self.breadth(run.job), run.job.submitted_at)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By its predicted end, then submission: a fixed order among jobs with one aging rate."""
        return (ends_at(run, self.unknown_s), run.job.submitted_at)

    def aging_rate(self, run: Running) -> float:
        """The remaining service of a broad job, and the work of a job on fast GPUs, shrinks faster."""
        return self.breadth(run.job) * run.work_rate


def whole_s(job: Job, unknown_s: float | None) -> float:
    """The total run time, s; without a prediction, `unknown_s` or infinity.

    Of a predicted distribution it is above the median, the more the wider it is: a job that may take long may hold its
    GPUs that long.
    """
    if job.expected_s is not None:
        high_s = job.expected_p90_s
        if high_s is None or not min(job.expected_s, high_s) > 0:
            return job.expected_s
        return job.expected_s * math.exp(_HIGH * math.log(high_s / job.expected_s))
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
