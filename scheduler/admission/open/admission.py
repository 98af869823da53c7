"""The open admission; docs/policies/open.md says what it is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.admission import QuotaUsage
from scheduler.model import Job, View
from scheduler.model.invariants import Violation
from scheduler.model.plan import Denial, Plan


@dataclass(frozen=True, slots=True)
class Open:
    """Admits every job, for policies that divide the pool themselves."""

    params_schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}
    reclaims: ClassVar[bool] = False

    def admit(self, view: View, usage: QuotaUsage, job: Job, gpu_type: str | None, gpus: int) -> Denial | None:
        """Always None."""
        return None

    def reclaimable_by(self, running: Job, waiting: Job) -> bool:
        """Always False: jobs do not lend GPUs."""
        return False

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """Always empty."""
        return iter(())
