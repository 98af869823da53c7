"""The JSON objects of GPU-hours, as typed dictionaries."""

from __future__ import annotations

from typing import TypedDict


class Amount(TypedDict):
    """GPU-hours, and of how many jobs and attempts."""

    gpu_hours: float
    jobs: int
    attempts: int


UsageRow = TypedDict(
    "UsageRow",
    {
        "gpu_hours": float,
        "jobs": int,
        "attempts": int,
        "tenant": str | None,
        "vc": str | None,
        "user": str | None,
        "gpu_type": str | None,
        "class": str | None,
        "day": str | None,
        "week": str | None,
        "state": str | None,
        "outcome": str | None,
        "failure": str | None,
        "category": str | None,
        "retry": bool | None,
    },
)
Usage = TypedDict("Usage", {"from": str, "to": str, "by": list[str], "total": Amount, "results": list[UsageRow]})


class OutcomeUsage(Amount):
    """GPU-hours by the outcome of attempts."""

    outcome: str


class StateUsage(Amount):
    """GPU-hours by the state of jobs."""

    state: str


class FailureUsage(Amount):
    """GPU-hours of attempts that failed in one way."""

    failure: str
    category: str
    outcome: str


class RetryUsage(TypedDict):
    """GPU-hours of attempts that followed a failed one."""

    gpu_hours: float
    attempts: int
    succeeded_gpu_hours: float
    wasted_gpu_hours: float


class ScreeningUsage(TypedDict):
    """The GPU-hours that screening took and saved."""

    tried: int
    passed: int
    failed: int
    inconclusive: int
    interrupted: int
    untried: int
    trusted: int
    spent_gpu_hours: float
    saved_gpu_hours: float


Waste = TypedDict(
    "Waste",
    {
        "from": str,
        "to": str,
        "total": Amount,
        "wasted_gpu_hours": float,
        "outcomes": list[OutcomeUsage],
        "states": list[StateUsage],
        "failures": list[FailureUsage],
        "retries": RetryUsage,
        "screening": ScreeningUsage | None,
    },
)
