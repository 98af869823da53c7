"""Least attained service first, counted in GPUs times time, in quanta."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scheduler.authoring import Job, Key, OrderedPolicy, Running, param
from scheduler.policies.preemptive import SOON_S


@dataclass(frozen=True, slots=True)
class Las(OrderedPolicy):
    """Serves the job with the fewest attained GPU-seconds first, and preempts jobs with more.

    A job that starts keeps its GPUs for a quantum. From then on it may be preempted, and is compared once a quantum.
    """

    quantum_s: float = param(360, "The minimum run time, and the time between two comparisons after it.", minimum=1)

    preemptive: ClassVar[bool] = True

    def waiting_key(self, job: Job) -> Key:
        """By attained service, then submission."""
        return (job.attained_gpu_s, job.submitted_at)

    def running_key(self, run: Running, now: float) -> Key:
        """By the service attained by now, then submission."""
        return (run.attained_gpu_s(now), run.job.submitted_at)

    def preemption_key(self, run: Running, now: float) -> Key:
        """By what it would have attained at time 0 if it had always run, then submission: a fixed order over time."""
        return (run.job.attained_gpu_s - run.gpus * run.placed_at, run.job.submitted_at)

    def aging_rate(self, run: Running) -> int:
        """Wide jobs attain service faster."""
        return run.gpus

    def may_go(self, run: Running, now: float) -> bool:
        """True if its first quantum is over."""
        return now - run.placed_at >= self.quantum_s - SOON_S

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The end of the running job's current quantum."""
        if run is None or not run.job.preemptible:
            return None
        quanta = math.floor((now - run.placed_at + SOON_S) / self.quantum_s) + 1
        return run.placed_at + max(1, quanta) * self.quantum_s


PLUGIN = Las
