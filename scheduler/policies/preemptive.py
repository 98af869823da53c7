"""The base of ordered policies that preempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.authoring import Job, OrderedPolicy, Running, param

# Times are floats: a moment counts as reached within a microsecond.
SOON_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Preemptive(OrderedPolicy):
    """Lets the first jobs preempt the last ones, once these have run for `min_run_s`."""

    min_run_s: float = param(0, "The shortest time that a started job keeps its GPUs.", minimum=0)

    @property
    def preemptive(self) -> bool:
        """Waiting jobs may preempt running ones."""
        return True

    def may_go(self, run: Running, now: float) -> bool:
        """True if it has had its GPUs for the minimum time."""
        return now - run.placed_at >= self.min_run_s - SOON_S

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The time at which a running job becomes preemptible, if it is not yet."""
        if not self.preemptive or run is None or self.may_go(run, now):
            return None
        return run.placed_at + self.min_run_s
