"""Greedy marginal gain; docs/policies/optimus.md says what it optimises and what its parameters cost."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.admission import QuotaUsage, charge
from scheduler.engine.context import CycleContext, backoff_reason
from scheduler.engine.queue import Key
from scheduler.model import AllocationView, Job, Locality, Running, View
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import UNSCHEDULABLE, Denial
from scheduler.placement.split import cut

# Gains are compared by the microsecond. Those of two jobs with the same work left may differ by what their sums were
# rounded to, and then chance would say who comes first, where the order should.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Optimus:
    """Sizes all jobs of the pool anew: one GPU for each, then one at a time where it saves the most time.

    Source: Peng et al., Optimus (EuroSys 2018), §4.1, as the baseline of Pollux (OSDI 2021), §5.2, has it.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "min_gain_s": {
                "type": "number",
                "minimum": 0,
                "default": 0,
                "description": "A job gets one more GPU only if that saves more than this many seconds.",
            },
            "restart_s": {
                "type": "number",
                "minimum": 0,
                "default": 0,
                "description": "What a resize costs a job: one that runs grows only if that saves more than this.",
            },
            "every_s": {
                "type": ["number", "null"],
                "minimum": 1,
                "default": 60,
                "description": "How often sizes are looked at again though nothing happened; null: never.",
            },
        },
        "additionalProperties": False,
    }

    min_gain_s: float = 0
    restart_s: float = 0
    every_s: float | None = 60

    def waiting_key(self, job: Job) -> Key:
        """By priority, then submission: the order of the first GPUs, and of equals."""
        return (-job.priority, job.submitted_at)

    def order(self, view: View) -> Iterable[Job]:
        """See `Policy`."""
        return sorted(view.waiting, key=lambda job: (self.waiting_key(job), job.id))

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The next multiple of `every_s`, the same for all jobs, for one that runs and could have another size."""
        if self.every_s is None or run is None or not _elastic(job):
            return None
        return (math.floor(now / self.every_s) + 1) * self.every_s

    def serve(self, context: CycleContext) -> None:
        """See `Policy`.

        1. Those that take part, in order: who runs and may be preempted, and who may start.
        2. How many GPUs each of them gets.
        3. Whose size does not change stays; the others make room, and are placed anew, the smallest first.
        """
        entrants, steady = _entrants(context)
        entrants.sort(key=lambda one: (self.waiting_key(one.job), one.job.id))
        self._size(context, entrants)
        if self.restart_s > 0:
            _settle_for_less(entrants, self.restart_s)
        _carry_out(context, entrants, steady=steady)

    def _size(self, context: CycleContext, entrants: list[_Entrant]) -> None:
        """Give each entrant its number of GPUs.

        1. One GPU each, or the one size of a job that has no other, in order, while there are any.
        2. The one whose next GPU saves the most time gets it, the first in order among equals, until no GPU is left,
           or none saves anything.
        """
        ledger = _Ledger(context, entrants)
        gains: list[tuple[float, int]] = []
        for position, one in enumerate(entrants):
            if ledger.begin(one):
                self._offer(gains, one, position)
        while gains:
            _, position = heapq.heappop(gains)
            if ledger.grant(entrants[position], 1):
                self._offer(gains, entrants[position], position)

    def _offer(self, gains: list[tuple[float, int]], one: _Entrant, position: int) -> None:
        if one.size < one.most:
            gain = one.seconds_on(one.size) - one.seconds_on(one.size + 1)
            if gain > self.min_gain_s:
                heapq.heappush(gains, (-round(gain, _DIGITS), position))


@dataclass(slots=True)
class _Entrant:
    """A job that takes part, and the size that it gets."""

    job: Job
    run: Running | None
    left_s: float | None  # on what the job asks for; None: nobody knows
    kind: str | None  # the type of its GPUs; None: not chosen yet, or none at all
    size: int = 0  # GPUs
    goes: bool = False  # whether it gets anything at all

    @property
    def has(self) -> int:
        """GPUs that it holds."""
        return self.run.gpus if self.run is not None else 0

    @property
    def sizable(self) -> bool:
        """Whether its size is for the policy to choose; without a prediction, it gets what it asks for."""
        return self.left_s is not None and _elastic(self.job)

    @property
    def first(self) -> int:
        """The size with which it begins."""
        return 1 if self.sizable else self.job.gpus_total

    @property
    def most(self) -> int:
        """The size beyond which it does not go."""
        return min(self.job.max_gpus, len(self.job.speeds)) if self.sizable else self.first

    def seconds_on(self, gpus: int) -> float:
        """How long the rest takes on so many GPUs."""
        return (self.left_s or 0.0) / self.job.speed_on(gpus)


class _Ledger:
    """What is left to hand out: the GPUs of each type that are free or held by entrants, and what admissions admit."""

    def __init__(self, context: CycleContext, entrants: Iterable[_Entrant]) -> None:
        self._context = context
        self._usage = QuotaUsage(context.state.quota_usage)
        self._left = Counter({kind: context.state.free.gpus(kind) for kind in context.state.capacity.types})
        for one in entrants:
            if one.run is not None and one.kind is not None:
                self._left[one.kind] += one.has
                charge(self._usage, one.job.vc_id, one.job.klass, one.kind, -one.has)

    def begin(self, one: _Entrant) -> bool:
        """Whether the entrant gets its first size; a job that takes any type, of the one with the most GPUs left."""
        if one.kind is not None or not one.job.gpus:
            return self.grant(one, one.first)
        kinds = one.job.types_among(self._context.state.capacity.types)
        for kind in sorted(kinds, key=lambda kind: (-self._left[kind], kind)):
            one.kind = kind
            if self.grant(one, one.first):
                return True
        one.kind = None
        return False

    def grant(self, one: _Entrant, gpus: int) -> bool:
        """Whether the entrant may have so many more; if so, it has them."""
        context, kind = self._context, one.kind
        if kind is None:
            if one.job.gpus:
                return False
            one.goes = context.admission.admit(context.view, self._usage, one.job, None, 0) is None
            return one.goes
        demand = context.demands(one.job, one.size + gpus if one.sizable else None)[0]._replace(gpu_type=kind)
        if self._left[kind] < gpus or context.state.capacity.infeasible(demand) is not None:
            return False
        if context.admission.admit(context.view, self._usage, one.job, kind, gpus) is not None:
            return False
        self._left[kind] -= gpus
        charge(self._usage, one.job.vc_id, one.job.klass, kind, gpus)
        one.size, one.goes = one.size + gpus, True
        return True


def _elastic(job: Job) -> bool:
    return job.split and job.max_gpus > 0 and bool(job.speeds)


def _entrants(context: CycleContext) -> tuple[list[_Entrant], bool]:
    """The jobs that take part; what the others hold is not handed out.

    Also whether some of those who could take part keep their sizes instead, see `_above_quota`.
    """
    view, now = context.view, context.now
    entrants, steady = list[_Entrant](), False
    moving = {run.job.vc_id for run in view.running if run.stopping}
    for run in view.running:
        if run.job.preemptible and context.stays(run) and _in_service(context, run):
            held = [context.state.free.type_of(gpu_id) for share in run.allocations for gpu_id in share.gpu_ids]
            one = _Entrant(run.job, run, run.remaining_s(now), held[0] if held else None)
            if run.job.vc_id in moving and _above_quota(context, one):
                steady = True
            else:
                entrants.append(one)
    for job in view.waiting:
        if job.id not in context.places and job.id not in context.reserved and backoff_reason(job, now) is None:
            _, denial = context.admissible(job, 1 if job.max_gpus else None)
            if denial is None or denial.reason not in UNSCHEDULABLE:  # nobody waits behind what can never start
                entrants.append(_Entrant(job, None, job.remaining_s, job.gpu_type if job.gpus else None))
    return entrants, steady


def _above_quota(context: CycleContext, one: _Entrant) -> bool:
    """Whether the job would lose GPUs because its virtual cluster has too many, though nobody asks for more.

    While some stop for others, both count, those who go and those who come. Whoever were sized by that would shrink for
    nobody, and the next one for that one.
    """
    return context.admission.admit(context.view, context.state.quota_usage, one.job, one.kind, 0) is not None


def _in_service(context: CycleContext, run: Running) -> bool:
    """Whether others could have what the job holds."""
    return all(
        context.state.free.node(share.node_id) is not None
        and all(gpu_id in context.view.gpu_by_id and context.view.gpu_by_id[gpu_id].healthy for gpu_id in share.gpu_ids)
        for share in run.allocations
    )


def _settle_for_less(entrants: list[_Entrant], restart_s: float) -> None:
    """Take back what is not worth a restart.

    1. A running job that would grow, but save no more than a restart takes, keeps its size.
    2. With what that leaves over, jobs that should have shrunk keep theirs, those first that lose the least.
    """
    spare: Counter[str] = Counter()
    for one in entrants:
        if 0 < one.has < one.size and one.seconds_on(one.has) - one.seconds_on(one.size) <= restart_s:
            spare[one.kind or ""] += one.size - one.has
            one.size = one.has
    for one in sorted((one for one in entrants if one.size < one.has), key=lambda one: one.has - one.size):
        if one.has - one.size <= spare[one.kind or ""]:
            spare[one.kind or ""] -= one.has - one.size
            one.size = one.has


def _carry_out(context: CycleContext, entrants: list[_Entrant], *, steady: bool) -> None:
    """Place and preempt as the sizes say, as far as the limit of the cycle and the nodes let it."""
    changed = [one for one in entrants if one.size != one.has or (one.run is None and one.goes)]
    wanted = sorted((one for one in changed if one.goes), key=lambda one: one.size)
    room = max(0, context.max_places - len(context.places))
    for one in wanted[room:]:
        context.deferred.add(one.job.id)
    too_late = {one.job.id for one in wanted[room:]}
    released = [one for one in changed if one.run is not None and one.job.id not in too_late]
    for one in released:
        if one.run is not None:
            context.release(one.run)
    takers: list[_Entrant] = []
    for one in wanted[:room]:
        allocations = _places(context, one)
        if allocations is not None:
            context.take(one.job, allocations)
            takers.append(one)
        elif one.run is None:
            context.pending_reasons[one.job.id] = _scattered(one)
    _preempt(context, released, takers)
    for one in entrants:
        if one.run is None and not one.size and one.sizable:
            context.pending_reasons.setdefault(one.job.id, _nothing_left(one, steady=steady))


def _places(context: CycleContext, one: _Entrant) -> tuple[AllocationView, ...] | None:
    """Where the job goes: onto the nodes with the most free GPUs if it may lie anywhere, else as its placement says."""
    free, demands = context.state.free, context.demands(one.job, one.size if one.sizable else None)
    demand = demands[0]._replace(gpu_type=one.kind)
    if one.kind is not None and context.quota_denial(one.job, demand) is not None:
        return None  # somebody whose turn does not come in this cycle still has the quota that was meant for it
    if not one.sizable or demand.within is not Locality.ANY:
        return context.placement.place(free, demand, one.job.avoid_nodes)
    return cut(demand, sorted(free.by_room(one.kind), key=lambda node: node.id in one.job.avoid_nodes))


def _preempt(context: CycleContext, released: list[_Entrant], takers: list[_Entrant]) -> None:
    """Stop those that were placed anew for themselves, and of the others those of whom somebody took something."""
    for one in reversed(released):
        run = one.run
        if run is None:
            continue
        if run.job.id in context.places:
            context.preempt(run, run.job.id, f"it goes on with {one.size} GPUs instead of {one.has}")
            continue
        taker, detail = (None, "") if context.can_stay(run) else _taker(context, one, run, takers)
        if taker is None:  # who was meant to have what it held found no room, or only its admission would have it go
            context.undo_release(run)
        else:
            context.preempt(run, taker, detail)


def _taker(context: CycleContext, one: _Entrant, run: Running, takers: Iterable[_Entrant]) -> tuple[int | None, str]:
    """The first of `takers` that took from the job, and what: GPUs, room on a node, or quota; None when nobody did."""
    gpu_ids = {gpu_id for share in run.allocations for gpu_id in share.gpu_ids}
    node_ids = {share.node_id for share in run.allocations}
    beside = quota = None
    for other in takers:
        shares = context.places[other.job.id].allocations
        if any(gpu_id in gpu_ids for share in shares for gpu_id in share.gpu_ids):
            return other.job.id, "its GPUs go to jobs that are ahead of it"
        if beside is None and any(share.node_id in node_ids for share in shares):
            beside = other.job.id
        if quota is None and other.size > other.has and (other.job.vc_id, other.kind) == (one.job.vc_id, one.kind):
            quota = other.job.id
    if not context.has_room_for(run):
        return beside, "CPUs or memory of its node go to jobs that are ahead of it"
    return quota, "its quota goes to jobs of its virtual cluster that are ahead of it"


def _scattered(one: _Entrant) -> Denial:
    return Denial(
        HoldReason.FRAGMENTED,
        f"{one.size} {one.kind or 'nodes'} are meant for this job, but what is free does not lie as it asks",
        {"gpu_type": one.kind or "", "gpus": one.size},
        ("jobs end on the nodes that it could use", "it may lie further apart"),
    )


def _nothing_left(one: _Entrant, *, steady: bool) -> Denial:
    keeps = ", or that keeps its size until others have stopped" if steady else ""
    return Denial(
        HoldReason.NO_FREE_GPUS,
        f"each {one.kind or 'GPU'} that this job may have is with a job that is ahead of it{keeps}",
        {"gpu_type": one.kind or "", "needed": 1},
        (f"one {one.kind or 'GPU'} becomes free",),
    )
