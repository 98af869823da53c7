"""Shortest remaining time first; docs/policies/srtf.md says what it optimises and what it needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.board import Key
from scheduler.model import Job, Running
from scheduler.policies.ordered import Ordered
from scheduler.policies.predicted import ends_at, left_s, rest_s, stayed


@dataclass(frozen=True, slots=True)
class Srtf(Ordered):
    """Serves the job first that is predicted to need the least time yet, and preempts those that need more."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "unknown_s": {
                "type": ["number", "null"],
                "minimum": 0,
                "default": None,
                "description": "The run time of a job of which none is predicted. null: it comes last.",
            },
            "min_run_s": {
                "type": "number",
                "minimum": 0,
                "default": 0,
                "description": "How long a job that starts keeps its GPUs.",
            },
        },
        "additionalProperties": False,
    }
    preemptive: ClassVar[bool] = True

    unknown_s: float | None = None
    min_run_s: float = 0

    def waiting_key(self, job: Job) -> Key:
        """By the time that is left, then submission."""
        return (rest_s(job, self.unknown_s), job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By the time that is left now, then submission."""
        return (left_s(run, now, self.unknown_s), run.job.submitted_at)

    def standing(self, run: Running, now: float) -> Key:
        """By the time at which it will end, then submission: the same order at any time."""
        return (ends_at(run, self.unknown_s), run.job.submitted_at)

    def may_go(self, run: Running, now: float) -> bool:
        """Whether it has had its GPUs for long enough."""
        return stayed(run, now, self.min_run_s)

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """When a running job may be preempted, if it may not yet."""
        if run is None or self.may_go(run, now):
            return None
        return run.placed_at + self.min_run_s
