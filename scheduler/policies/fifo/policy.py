"""First in, first out; docs/policies/fifo.md says what it optimises and what its parameters cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import Job, Snapshot


@dataclass(frozen=True, slots=True)
class Fifo:
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

    def order(self, snapshot: Snapshot) -> Sequence[Job]:
        """The jobs that wait by priority, then submission, then id."""
        return sorted(snapshot.waiting, key=lambda job: (-job.priority, job.submitted_at, job.id))

    def lets_pass(self, snapshot: Snapshot, blocked: Job) -> bool:
        """Whether the blocked job may still be passed; its back-off does not count as waiting."""
        if self.patience_s is None:
            return self.skip_blocked
        waited_s = snapshot.now - max(blocked.submitted_at, blocked.eligible_at)
        return self.skip_blocked and waited_s < self.patience_s
