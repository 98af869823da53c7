"""Shortest predicted GPU time first (Helios' quasi-shortest service first)."""

from __future__ import annotations

from scheduler.authoring import Job
from scheduler.policies.predicted import ShortestFirst


class Qssf(ShortestFirst):
    """Serves the job with the fewest predicted GPU-seconds in total first, without preemption."""

    __slots__ = ()

    def breadth(self, job: Job) -> int:
        """Its GPUs, or 1 for a job without any: run time becomes service."""
        return max(1, job.request.gpus_total)


PLUGIN = Qssf
