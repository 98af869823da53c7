"""What a job is marked with beside its state, as typed dictionaries."""

from __future__ import annotations

from typing import Any, TypedDict

from muster_client.terminal import clean


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


def params_text(params: dict[str, Any]) -> str:
    """`lr 0.01, batch 64`."""
    return ", ".join(f"{clean(name)} {value_text(value)}" for name, value in params.items())


def value_text(value: Any) -> str:
    """A value of a parameter or a metric; numbers in at most six digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else clean(value)


def rate_text(rate: JobRate) -> str:
    """`8 A100: 410 ± 30 per s measured`."""
    around = "" if rate["deviation"] is None else f" ± {rate['deviation']:.2g}"
    return f"{rate['gpus']} {clean(rate['gpu_type'])}: {rate['per_s']:.3g}{around} per s {clean(rate['source'])}"


def finish_texts(finish: JobFinish | None) -> list[str]:
    """`V100 now finishes before A100 in 4 h.` and the start and the finish on each type; empty without any."""
    if finish is None:
        return []
    lines = [f"{finish['summary']}." if finish["summary"] else "", finish["detail"], _NOT_COUNTED]
    return ["\n".join(clean(line) for line in lines if line)]


_NOT_COUNTED = "Jobs ahead of it in the queue are not counted."
