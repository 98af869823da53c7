"""Quasi-shortest service first; docs/policies/qssf.md describes the goal and the source of its predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import Job, Key, Need, OrderedPolicy
from scheduler.policies.predicted import UNKNOWN_S, whole_s, width


@dataclass(frozen=True, slots=True)
class Qssf(OrderedPolicy):
    """Serves the job with the fewest predicted GPU-seconds in total first, without preemption."""

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
        """By the predicted service, then submission."""
        return (whole_s(job, self.unknown_s) * width(job), job.submitted_at)
