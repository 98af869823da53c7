"""What a simulation hands to the metrics: one record a job, and the cluster's use over time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class JobRecord:
    """What became of one job; times in seconds since the trace's start, delays in seconds."""

    id: int
    name: str
    vc: str
    owner: str
    gpus: int
    submitted_s: float
    started_s: float | None = None  # the first start
    ended_s: float | None = None
    alone_s: float = 0.0  # what it would take by itself on the GPUs it asks for
    run_s: float = 0.0  # with GPUs, restarts and lost work included
    service_gpu_s: float = 0.0
    overhead_gpu_s: float = 0.0  # of which restarting or redoing
    failed_gpu_s: float = 0.0  # of which computing in attempts that failed; none of it is overhead as well
    fair_share_delay_s: float = 0.0
    fragmentation_delay_s: float = 0.0
    preemptions: int = 0
    moves: int = 0
    attempts: int = 1  # one more with each retry after a failure
    contention: float = 1.0  # time-average of the number of jobs in the cluster while this one was there
    outcome: str = "succeeded"
    screening_s: float | None = None  # from the submission until its trial was over; None: it was to have none
    screening_gpu_s: float = 0.0  # in the screening pool, none of it in the service
    caught: bool = False  # it failed in its trial
    saved_gpu_s: float = 0.0  # what its failing attempts would have taken in the cluster, had it not been caught
    saveable_gpu_s: float = 0.0  # the same for every failure that was soon enough, whether it could be seen or not


@dataclass(slots=True)
class Result:
    """One run of the simulator."""

    policy: str
    trace: str
    gpus: int
    records: list[JobRecord]
    # (time s, busy GPUs, jobs waiting), one sample at each change, thinned to a few thousand
    timeline: list[tuple[float, int, int]] = field(default_factory=list)
    busy_gpu_s: float = 0.0
    makespan_s: float = 0.0  # from the first submission to the last end
    decisions: int = 0
    events: int = 0
    wall_s: float = 0.0
    peak_mib: float = 0.0
    unfinished: int = 0
