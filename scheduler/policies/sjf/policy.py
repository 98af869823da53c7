"""Shortest job first; docs/policies/sjf.md describes the goal and the predictions it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import Job, Key, Need, OrderedPolicy
from scheduler.policies.predicted import UNKNOWN_S, whole_s


@dataclass(frozen=True, slots=True)
class Sjf(OrderedPolicy):
    """Serves the job with the shortest predicted run time first, without preemption."""

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"unknown_s": UNKNOWN_S},
        "additionalProperties": False,
    }

    unknown_s: float | None = None

    @property
    def needs(self) -> frozenset[Need]:
        """Remaining times."""
        return frozenset({Need.REMAINING})

    def waiting_key(self, job: Job) -> Key:
        """By the predicted run time, then submission."""
        return (whole_s(job, self.unknown_s), job.submitted_at)
