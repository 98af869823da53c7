"""Priorities; docs/policies/priority.md says what they promise and what preemption costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.engine.queue import Key
from scheduler.model import Job, Running
from scheduler.policies.preemptive import MIN_RUN_S, Preemptive


@dataclass(frozen=True, slots=True)
class Priority(Preemptive):
    """Serves the higher priority first, and lets it take from lower ones if told so, but never from its own."""

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
        """By priority, and before all that wait within it."""
        return (-run.job.priority, -math.inf)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By priority, then by start: whoever started last has the least to lose."""
        return (-run.job.priority, run.placed_at)
