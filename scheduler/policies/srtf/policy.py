"""Shortest remaining time first; docs/policies/srtf.md describes the goal and the predictions it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import Job, Key, Need, Running
from scheduler.policies.predicted import UNKNOWN_S, ends_at, left_s, rest_s
from scheduler.policies.preemptive import MIN_RUN_S, Preemptive


@dataclass(frozen=True, slots=True)
class Srtf(Preemptive):
    """Serves the job with the shortest predicted remaining time first, and preempts jobs with more."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"unknown_s": UNKNOWN_S, "min_run_s": MIN_RUN_S},
        "additionalProperties": False,
    }

    unknown_s: float | None = None

    @property
    def needs(self) -> frozenset[Need]:
        """Remaining times."""
        return frozenset({Need.REMAINING})

    def waiting_key(self, job: Job) -> Key:
        """By the remaining time, then submission."""
        return (rest_s(job, self.unknown_s), job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By the time remaining now, then submission."""
        return (left_s(run, now, self.unknown_s), run.job.submitted_at)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By its predicted end, then submission: a fixed order among jobs at one speed."""
        return (ends_at(run, self.unknown_s), run.job.submitted_at)

    def aging_rate(self, run: Running) -> float:
        """The remaining work of a job on fast GPUs shrinks faster."""
        return run.work_rate
