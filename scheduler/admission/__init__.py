"""What a virtual cluster may have: the port of the admissions and their registry."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from scheduler.model import Job, View
from scheduler.model.invariants import PlanValidator
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import Denial
from scheduler.registry import Plugin, Registry

# GPUs held, by virtual cluster and GPU type: those of the view and those the cycle has given so far. Those of
# opportunistic jobs are counted once more, under minus the id of the virtual cluster.
QuotaUsage = Counter[tuple[int, str]]


def charge(usage: QuotaUsage, vc_id: int, klass: JobClass, gpu_type: str, gpus: int) -> None:
    """Count GPUs that a job of the virtual cluster has got, or with a number below 0 has given back."""
    usage[vc_id, gpu_type] += gpus
    if klass is JobClass.OPPORTUNISTIC:
        usage[-vc_id, gpu_type] += gpus


class Admission(Plugin, PlanValidator, Protocol):
    """Decides what a virtual cluster may have, and gives the law its objections to plans that ignore it."""

    def admit(self, view: View, usage: QuotaUsage, job: Job, gpu_type: str | None, gpus: int) -> Denial | None:
        """None when the job may have so many GPUs of this type on top of `usage`, or why not.

        `gpu_type` is None for a job without GPUs. The reason is QUOTA_TOO_SMALL when the job could never be admitted,
        and another one when it could be with less in use.
        """
        ...

    @property
    def reclaims(self) -> bool:
        """Whether `reclaimable_by` may ever say yes."""
        ...

    def reclaimable_by(self, running: Job, waiting: Job) -> bool:
        """Whether a running job has its GPUs only until another one, that waits and is admitted, has use for them.

        Whatever the order of the policy, such a job is preempted for the other, and never the other way round.
        """
        ...


ADMISSIONS: Registry[Admission] = Registry("admission", "scheduler.admission")
