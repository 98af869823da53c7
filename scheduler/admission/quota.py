"""A virtual cluster holds at most its quota of GPUs of each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from scheduler.admission import ANY_GPUS, Admission, Grant, Ledger, LockScope, QuotaUsage
from scheduler.admission.tally import Tally, job_of, quota_of
from scheduler.model import Job, View
from scheduler.model.invariants import Violation
from scheduler.model.lifecycle import HoldReason
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial, Evidence, Plan
from scheduler.model.request import Config

QUOTA_EXCEEDED = "quota_exceeded"


class QuotaLedger(Ledger):
    """Offers what a virtual cluster does not hold of its quota yet, whichever GPUs."""

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """Denies a job that would exceed the quota."""
        return quota_denial(self.view, self.usage, job, config) or ANY_GPUS


def quota_denial(view: View, usage: QuotaUsage, job: Job, config: Config) -> Denial | None:
    """The reason that the quota of its virtual cluster denies the job the configuration on top of the usage."""
    gpu_type, needed = config.gpu_type, config.gpus
    if gpu_type is None:
        return None
    name, quota = quota_of(view, job.vc_id, gpu_type)
    used = usage[job.vc_id, gpu_type]
    if used + needed <= quota:
        return None
    evidence: Evidence = {"vc": name, "gpu_type": gpu_type, "used": used, "quota": quota, "needed": needed}
    raise_it = f"ask an operator to raise the quota of {name}"
    if needed <= quota:
        return Denial(
            HoldReason.QUOTA,
            f"{name} uses {used} of its {quota} {gpu_type}; this job needs {needed}",
            evidence,
            (raise_it,),
            wanted=used + needed - quota,
            once_free=become_free(used + needed - quota, f"{gpu_type} of {name}"),
        )
    return Denial(
        HoldReason.QUOTA_TOO_SMALL,
        f"the quota of {name} is {quota or 'no'} {gpu_type}; this job needs {needed}",
        evidence,
        (f"ask for at most {quota} {gpu_type}", raise_it) if quota else (raise_it,),
    )


@dataclass(frozen=True, slots=True)
class Quota(Admission):
    """Admits jobs within the quota of their virtual cluster, by GPU type."""

    lock_scope: ClassVar[LockScope] = LockScope.VIRTUAL_CLUSTERS
    lends: ClassVar[bool] = False

    def ledger(self, view: View) -> Ledger:
        return QuotaLedger(view)

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """The places that exceed a quota. GPUs that the plan frees do not count."""
        given, tally = QuotaUsage(), Tally(view)
        for preempt in plan.preempts:
            attempt = view.running_by_job.get(preempt.job_id)
            if attempt is not None:
                given.subtract(tally.freed_by(attempt))
        for place in plan.places:
            job = job_of(view, place.job_id)
            if job is None:
                continue  # `check` reports unknown jobs
            types = tally.taken_by(job, place.allocations)
            given.update(types)
            for key in sorted(types):
                name, quota = quota_of(view, *key)
                before = view.held_by_vc.get(key, 0)
                held = before + given[key]
                if held > max(quota, before):  # a job may move although its quota was lowered
                    message = f"{name} would hold {held} {key[1]}; its quota is {quota}"
                    yield Violation(QUOTA_EXCEEDED, job.id, message)


PLUGIN = Quota
