"""Priorities; docs/policies/priority.md describes what they promise and the cost of preemption."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import Job, Key, Running
from scheduler.policies.preemptive import MIN_RUN_S, Preemptive


@dataclass(frozen=True, slots=True)
class Priority(Preemptive):
    """Serves the higher priority first; with preemption it may preempt lower priorities, never its own."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "preemptive": {
                "type": "boolean",
                "default": False,
                "description": "Whether a job may take the GPUs of running jobs of lower priority.",
            },
            "min_run_s": MIN_RUN_S,
        },
        "additionalProperties": False,
    }

    preemptive: bool = False

    def waiting_key(self, job: Job) -> Key:
        """By priority, then submission."""
        return (-job.priority, job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By priority, and before all waiting jobs of the same priority."""
        return (-run.job.priority, -math.inf)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By priority, then by start: the job that started last loses the least."""
        return (-run.job.priority, run.placed_at)
