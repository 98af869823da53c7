"""Guaranteed jobs stay within the quota; opportunistic jobs use any idle GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from scheduler.admission import ANY_GPUS, Admission, Grant, Ledger, LockScope, QuotaUsage
from scheduler.admission.tally import Tally, job_of, quota_of
from scheduler.model import Job, View
from scheduler.model.invariants import Violation
from scheduler.model.lifecycle import HoldReason, JobClass
from scheduler.model.phrases import become_free
from scheduler.model.plan import Denial, Evidence, Plan
from scheduler.model.request import Config

GUARANTEE_EXCEEDED = "guarantee_exceeded"


class BorrowLedger(Ledger):
    """Offers guaranteed jobs what guaranteed jobs do not hold of the quota, and opportunistic jobs everything."""

    def reclaims(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """A guaranteed job may reclaim the GPUs of an opportunistic one."""
        return _lends_to(waiting, running)

    def on_loan(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """An opportunistic job would have the GPUs of a guaranteed one on loan."""
        return _lends_to(running, waiting)

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """Denies a guaranteed job that would exceed the quota together with the other guaranteed jobs."""
        gpu_type, gpus = config.gpu_type, config.gpus
        if gpu_type is None or job.job_class is JobClass.OPPORTUNISTIC:
            return ANY_GPUS
        name, quota = quota_of(self.view, job.vc_id, gpu_type)
        used = self.usage[job.vc_id, gpu_type] - self.usage[-job.vc_id, gpu_type]
        if used + gpus <= quota:
            return ANY_GPUS
        as_opportunistic = "submit it as an opportunistic job"
        evidence: Evidence = {"vc": name, "gpu_type": gpu_type, "used": used, "quota": quota, "needed": gpus}
        if gpus <= quota:
            return Denial(
                HoldReason.QUOTA,
                f"guaranteed jobs of {name} use {used} of its {quota} {gpu_type}; this job needs {gpus}",
                evidence,
                (as_opportunistic,),
                wanted=used + gpus - quota,
                once_free=become_free(used + gpus - quota, f"{gpu_type} of its guaranteed jobs"),
            )
        return Denial(
            HoldReason.QUOTA_TOO_SMALL,
            f"the quota of {name} is {quota or 'no'} {gpu_type}; this job needs {gpus}",
            evidence,
            (as_opportunistic, f"ask an operator to raise the quota of {name}"),
        )


@dataclass(frozen=True, slots=True)
class Borrow(Admission):
    """Admits guaranteed jobs within the quota of their virtual cluster, and every opportunistic job."""

    lock_scope: ClassVar[LockScope] = LockScope.VIRTUAL_CLUSTERS
    reclaims: ClassVar[bool] = True

    def ledger(self, view: View) -> Ledger:
        return BorrowLedger(view)

    def may_evict(self, view: View, running: Job, waiting: Job) -> bool:
        """A guaranteed job may evict an opportunistic one."""
        return _lends_to(waiting, running)

    def violations(self, view: View, plan: Plan) -> Iterator[Violation]:
        """The guaranteed places that exceed a quota, and the guaranteed jobs preempted for opportunistic ones.

        GPUs that the plan frees do not count against the quota.
        """
        given, tally = QuotaUsage(view.held_by_vc), Tally(view)
        for run in view.running:  # jobs on a shared GPU have one class, so these GPUs hold no guaranteed job
            if run.job.job_class is JobClass.OPPORTUNISTIC:
                given.subtract(tally.freed_by(run))
        before = QuotaUsage(given)
        for preempt in plan.preempts:
            run_of = view.running_by_job.get(preempt.job_id)
            if run_of is None:
                continue
            if run_of.job.job_class is JobClass.GUARANTEED:
                given.subtract(tally.freed_by(run_of))
                winner = job_of(view, preempt.for_job_id)
                if winner is not None and _lends_to(run_of.job, winner):
                    message = f"the plan preempts a guaranteed job for opportunistic job {winner.id}"
                    yield Violation(GUARANTEE_EXCEEDED, run_of.job.id, message)
        for place in plan.places:
            job = job_of(view, place.job_id)
            if job is None or job.job_class is JobClass.OPPORTUNISTIC:
                continue  # `check` reports unknown jobs
            types = tally.taken_by(job, place.allocations)
            given.update(types)
            for vc_id, gpu_type in sorted(types):
                name, quota = quota_of(view, vc_id, gpu_type)
                held = given[vc_id, gpu_type]
                if held > max(quota, before[vc_id, gpu_type]):  # a job may move although its quota was lowered
                    message = f"guaranteed jobs of {name} would hold {held} {gpu_type}; its quota is {quota}"
                    yield Violation(GUARANTEE_EXCEEDED, job.id, message)


def _lends_to(one: Job, other: Job) -> bool:
    return one.job_class is JobClass.GUARANTEED and other.job_class is JobClass.OPPORTUNISTIC


PLUGIN = Borrow
