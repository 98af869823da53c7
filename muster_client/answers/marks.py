"""What a job is marked with beside its state, as typed dictionaries."""

from __future__ import annotations

from typing import Any, TypedDict


class Efficiency(TypedDict):
    """What a job used of what it had: a grade, or why there is none."""

    attempt: int
    grade: str | None
    silence: str | None
    utilization: float | None
    idle_gpus: int
    gpu_hours: float
    idle_gpu_hours: float
    gpus: list[dict[str, Any]]
    cpus: int
    cpu_cores: float | None
    memory_mib: int
    memory_used_mib: float | None
    advice: list[str]


class FailedResize(TypedDict):
    """A resize that did not come back, and until when the job keeps its former size."""

    before: int
    wanted: int
    at: str
    because: str
    until: str


class JobRate(TypedDict):
    """How fast a job is on GPUs of one type, in its own unit per second."""

    gpu_type: str
    gpus: int
    per_s: float
    deviation: float | None
    source: str


class JobFinish(TypedDict):
    """When a waiting job would finish on each GPU type that it accepts, in words."""

    summary: str
    detail: str
    types: list[dict[str, Any]]


class RunTimeEstimate(TypedDict):
    """How long a job is expected to run, in seconds, and where that comes from."""

    expected_s: float
    source: str


class Idle(TypedDict):
    """Since when a running job does not use its GPUs, and when it is stopped for that, if at all."""

    since: str
    stop_at: str | None


class Kept(TypedDict):
    """How a job has failed, and until when what it ran in is kept."""

    until: str
    reason: str
    exit_code: int | None
