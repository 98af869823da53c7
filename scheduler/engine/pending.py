"""Why the jobs that a decision left wait: one dominant reason each, what waiting helps least first.

They are written against what is free and used after all places, so that the numbers of all holds agree with each other,
and with what the pool shows once the plan is carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import UNSCHEDULABLE, Denial, Hold
from scheduler.placement import words
from scheduler.placement.shortage import Shortage


def holds(context: CycleContext, left: Iterable[Job]) -> tuple[Hold, ...]:
    """One hold for each job that was left, in the order given; nothing may be taken any more."""
    shortage = Shortage(context.state.free, context.state.capacity, context.now)
    positions: Counter[int] = Counter()
    queue = _Queue()
    found = []
    for job in left:
        positions[job.vc_id] += 1
        why = _why(context, job, shortage)
        helps = (queue.join(job, why), *why.helps) if why.once_free else why.helps
        found.append(Hold(job.id, why.reason, why.detail, why.evidence, helps, positions[job.vc_id]))
    return tuple(found)


class _Queue:
    """The jobs that wait for GPUs to become free, in the order of the policy: whom GPUs would help that become free."""

    def __init__(self) -> None:
        # The smallest number of GPUs that a job so far wants, by their type, and of jobs that only their quota keeps
        # from starting by virtual cluster too.
        self._wanted: dict[tuple[str, int | None], int] = {}

    def join(self, job: Job, why: Denial) -> str:
        """What must happen before the job starts: GPUs become free, or first the jobs go that would take them."""
        gpu_type = str(why.evidence.get("gpu_type", ""))
        of_quota = job.vc_id if why.reason is HoldReason.QUOTA else None
        rivals = (
            {(gpu_type, None), (gpu_type, job.vc_id)} if of_quota else {k for k in self._wanted if k[0] == gpu_type}
        )
        is_next = all(self._wanted.get(key, why.wanted + 1) > why.wanted for key in rivals)
        key = gpu_type, of_quota
        self._wanted[key] = min(why.wanted, self._wanted.get(key, why.wanted))
        return why.once_free if is_next else "the jobs ahead of it in the queue start or leave"


def _why(context: CycleContext, job: Job, shortage: Shortage) -> Denial:
    if job.id in context.reserved:
        return _kept(context, job)
    admitted, denial = context.entitled(job)
    if denial is not None and denial.reason in UNSCHEDULABLE:
        return denial
    early = backoff_reason(job, context.now)
    if early is not None:
        return early
    if job.id in context.waits_behind:
        return _behind(job, context.waits_behind[job.id])
    if denial is not None:
        return denial
    if job.id in context.pending_reasons:
        return context.pending_reasons[job.id]
    if job.id in context.deferred:
        return _cycle_limit(context.max_places)
    return shortage.of(admitted[0])


def _kept(context: CycleContext, job: Job) -> Denial:
    kept = next(one for one in context.view.reservations if one.job_id == job.id)
    gpu_ids = [gpu_id for share in kept.allocations for gpu_id in share.gpu_ids]
    held = sum(gpu_id in context.view.holders_of_gpu for gpu_id in gpu_ids)
    what = words.count(len(gpu_ids), "GPU")
    return Denial(
        HoldReason.RESERVED,
        f"of {what} that are kept for this job, {words.are(held)} still held by jobs that stop"
        if held
        else f"{what} are kept for this job, which starts once jobs that stop have let go of what it lacks",
        {"gpus": len(gpu_ids), "held": held},
        ("the jobs that were asked to stop have stopped",),
    )


def _behind(job: Job, head: Job) -> Denial:
    if head.vc_id != job.vc_id:  # whose job it is, and which, is not for other tenants to know
        return Denial(
            HoldReason.BEHIND_HEAD,
            "a job of another virtual cluster is ahead in this pool and may not be passed",
            {},
            ("the job ahead starts or leaves the queue",),
        )
    return Denial(
        HoldReason.BEHIND_HEAD,
        f"job {head.id} is ahead and may not be passed",
        {"head_job_id": head.id},
        (f"job {head.id} starts or leaves the queue",),
    )


def _cycle_limit(max_places: int) -> Denial:
    return Denial(
        HoldReason.CYCLE_LIMIT,
        f"this cycle started {words.count(max_places, 'job')}, its limit, before the turn of this one",
        {"max_places": max_places},
        ("the next cycle goes on from here",),
    )
