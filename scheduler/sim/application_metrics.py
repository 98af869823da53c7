"""Finish-time fairness of applications: the jobs of one group together, and each job of no group by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum, inf

import numpy as np

from scheduler.predict.rho import isolated_sweep_s, ratio
from scheduler.sim.result import JobRecord


@dataclass(frozen=True, slots=True)
class Application:
    """The result of one application; times in seconds since the trace's start."""

    name: str  # of its group, or of its only job
    vc: str
    jobs: int
    submitted_s: float
    ended_s: float | None  # the end of its last job; None: a job has not ended
    total_gpu_s: float  # the work of all jobs, on as many GPUs as each asks for
    demand_gpus: int  # of the jobs that came first
    longest_s: float  # the run time of the longest job alone
    contention: float  # time-average of the number of applications in the cluster while this one was there

    @property
    def taken_s(self) -> float | None:
        """From the first submission to the last end, s."""
        return None if self.ended_s is None else self.ended_s - self.submitted_s

    def isolated_s(self, cluster_gpus: int) -> float:
        """The time alone on 1/N of the cluster's GPUs, s, where N is the contention.

        Its jobs share these GPUs as they like; it uses no more than it asks for, and its longest job bounds the time.
        """
        return isolated_sweep_s(
            self.total_gpu_s, self.longest_s, self.demand_gpus, of_gpus=cluster_gpus, contention=self.contention
        )

    def rho(self, cluster_gpus: int) -> float | None:
        """The time taken over `isolated_s`; None if it has not ended, or took or needs no time or GPU."""
        if self.taken_s is None or min(cluster_gpus, self.demand_gpus) <= 0:
            return None
        return ratio(self.taken_s, self.isolated_s(cluster_gpus))


def applications_of(records: Iterable[JobRecord]) -> tuple[Application, ...]:
    """The applications of these jobs, in the order of their first jobs."""
    found: dict[tuple[str, str, int], list[JobRecord]] = {}
    for record in records:
        found.setdefault((record.vc, record.group, 0 if record.group else record.id), []).append(record)
    members = list(found.values())
    spans = [_span(jobs) for jobs in members]
    return tuple(
        _application(jobs, span, contention)
        for jobs, span, contention in zip(members, spans, _contentions(spans), strict=True)
    )


def _span(jobs: Sequence[JobRecord]) -> tuple[float, float]:
    """The first submission and the last end; infinity if a job has not ended."""
    return min(job.submitted_s for job in jobs), max(inf if job.ended_s is None else job.ended_s for job in jobs)


def _application(jobs: Sequence[JobRecord], span: tuple[float, float], contention: float) -> Application:
    submitted_s, ended_s = span
    return Application(
        name=jobs[0].group or jobs[0].name,
        vc=jobs[0].vc,
        jobs=len(jobs),
        submitted_s=submitted_s,
        ended_s=None if ended_s == inf else ended_s,
        total_gpu_s=fsum(job.gpus * job.alone_s for job in jobs),
        demand_gpus=sum(job.gpus for job in jobs if job.submitted_s == submitted_s),
        longest_s=max(job.alone_s for job in jobs),
        contention=contention,
    )


def _contentions(spans: Sequence[tuple[float, float]]) -> Iterator[float]:
    """For each span the time-average of the number of spans, itself included, that hold a moment of it; 1 without time.

    The integral of that number until t is Σ (t - start) over the spans that have started, without Σ (t - end) over
    those that have ended.
    """
    starts = np.sort(np.array([start for start, _ in spans]))
    ends = np.sort(np.array([end for _, end in spans if end < inf]))
    sums = [np.concatenate(([0.0], np.cumsum(times))) for times in (starts, ends)]

    def until(moment: float) -> float:
        counts = [int(np.searchsorted(times, moment, side="right")) for times in (starts, ends)]
        begun, over = (moment * count - float(total[count]) for count, total in zip(counts, sums, strict=True))
        return begun - over

    for start, end in spans:
        yield max(1.0, (until(end) - until(start)) / (end - start)) if start < end < inf else 1.0
