"""Highest priority first; with preemption, a job can be stopped for one of higher priority."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduler.authoring import Key, Running, param
from scheduler.policies.preemptive import Preemptive


@dataclass(frozen=True, slots=True)
class Priority(Preemptive):
    """Serves the higher priority first; with preemption it may preempt lower priorities, never its own."""

    preemptive: bool = param(False, "Let a job take the GPUs of running jobs of lower priority.")

    def running_key(self, run: Running, now: float) -> Key:
        """By priority, and before all waiting jobs of the same priority."""
        return (-run.job.priority, -math.inf)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By priority, then by start: the job that started last loses the least."""
        return (-run.job.priority, run.placed_at)


PLUGIN = Priority
