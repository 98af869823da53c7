"""Quota admission: the interface of the plug-ins that decide how many GPUs a virtual cluster may hold."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from scheduler.model import Job, View
from scheduler.model.invariants import PlanValidator
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import Denial
from scheduler.registry import Plugin, Registry

# The GPUs that jobs hold or this cycle has given them, by virtual cluster and GPU type. GPUs of opportunistic jobs also
# count under the negated id of the virtual cluster.
QuotaUsage = Counter[tuple[int, str]]


def charge(usage: QuotaUsage, vc_id: int, job_class: JobClass, gpu_type: str, gpus: int) -> None:
    """Add `gpus` of a job to the usage of its virtual cluster; a negative number subtracts them."""
    usage[vc_id, gpu_type] += gpus
    if job_class is JobClass.OPPORTUNISTIC:
        usage[-vc_id, gpu_type] += gpus


class Admission(Plugin, PlanValidator, Protocol):
    """Decides how many GPUs a virtual cluster may hold, and finds violations of that in plans."""

    def admit(self, view: View, usage: QuotaUsage, job: Job, gpu_type: str | None, gpus: int) -> Denial | None:
        """Why the job may not hold `gpus` more GPUs of the type on top of `usage`; None if it may.

        `gpu_type` is None for a job without GPUs. The reason is QUOTA_TOO_SMALL if even an empty virtual cluster would
        not admit the job.
        """
        ...

    @property
    def reclaims(self) -> bool:
        """Whether `reclaimable_by` can return True."""
        ...

    def reclaimable_by(self, running: Job, waiting: Job) -> bool:
        """Whether the waiting job, once admitted, may reclaim the GPUs of the running job.

        This overrides the order of the policy. The running job, once preempted, cannot reclaim them in turn.
        """
        ...


ADMISSIONS: Registry[Admission] = Registry("admission", "scheduler.admission")
