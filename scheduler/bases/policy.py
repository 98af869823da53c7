"""The defaults of a policy, which all bases on the authors' page share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from scheduler.engine.queue import Key
from scheduler.model import Job, Running, View
from scheduler.registry import params_of_fields


class BasePolicy:
    """Orders jobs by priority, then submission, and decides again at events only."""

    __slots__ = ()
    params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()

    def waiting_key(self, job: Job) -> Key:
        """The sort key of a waiting job; smaller goes first. It does not change while the job waits."""
        return (-job.priority, job.submitted_at)

    def order(self, view: View) -> Iterable[Job]:
        return sorted(view.waiting, key=lambda job: (self.waiting_key(job), job.id))

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        return None
