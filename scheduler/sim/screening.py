"""Screening in the simulator: gangs first run on one or two GPUs of a small separate pool.

The pool is first come, first served and independent of the cluster, so all its runs are computed before the simulation
starts. A job arrives at its policy when its screening ends, with its own submission time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.diagnosis.screening import Mode, Rules, is_screened, needs_gang, ranks_for, spent_gpu_s
from scheduler.sim.failures import FAILED, FailureClass
from scheduler.sim.result import JobRecord
from scheduler.sim.trace import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class Screening:
    """The pool and its rules. A job of more than `min_gpus` GPUs is screened on `world` of them, or on one if only one
    is free, for at most `minutes`. A job that waits for `max_wait_s` skips screening.
    """

    gpus: int
    minutes: float = 5.0
    min_gpus: int = 2
    world: int = 2
    max_wait_s: float = 600.0

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"gpus must be at least 1, not {self.gpus}")
        _ = self.rules  # validates the other fields

    @property
    def rules(self) -> Rules:
        """The rules in production's form."""
        return Rules(minutes=self.minutes, min_gpus=self.min_gpus, world=self.world, max_wait_s=self.max_wait_s)

    @property
    def window_s(self) -> float:
        """The maximum length of a screening run."""
        return self.rules.window_s

    def wants(self, job: TraceJob) -> bool:
        """True if the job is screened."""
        return is_screened(self.rules, Mode.AUTO, job.gpus)


@dataclass(frozen=True, slots=True)
class ScreeningRun:
    """The screening run of one job; times in seconds since the trace's start."""

    started_s: float
    over_s: float
    ranks: int  # 0: it waited too long and was not screened
    caught: bool = False  # it failed in screening

    @property
    def gpu_s(self) -> float:
        """The GPU-seconds taken from the pool."""
        return spent_gpu_s(gpus=self.ranks, held_s=self.over_s - self.started_s)


def screening_runs(trace: Trace, screening: Screening) -> Mapping[int, ScreeningRun]:
    """The screening runs by job id, from the jobs' first failures."""
    free_at = [0.0] * screening.gpus
    heapq.heapify(free_at)
    found: dict[int, ScreeningRun] = {}
    for job in trace.jobs:
        if not screening.wants(job):
            continue
        start = max(job.submitted_s, free_at[0])
        if start - job.submitted_s > screening.max_wait_s:
            given_up_s = job.submitted_s + screening.max_wait_s
            found[job.id] = ScreeningRun(given_up_s, given_up_s, ranks=0)
            continue
        free = sum(at <= start for at in heapq.nsmallest(screening.world, free_at))
        ranks = ranks_for(free, screening.world)
        alone_s = job.work.alone_s()
        over = start + min(alone_s, screening.window_s)
        for _ in range(ranks):
            heapq.heapreplace(free_at, over)
        found[job.id] = ScreeningRun(start, over, ranks, caught=fails_within(job, screening))
    return found


def fails_within(job: TraceJob, screening: Screening) -> bool:
    """True if screening sees the job's failure: it occurs within the window and needs no gang."""
    return job.status == FAILED and not needs_gang(job.cause) and job.work.alone_s() <= screening.window_s


def arrivals_of(
    trace: Trace, screening: Screening | None, records: Mapping[int, JobRecord], *, retries: int, hopeless: int
) -> dict[int, float]:
    """The arrival of each job in the cluster, without the jobs that failed in screening and are not tried again.

    `retries` of a failing job, `hopeless` where every attempt fails.
    """
    arrivals = {job.id: job.submitted_s for job in trace.jobs}
    if screening is None:
        return arrivals
    jobs = {job.id: job for job in trace.jobs}
    for job_id, screened in screening_runs(trace, screening).items():
        record, job = records[job_id], jobs[job_id]
        arrivals[job_id] = screened.over_s
        record.screening_s = screened.over_s - job.submitted_s
        record.screening_gpu_s = screened.gpu_s
        again = hopeless if job.failure == FailureClass.HOPELESS else 0
        failed_gpu_s = job.gpus * job.work.alone_s() * (1 + again)
        if job.status == FAILED and job.work.alone_s() <= screening.window_s:
            record.saveable_gpu_s = failed_gpu_s
        if not screened.caught:
            continue
        record.caught, record.saved_gpu_s, record.outcome = True, failed_gpu_s, FAILED
        if job.failure == FailureClass.TRANSIENT and retries:
            record.attempts += 1  # the next attempt succeeds
            continue
        record.started_s, record.ended_s = screened.started_s, screened.over_s
        del arrivals[job_id]
    return arrivals
