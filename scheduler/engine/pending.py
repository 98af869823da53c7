"""The pending reason of each job that a decision left waiting: the reason that waiting helps least.

Each comes with the delay that the job suffers meanwhile. Both use the resources that are free after all places. So
their numbers agree with each other and with what the pool shows after the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.engine.delays import over_quota, within_quota
from scheduler.model import Job
from scheduler.model.delays import DELAY_OF, FIXED, Delay
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import UNSCHEDULABLE, Denial, Hold
from scheduler.model.request import words_for_choices
from scheduler.placement import words
from scheduler.placement.demand import Demand
from scheduler.placement.shortage import Shortage


def holds(context: CycleContext, waiting: Iterable[Job]) -> Iterator[Hold]:
    """Yields one hold for each job in `waiting`, in this order. Call it after the last place."""
    denials, queue = _Denials(context), _FreeGpuQueue()
    positions: Counter[int] = Counter()
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}  # equal helps are one object, which is stored and sent once
    for job in waiting:
        positions[job.vc_id] += 1
        key = denials.key(job)
        denial = _pending_reason(context, job, denials, key)
        helps = (queue.join(job, denial), *denial.helps) if denial.once_free else denial.helps
        helps = shared.setdefault(helps, helps)
        delay = denials.delay(job, key)
        yield Hold(job.id, denial.reason, denial.detail, denial.evidence, helps, positions[job.vc_id], delay)


class _FreeGpuQueue:
    """The jobs that wait for free GPUs, in the order of the policy: it tells which of them is next."""

    def __init__(self) -> None:
        # The fewest GPUs that a job so far wants: by GPU type; of jobs that lack not only quota, by GPU type; and of
        # jobs that lack only quota, by GPU type and virtual cluster.
        self._of_all: dict[str, int] = {}
        self._beyond_quota: dict[str, int] = {}
        self._of_quota: dict[tuple[str, int], int] = {}

    def join(self, job: Job, denial: Denial) -> str:
        """The event that the job waits for: GPUs become free, or the jobs ahead leave the queue."""
        gpu_type, wanted = str(denial.evidence.get("gpu_type", "")), denial.wanted
        more = wanted + 1
        if denial.reason is HoldReason.QUOTA:
            key = gpu_type, job.vc_id
            own = self._of_quota.get(key, more)
            fewest = min(self._beyond_quota.get(gpu_type, more), own)
            self._of_quota[key] = min(own, wanted)
        else:
            fewest = self._of_all.get(gpu_type, more)
            self._beyond_quota[gpu_type] = min(self._beyond_quota.get(gpu_type, more), wanted)
        self._of_all[gpu_type] = min(self._of_all.get(gpu_type, more), wanted)
        return denial.once_free if fewest > wanted else "the jobs ahead of it in the queue start or leave"


class _Denials:
    """Reasons that jobs lack capacity, quota or free resources after the last place of a cycle.

    Thousands of waiting jobs share a few hundred answers: those of one virtual cluster and class with equal demands,
    between which the admission makes no difference.
    """

    def __init__(self, context: CycleContext) -> None:
        self._context = context
        self._shortage = Shortage(context.state.free, context.state.capacity, context.now)
        self._admitted: dict[Hashable, tuple[Sequence[Demand], Denial | None]] = {}
        self._short: dict[Hashable, Denial] = {}
        self._delays: dict[Hashable, Delay] = {}

    def key(self, job: Job) -> Hashable:
        """Equal for jobs with the same answers."""
        context = self._context
        return context.demands_key(job), job.vc_id, job.job_class, job.preemptible, context.ledger.key(job)

    def admission(self, job: Job, key: Hashable) -> Denial | None:
        """The reason that capacity or quota does not admit the job; None if they do."""
        found = self._admitted.get(key)
        if found is None:
            admitted, denial = self._context.admissible(job)
            found = self._admitted[key] = admitted, denial and _naming_choices(job, denial)
        return found[1]

    def shortage(self, job: Job, key: Hashable) -> Denial:
        """The reason that an admitted job does not fit the free resources."""
        found = self._short.get(key)
        if found is None:
            found = self._short[key] = _naming_choices(job, self._shortage.of(self._admitted[key][0][0]))
        return found

    def delay(self, job: Job, key: Hashable) -> Delay:
        """The cause of the job's wait, whatever the reason that its owner is told."""
        if job.still_stopping or job.eligible_at > self._context.now:
            return Delay.NOT_ELIGIBLE
        found = self._delays.get(key)
        if found is None:
            found = self._delays[key] = self._delay(job, self.admission(job, key))
        return found

    def _delay(self, job: Job, denial: Denial | None) -> Delay:
        state = self._context.state
        if denial is not None and denial.reason in FIXED:
            return DELAY_OF[denial.reason]
        if over_quota(state, job):
            return Delay.FAIR_SHARE
        if denial is not None:
            return DELAY_OF[denial.reason]
        return within_quota(state.free, self._context.placement, self._context.demands(job))


def _pending_reason(context: CycleContext, job: Job, denials: _Denials, key: Hashable) -> Denial:
    if job.id in context.reserved:
        return _reserved(context, job)
    denial = denials.admission(job, key)
    if denial is not None and denial.reason in UNSCHEDULABLE:
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
    return denials.shortage(job, key)


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


@cache
def _cycle_limit(max_places: int) -> Denial:
    return Denial(
        HoldReason.CYCLE_LIMIT,
        f"this cycle started its limit of {words.count(max_places, 'job')} before it reached this one",
        {"max_places": max_places},
        ("nothing to do: the next cycle continues here",),
    )
