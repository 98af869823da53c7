"""Results of simulations made by hand: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.sim.result import JobRecord, Result


def record(number: int = 1, *, at: float = 0.0, took: float | None = 100.0, gpus: int = 1, **fields: Any) -> JobRecord:
    """A job submitted `at` that ended `took` seconds later; None: it has not ended."""
    defaults: dict[str, Any] = {"name": f"job{number}", "vc": "default", "owner": "owner", "started_s": at}
    ended = None if took is None else at + took
    return JobRecord(id=number, submitted_s=at, ended_s=ended, gpus=gpus, **(defaults | fields))


def result(records: Sequence[JobRecord], *, gpus: int = 4, **fields: Any) -> Result:
    """A run with these records."""
    return Result(**({"policy": "fifo", "trace": "story", "gpus": gpus, "records": list(records)} | fields))
