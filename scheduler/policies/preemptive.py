"""The base of those policies in an order under which a job may lose its GPUs to another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.model import Job, Running
from scheduler.policies.ordered import Ordered

# Times are floats: who is within a microsecond of a moment has reached it.
SOON_S: Final = 1e-6

MIN_RUN_S: Final[Mapping[str, Any]] = {
    "type": "number",
    "minimum": 0,
    "default": 0,
    "description": "How long a job that starts keeps its GPUs.",
}


@dataclass(frozen=True, slots=True)
class Preemptive(Ordered):
    """Lets whoever comes first take from whoever comes last, once that one has run for `min_run_s`."""

    min_run_s: float = 0

    @property
    def preemptive(self) -> bool:
        """That jobs which wait may take from jobs which run."""
        return True

    def may_go(self, run: Running, now: float) -> bool:
        """Whether it has had its GPUs for long enough."""
        return now - run.placed_at >= self.min_run_s - SOON_S

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """When a running job may be preempted, if it may not yet."""
        if not self.preemptive or run is None or self.may_go(run, now):
            return None
        return run.placed_at + self.min_run_s
