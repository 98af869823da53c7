"""The pending reason of each job that a decision left waiting: the reason that waiting helps least.

Reasons use the resources that are free after all places. So their numbers agree with each other and with what the pool
shows after the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.model import Job
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import UNSCHEDULABLE, Denial, Hold
from scheduler.model.request import words_for_choices
from scheduler.placement import words
from scheduler.placement.shortage import Shortage


def holds(context: CycleContext, waiting: Iterable[Job]) -> tuple[Hold, ...]:
    """One hold for each job in `waiting`, in this order. Call it after the last place."""
    shortage = Shortage(context.state.free, context.state.capacity, context.now)
    positions: Counter[int] = Counter()
    queue = _FreeGpuQueue()
    found = []
    for job in waiting:
        positions[job.vc_id] += 1
        denial = _pending_reason(context, job, shortage)
        helps = (queue.join(job, denial), *denial.helps) if denial.once_free else denial.helps
        found.append(Hold(job.id, denial.reason, denial.detail, denial.evidence, helps, positions[job.vc_id]))
    return tuple(found)


class _FreeGpuQueue:
    """The jobs that wait for free GPUs, in the order of the policy: it tells which of them is next."""

    def __init__(self) -> None:
        # The fewest GPUs that a job so far wants, by GPU type and, for jobs that lack only quota, virtual cluster.
        self._wanted: dict[tuple[str, int | None], int] = {}

    def join(self, job: Job, denial: Denial) -> str:
        """The event that the job waits for: GPUs become free, or the jobs ahead leave the queue."""
        gpu_type = str(denial.evidence.get("gpu_type", ""))
        of_quota = job.vc_id if denial.reason is HoldReason.QUOTA else None
        rivals = (
            {(gpu_type, None), (gpu_type, job.vc_id)} if of_quota else {k for k in self._wanted if k[0] == gpu_type}
        )
        is_next = all(self._wanted.get(key, denial.wanted + 1) > denial.wanted for key in rivals)
        key = gpu_type, of_quota
        self._wanted[key] = min(denial.wanted, self._wanted.get(key, denial.wanted))
        return denial.once_free if is_next else "the jobs ahead of it in the queue start or leave"


def _pending_reason(context: CycleContext, job: Job, shortage: Shortage) -> Denial:
    if job.id in context.reserved:
        return _reserved(context, job)
    admitted, denial = context.admissible(job)
    if denial is not None:
        denial = _naming_choices(job, denial)
        if denial.reason in UNSCHEDULABLE:
            return denial
    too_early = backoff_reason(job, context.now)
    if too_early is not None:
        return too_early
    if job.id in context.waits_behind:
        return _behind(job, context.waits_behind[job.id])
    if denial is not None:
        return denial
    if job.id in context.pending_reasons:
        return context.pending_reasons[job.id]
    if job.id in context.deferred:
        return _cycle_limit(context.max_places)
    return _naming_choices(job, shortage.of(admitted[0]))


def _naming_choices(job: Job, denial: Denial) -> Denial:
    """The denial of one choice of the job, with the other choices, which are denied too."""
    choices = job.request.choices
    if len(choices) < 2:
        return denial
    others = words_for_choices(one for one in choices if one.gpu_type != denial.evidence.get("gpu_type"))
    return replace(
        denial,
        detail=f"{denial.detail}; it cannot have {others} either",
        evidence={**denial.evidence, "choices": words_for_choices(choices)},
    )


def _reserved(context: CycleContext, job: Job) -> Denial:
    reservation = next(one for one in context.view.reservations if one.job_id == job.id)
    gpu_ids = [gpu_id for share in reservation.allocations for gpu_id in share.gpu_ids]
    held = sum(gpu_id in context.view.holders_of_gpu for gpu_id in gpu_ids)
    what, verb = words.count(len(gpu_ids), "GPU"), "is" if len(gpu_ids) == 1 else "are"
    return Denial(
        HoldReason.RESERVED,
        f"of {what} reserved for this job, {words.are(held)} still held by stopping jobs"
        if held
        else f"{what} {verb} reserved for this job; it starts once stopping jobs release what else it needs",
        {"gpus": len(gpu_ids), "held": held},
        ("the stopping jobs have ended",),
    )


def _behind(job: Job, head: Job) -> Denial:
    if head.vc_id != job.vc_id:  # do not disclose jobs of other tenants
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
        f"this cycle started its limit of {words.count(max_places, 'job')} before it reached this one",
        {"max_places": max_places},
        ("nothing to do: the next cycle continues here",),
    )
