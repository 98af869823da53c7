"""The part of a placement that keeps the locality of each job, however long the job has waited."""

from __future__ import annotations

from typing import ClassVar

from scheduler.model import Job, Locality


class FixedLocality:
    """Demands the locality that the job asks for."""

    __slots__ = ()  # subclasses have slots
    relaxes: ClassVar[bool] = False

    def within(self, job: Job, now: float) -> Locality:
        """The locality of the job."""
        return job.request.locality

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """Always None."""
        return None
