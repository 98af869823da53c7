"""Shortest remaining GPU time first, with preemption."""

from __future__ import annotations

from scheduler.authoring import Job
from scheduler.policies.predicted import ShortestRemainingFirst


class Srsf(ShortestRemainingFirst):
    """Serves the job with the fewest predicted remaining GPU-seconds first, and preempts jobs with more."""

    __slots__ = ()

    def breadth(self, job: Job) -> int:
        """Its GPUs, or 1 for a job without any: run time becomes service."""
        return max(1, job.request.gpus_total)


PLUGIN = Srsf
