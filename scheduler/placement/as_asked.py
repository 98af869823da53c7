"""The part of a placement that keeps to what each job itself asks for, however long it has waited."""

from __future__ import annotations

from typing import ClassVar

from scheduler.model import Job, Locality


class AsAsked:
    """Gives in to nobody: the GPUs of a job lie as close together as its locality says."""

    __slots__ = ()  # those who inherit from it have slots
    relaxes: ClassVar[bool] = False

    def within(self, job: Job, now: float) -> Locality:
        """As close as the job itself asks for."""
        return job.locality

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """Never."""
        return None
