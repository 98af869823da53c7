"""The output of a simulation: one record a job, and the cluster's use over time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.sim.trace import TraceJob


@dataclass(slots=True)
class JobRecord:
    """The result of one job; times in seconds since the trace's start, delays in seconds."""

    id: int
    name: str
    vc: str
    owner: str
    gpus: int
    submitted_s: float
    group: str = ""  # the group of its virtual cluster whose member it is; nothing: none
    deadline_s: float | None = None  # after the submission
    started_s: float | None = None  # the first start
    ended_s: float | None = None
    alone_s: float = 0.0  # the run time alone on the GPUs it asks for
    run_s: float = 0.0  # with GPUs, restarts and lost work included
    service_gpu_s: float = 0.0
    overhead_gpu_s: float = 0.0  # of which restarting or redoing
    failed_gpu_s: float = 0.0  # of which computing in failed attempts; not included in overhead
    fair_share_delay_s: float = 0.0
    fragmentation_delay_s: float = 0.0  # within its quota: the sum of the next three
    capacity_delay_s: float = 0.0
    apart_delay_s: float = 0.0
    order_delay_s: float = 0.0
    not_eligible_delay_s: float = 0.0  # between a failure and the next attempt
    preemptions: int = 0
    moves: int = 0
    attempts: int = 1  # plus one for each retry after a failure
    contention: float = 1.0  # time-average of the number of jobs in the cluster while this job was there
    vc_contention: float = 1.0  # the same of the jobs of its virtual cluster
    quota_gpus: int = 0  # GPUs of all types in the quota of its virtual cluster, as far as the cluster has them
    outcome: str = "succeeded"
    screening_s: float | None = None  # from the submission to the end of screening; None: not screened
    screening_gpu_s: float = 0.0  # in the screening pool, not included in the service
    caught: bool = False  # it failed in screening
    saved_gpu_s: float = 0.0  # what its failing attempts would have taken in the cluster without screening
    saveable_gpu_s: float = 0.0  # the same for every failure within the window, visible to screening or not


@dataclass(frozen=True, slots=True)
class Span:
    """GPUs that a job held from `start_s` to `end_s`, by their ids."""

    job_id: int
    gpu_ids: tuple[int, ...]
    start_s: float
    end_s: float


@dataclass(slots=True)
class Result:
    """One run of the simulator."""

    policy: str
    trace: str
    gpus: int
    records: list[JobRecord]
    # (time s, busy GPUs, waiting jobs), one sample per change, thinned to a few thousand
    timeline: list[tuple[float, int, int]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)  # in the order of their ends; only with `Options.spans`
    busy_gpu_s: float = 0.0
    makespan_s: float = 0.0  # from the first submission to the last end
    decisions: int = 0
    events: int = 0
    wall_s: float = 0.0
    peak_mib: float = 0.0
    unfinished: int = 0

    def count_from(self, began: float) -> None:
        """Count all times from this one on; what was before it is negative."""
        self.timeline = [(at - began, busy, waiting) for at, busy, waiting in self.timeline]
        self.spans = [replace(span, start_s=span.start_s - began, end_s=span.end_s - began) for span in self.spans]
        for record in self.records:
            record.submitted_s -= began
            record.started_s = None if record.started_s is None else record.started_s - began
            record.ended_s = None if record.ended_s is None else record.ended_s - began


def record_of(job: TraceJob, quota_gpus: int) -> JobRecord:
    """The record of a job that has not started."""
    return JobRecord(
        id=job.id,
        name=job.name,
        vc=job.vc,
        owner=job.owner,
        gpus=job.gpus,
        submitted_s=job.submitted_s,
        group=job.group,
        deadline_s=job.deadline_s,
        alone_s=job.work.alone_s(),
        quota_gpus=quota_gpus,
        outcome=job.status or "succeeded",
    )
