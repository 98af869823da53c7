"""First in, first out: by priority, then by the time of submission."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.authoring import Job, OrderedPolicy, param


@dataclass(frozen=True, slots=True)
class Fifo(OrderedPolicy):
    """Serves the higher priority first, and within a priority the earlier submission."""

    skip_blocked: bool = param(True, "Let later jobs start while an earlier one cannot.")
    patience_s: float | None = param(
        None, "With skip_blocked: the wait after which no job passes a blocked job. null: none.", minimum=0
    )

    @property
    def blocks(self) -> bool:
        """True if a job that cannot start may ever block those behind it."""
        return not self.skip_blocked or self.patience_s is not None

    def lets_pass(self, job: Job, now: float) -> bool:
        """True if others may still pass the job; its back-off does not count as waiting."""
        if self.patience_s is None:
            return self.skip_blocked
        waited_s = now - max(job.submitted_at, job.eligible_at)
        return self.skip_blocked and waited_s < self.patience_s


PLUGIN = Fifo
