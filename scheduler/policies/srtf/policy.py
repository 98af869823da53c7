"""Shortest remaining time first; docs/policies/srtf.md says what it optimises and what it needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.engine.queue import Key
from scheduler.model import Job, Running
from scheduler.policies.predicted import UNKNOWN_S, ends_at, left_s, rest_s
from scheduler.policies.preemptive import MIN_RUN_S, Preemptive


@dataclass(frozen=True, slots=True)
class Srtf(Preemptive):
    """Serves the job first that is predicted to need the least time yet, and preempts those that need more."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"unknown_s": UNKNOWN_S, "min_run_s": MIN_RUN_S},
        "additionalProperties": False,
    }

    unknown_s: float | None = None

    def waiting_key(self, job: Job) -> Key:
        """By the time that is left, then submission."""
        return (rest_s(job, self.unknown_s), job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By the time that is left now, then submission."""
        return (left_s(run, now, self.unknown_s), run.job.submitted_at)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By the time at which it will end, then submission: among jobs at one speed the same order at any time."""
        return (ends_at(run, self.unknown_s), run.job.submitted_at)

    def aging_rate(self, run: Running) -> float:
        """A job on fast GPUs loses more of its remaining work each second than one on slow GPUs."""
        return run.work_rate
