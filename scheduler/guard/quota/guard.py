"""The quota guard; docs/policies/quota.md says what it promises and what it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.guard import Usage
from scheduler.law import Violation
from scheduler.lifecycle import HoldReason
from scheduler.model import Job, Snapshot
from scheduler.plan import Denial, Evidence, Plan

QUOTA_EXCEEDED = "quota_exceeded"


@dataclass(frozen=True, slots=True)
class Quota:
    """Admits a job while its virtual cluster stays within its quota of the GPU type that the job gets."""

    params_schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}

    def admit(self, snapshot: Snapshot, usage: Usage, job: Job, gpu_type: str | None) -> Denial | None:
        """None when the quota has room for the job, or by how much it has not."""
        if gpu_type is None:
            return None
        name, quotas = _quotas_of(snapshot, job.vc_id)
        needed, used, quota = job.gpus * job.nodes, usage[job.vc_id, gpu_type], quotas.get(gpu_type, 0)
        if used + needed <= quota:
            return None
        evidence: Evidence = {"vc": name, "gpu_type": gpu_type, "used": used, "quota": quota, "needed": needed}
        raise_it = f"ask an operator to raise the quota of {name}"
        if needed <= quota:
            return Denial(
                HoldReason.QUOTA,
                f"{name} uses {used} of its {quota} {gpu_type}; this job needs {needed}",
                evidence,
                (f"{used + needed - quota} {gpu_type} of {name} come free", raise_it),
            )
        return Denial(
            HoldReason.QUOTA_TOO_SMALL,
            f"the quota of {name} is {quota or 'no'} {gpu_type}; this job needs {needed}",
            evidence,
            (f"ask for at most {quota} {gpu_type}", raise_it) if quota else (raise_it,),
        )

    def violations(self, snapshot: Snapshot, plan: Plan) -> Iterator[Violation]:
        """Each place that takes its virtual cluster above its quota of a GPU type."""
        given: Usage = Usage()
        for place in plan.places:
            job = snapshot.waiting_by_id.get(place.job_id)
            if job is None:
                continue  # the law itself objects to that
            gpu_ids = [gpu_id for share in place.allocations for gpu_id in share.gpu_ids]
            types = Usage((job.vc_id, snapshot.gpu_by_id[g].type) for g in gpu_ids if g in snapshot.gpu_by_id)
            given += types
            name, quotas = _quotas_of(snapshot, job.vc_id)
            for key in sorted(types):
                held, quota = snapshot.held_by_vc.get(key, 0) + given[key], quotas.get(key[1], 0)
                if held > quota:
                    message = f"{name} would hold {held} {key[1]}; its quota is {quota}"
                    yield Violation(QUOTA_EXCEEDED, job.id, message)


def _quotas_of(snapshot: Snapshot, vc_id: int) -> tuple[str, Mapping[str, int]]:
    """The name and the quotas of a virtual cluster; one that has left the pool may have nothing."""
    vc = snapshot.vc_by_id.get(vc_id)
    return (vc.name, vc.quotas) if vc else (f"virtual cluster {vc_id}", {})
