"""Screening in the simulator: gangs are first tried on one or two GPUs of a small pool of their own.

The pool is beside the cluster and decides nothing: first come, first served, so what happens in it is known before the
rest is simulated. A job comes to its policy when its trial is over, with its own time of submission.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.diagnosis.screening import Mode, Rules, is_tried, needs_gang, ranks_for, spent_gpu_s
from scheduler.sim.failures import FAILED
from scheduler.sim.trace import Trace, TraceJob


@dataclass(frozen=True, slots=True)
class Screening:
    """The pool and its rules; a job of more than `min_gpus` GPUs is tried on `world` of them, or on one if only one is
    free, for `minutes` at most. One that has waited for `max_wait_s` goes on untried."""

    gpus: int
    minutes: float = 5.0
    min_gpus: int = 2
    world: int = 2
    max_wait_s: float = 600.0

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise ValueError(f"gpus cannot be {self.gpus}")
        _ = self.rules  # which judges the rest

    @property
    def rules(self) -> Rules:
        """The rules, as production knows them."""
        return Rules(minutes=self.minutes, min_gpus=self.min_gpus, world=self.world, max_wait_s=self.max_wait_s)

    @property
    def window_s(self) -> float:
        """The longest trial."""
        return self.rules.window_s

    def wants(self, job: TraceJob) -> bool:
        """Whether the job is tried first."""
        return is_tried(self.rules, Mode.AUTO, job.gpus)


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one job's trial; times in seconds since the trace's start."""

    started_s: float
    over_s: float
    ranks: int  # 0: it waited for too long, and was not tried
    caught: bool = False  # it failed there

    @property
    def gpu_s(self) -> float:
        """What the trial took of the pool."""
        return spent_gpu_s(gpus=self.ranks, held_s=self.over_s - self.started_s)


def trials(trace: Trace, screening: Screening) -> Mapping[int, Trial]:
    """The trials of the jobs that are tried, by their ids, with the times of the jobs' first failures as they are."""
    free_at = [0.0] * screening.gpus
    heapq.heapify(free_at)
    found: dict[int, Trial] = {}
    for job in trace.jobs:
        if not screening.wants(job):
            continue
        start = max(job.submitted_s, free_at[0])
        if start - job.submitted_s > screening.max_wait_s:
            given_up_s = job.submitted_s + screening.max_wait_s
            found[job.id] = Trial(given_up_s, given_up_s, ranks=0)
            continue
        free = sum(at <= start for at in heapq.nsmallest(screening.world, free_at))
        ranks = ranks_for(free, screening.world)
        alone_s = job.work.alone_s()
        over = start + min(alone_s, screening.window_s)
        for _ in range(ranks):
            heapq.heapreplace(free_at, over)
        found[job.id] = Trial(start, over, ranks, caught=fails_within(job, screening))
    return found


def fails_within(job: TraceJob, screening: Screening) -> bool:
    """Whether the job's failure shows in a trial: soon enough, and without its gang."""
    return job.status == FAILED and not needs_gang(job.cause) and job.work.alone_s() <= screening.window_s
