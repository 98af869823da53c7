"""First in, first out; docs/policies/fifo.md describes the goal and the cost of the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import Job, Key, OrderedPolicy


@dataclass(frozen=True, slots=True)
class Fifo(OrderedPolicy):
    """Serves the higher priority first, and within a priority the earlier submission."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "skip_blocked": {
                "type": "boolean",
                "default": True,
                "description": "Whether later jobs may start while an earlier one cannot.",
            },
            "patience_s": {
                "type": ["number", "null"],
                "minimum": 0,
                "default": None,
                "description": "With skip_blocked: a job that has waited this long is passed no more. null: never.",
            },
        },
        "additionalProperties": False,
    }

    skip_blocked: bool = True
    patience_s: float | None = None

    def waiting_key(self, job: Job) -> Key:
        """By priority, then submission."""
        return (-job.priority, job.submitted_at)

    @property
    def blocks(self) -> bool:
        """Whether a job that cannot start may ever block those behind it."""
        return not self.skip_blocked or self.patience_s is not None

    def lets_pass(self, job: Job, now: float) -> bool:
        """Whether others may still pass the job; its back-off does not count as waiting."""
        if self.patience_s is None:
            return self.skip_blocked
        waited_s = now - max(job.submitted_at, job.eligible_at)
        return self.skip_blocked and waited_s < self.patience_s
