"""Gives each next GPU to the job whose predicted end it advances most (Optimus)."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler.authoring import BasePolicy, Config, Job, Locality, Need, Running, param
from scheduler.workshop import (
    UNSCHEDULABLE,
    AllocationView,
    CycleContext,
    Denial,
    HoldReason,
    backoff_reason,
    configs_of,
    divide,
    sizes_on,
)

# Gains are compared by the microsecond. Those of two jobs with equal work may differ by rounding errors of their sums,
# and then chance would decide instead of the order.
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Optimus(BasePolicy):
    """Resizes all jobs of the pool: one GPU for each, then one at a time where it saves the most time.

    Source: Peng et al., Optimus (EuroSys 2018), §4.1, as in the baseline of Pollux (OSDI 2021), §5.2.
    """

    min_gain_s: float = param(0, "A job gets one more GPU only if that saves more than this many seconds.", minimum=0)
    restart_s: float = param(0, "The cost of a resize: a running job grows only if that saves more.", minimum=0)
    every_s: float | None = param(
        60, "The time between two revisions of all sizes without an event; null: never.", minimum=1
    )

    needs: ClassVar[frozenset[Need]] = frozenset({Need.RATES, Need.REMAINING})

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """The next multiple of `every_s`, the same for all jobs, for a running job that could have another size."""
        if self.every_s is None or run is None or not _elastic(job):
            return None
        return (math.floor(now / self.every_s) + 1) * self.every_s

    def serve(self, context: CycleContext) -> None:
        """See `Policy`.

        1. Collect the candidates in the order of first GPUs and equal gains: running jobs that may be preempted, and
           jobs that may start.
        2. Decide the number of GPUs for each.
        3. Jobs of unchanged size stay; the others stop and are placed anew, smallest first.
        """
        candidates, steady = _candidates(context)
        candidates.sort(key=lambda one: (self.waiting_key(one.job), one.job.id))
        self._size(context, candidates)
        if self.restart_s > 0:
            _skip_small_gains(candidates, self.restart_s)
        _apply_sizes(context, candidates, steady=steady)

    def _size(self, context: CycleContext, candidates: list[_Candidate]) -> None:
        """Decide each candidate's number of GPUs.

        1. Give each its least size, or the fixed size of a job without others, in order, while GPUs are left.
        2. Give its next size to the candidate that saves the most time a GPU by it, the first among equals, until no
           GPU is left or no candidate gains.
        """
        budget = _Budget(context, candidates)
        gains: list[tuple[float, int]] = []
        for position, one in enumerate(candidates):
            if budget.grant_initial(one):
                self._offer(gains, one, position)
        while gains:
            _, position = heapq.heappop(gains)
            one = candidates[position]
            if budget.grant(one, one.next_size - one.size):
                self._offer(gains, one, position)

    def _offer(self, gains: list[tuple[float, int]], one: _Candidate, position: int) -> None:
        if one.next_size > one.size:
            gain = (one.seconds_on(one.size) - one.seconds_on(one.next_size)) / (one.next_size - one.size)
            if gain > self.min_gain_s:
                heapq.heappush(gains, (-round(gain, _DIGITS), position))


@dataclass(slots=True)
class _Candidate:
    """A job that takes part, and its size."""

    job: Job
    run: Running | None
    left_s: float | None  # on the size it asks for; None: unknown
    kind: str | None  # the type of its GPUs; None: not chosen yet, or no GPUs
    sizes: Sequence[int] = ()  # of which the policy chooses one, ascending; empty: it has what it asks for
    size: int = 0  # GPUs
    served: bool = False  # whether it gets anything at all

    @property
    def held(self) -> int:
        """The GPUs that it holds."""
        return self.run.gpus if self.run is not None else 0

    @property
    def sizable(self) -> bool:
        """True if the policy chooses its size; a job without a prediction gets what it asks for."""
        return self.left_s is not None and _elastic(self.job)

    @property
    def next_size(self) -> int:
        """The next larger size; the present one if there is none."""
        position = bisect_right(self.sizes, self.size)
        return self.sizes[position] if position < len(self.sizes) else self.size

    def seconds_on(self, gpus: int) -> float:
        """The seconds for the rest on `gpus` GPUs."""
        return (self.left_s or 0.0) / self.job.speed_on(gpus)


class _Budget:
    """The GPUs of each type left to grant, free or held by candidates, within what quota admits."""

    def __init__(self, context: CycleContext, candidates: Iterable[_Candidate]) -> None:
        self._context = context
        self._ledger = context.ledger.copy()
        self._left = Counter({kind: context.state.free.gpus(kind) for kind in context.state.capacity.types})
        for one in candidates:
            if one.run is not None and one.kind is not None:
                self._left[one.kind] += one.held
                self._ledger.promise(one.job, one.kind, -one.held)

    def grant_initial(self, one: _Candidate) -> bool:
        """Give the candidate its first size; True if it gets one; called in order of its preference.

        A job of any type gets the type with the most GPUs left.
        """
        if one.kind is not None or not one.job.request.needs_gpus:
            return self._grant_initial(one)
        kinds = one.job.request.types_among(self._context.state.capacity.types)
        if not one.job.request.gpu_types:
            kinds = sorted(kinds, key=lambda kind: (-self._left[kind], kind))
        for kind in kinds:
            one.kind = kind
            if self._grant_initial(one):
                return True
        one.kind = None
        return False

    def _grant_initial(self, one: _Candidate) -> bool:
        if not one.sizable or one.kind is None:
            return self.grant(one, one.job.request.gpus_on(one.kind))
        least, most = one.job.request.min_gpus, len(one.job.speeds)
        one.sizes = [size for size in sizes_on(self._context, one.job, one.kind) if least <= size <= most]
        return bool(one.sizes) and self.grant(one, one.sizes[0])

    def grant(self, one: _Candidate, gpus: int) -> bool:
        """Give the candidate `gpus` more; True if it has them."""
        context, kind = self._context, one.kind
        if kind is None:
            if one.job.request.needs_gpus:
                return False
            one.served = not isinstance(self._ledger.offer(one.job, Config(None, 0)), Denial)
            return one.served
        fits = bool(one.sizes) or context.state.capacity.infeasible(context.demands_on(one.job, kind)[0]) is None
        if self._left[kind] < gpus or not fits:
            return False
        if isinstance(self._ledger.offer(one.job, Config(kind, gpus)), Denial):
            return False
        self._left[kind] -= gpus
        self._ledger.promise(one.job, kind, gpus)
        one.size, one.served = one.size + gpus, True
        return True


def _elastic(job: Job) -> bool:
    return job.request.max_gpus > 0 and bool(job.speeds)


def _candidates(context: CycleContext) -> tuple[list[_Candidate], bool]:
    """The jobs that take part; GPUs of all others are not granted.

    Also whether some candidates keep their sizes instead, see `_above_quota`.
    """
    view, now = context.view, context.now
    candidates, steady = list[_Candidate](), False
    moving = {run.job.vc_id for run in view.running if run.stopping}
    for run in view.running:
        if run.job.preemptible and context.stays(run) and _in_service(context, run):
            held = [context.state.free.type_of(gpu_id) for share in run.allocations for gpu_id in share.gpu_ids]
            one = _Candidate(run.job, run, run.remaining_s(now), held[0] if held else None)
            if run.job.vc_id in moving and _above_quota(context, one):
                steady = True
            else:
                candidates.append(one)
    for job in view.waiting:
        if job.id not in context.places and job.id not in context.reserved and backoff_reason(job, now) is None:
            sizes = [config.gpus for config in configs_of(context, job)] if job.request.elastic is not None else []
            _, denial = context.admissible(job, min(sizes, default=None))
            if denial is None or denial.reason not in UNSCHEDULABLE:  # a job that can never start blocks no other
                candidates.append(
                    _Candidate(job, None, job.remaining_s, job.request.only_type if job.request.needs_gpus else None)
                )
    return candidates, steady


def _above_quota(context: CycleContext, one: _Candidate) -> bool:
    """True if the job would lose GPUs because its virtual cluster is above quota, though no job needs them.

    While jobs stop for others, both count as usage. Resizing by that would shrink jobs for no benefit, one after
    another.
    """
    return isinstance(context.ledger.offer(one.job, Config(one.kind, 0)), Denial)


def _in_service(context: CycleContext, run: Running) -> bool:
    """True if other jobs could use what the job holds."""
    return all(
        context.state.free.node(share.node_id) is not None
        and all(gpu_id in context.view.gpu_by_id and context.view.gpu_by_id[gpu_id].healthy for gpu_id in share.gpu_ids)
        for share in run.allocations
    )


def _skip_small_gains(candidates: list[_Candidate], restart_s: float) -> None:
    """Undo changes that are not worth a restart.

    1. A running job that would grow, but save no more than a restart takes, keeps its size.
    2. With the GPUs left by that, jobs that would shrink keep theirs, smallest loss first.
    """
    spare: Counter[str] = Counter()
    for one in candidates:
        if 0 < one.held < one.size and one.seconds_on(one.held) - one.seconds_on(one.size) <= restart_s:
            spare[one.kind or ""] += one.size - one.held
            one.size = one.held
    for one in sorted((one for one in candidates if one.size < one.held), key=lambda one: one.held - one.size):
        if one.held - one.size <= spare[one.kind or ""]:
            spare[one.kind or ""] -= one.held - one.size
            one.size = one.held


def _apply_sizes(context: CycleContext, candidates: list[_Candidate], *, steady: bool) -> None:
    """Place and preempt according to the sizes, as far as the cycle's limit and the nodes allow."""
    changed = [one for one in candidates if one.size != one.held or (one.run is None and one.served)]
    wanted = sorted((one for one in changed if one.served), key=lambda one: one.size)
    room = max(0, context.max_places - len(context.places))
    for one in wanted[room:]:
        context.deferred.add(one.job.id)
    too_late = {one.job.id for one in wanted[room:]}
    released = [one for one in changed if one.run is not None and one.job.id not in too_late]
    for one in released:
        if one.run is not None:
            context.release(one.run)
    takers: list[_Candidate] = []
    for one in wanted[:room]:
        found = _first_place(context, one)
        if found is not None:
            one.size = sum(len(share.gpu_ids) for share in found)
            context.take(one.job, found)
            takers.append(one)
        elif one.run is None:
            context.pending_reasons[one.job.id] = _scattered(one)
    _preempt(context, released, takers)
    for one in candidates:
        if one.run is None and not one.size and one.sizable:
            context.pending_reasons.setdefault(one.job.id, _nothing_left(one, steady=steady))


def _first_place(context: CycleContext, one: _Candidate) -> tuple[AllocationView, ...] | None:
    """The job's place in its size, or in the next smaller one for which its nodes have room.

    None if there is none, and for a job that found no larger size and can stay as it is.
    """
    if not one.sizable or one.job.request.divisible:
        return _places(context, one, one.size)
    for size in reversed([size for size in one.sizes if size <= one.size]):
        if size == one.held and one.run is not None and context.can_stay(one.run):
            return None
        found = _places(context, one, size)
        if found is not None:
            return found
    return None


def _places(context: CycleContext, one: _Candidate, gpus: int) -> tuple[AllocationView, ...] | None:
    """The job's place on `gpus` GPUs: on the nodes with the most free GPUs if it may be scattered, else by its
    placement.
    """
    if one.kind is None:
        return context.find(one.job, context.demands(one.job)[0])
    demands = context.demands_on(one.job, one.kind, gpus if one.sizable else None)
    if context.quota_denial(one.job, demands[0]) is not None:
        return None  # a job not served in this cycle still owns the quota granted to it
    if not one.sizable or not demands[0].divisible or demands[0].within is not Locality.ANY:
        return next((found for demand in demands if (found := context.find(one.job, demand)) is not None), None)
    free = context.state.free
    return divide(demands[0], sorted(free.by_room(one.kind), key=lambda node: node.id in one.job.avoid_nodes))


def _preempt(context: CycleContext, released: list[_Candidate], takers: list[_Candidate]) -> None:
    """Preempt resized jobs for themselves, and the others whose resources were taken."""
    for one in reversed(released):
        run = one.run
        if run is None:
            continue
        if run.job.id in context.places:
            resized = f"its size changes from {one.held} to {one.size} GPUs"
            moved = "its GPUs go to jobs ahead of it, and it moves to others"
            context.preempt(run, run.job.id, resized if one.size != one.held else moved)
            continue
        taker, detail = (None, "") if context.can_stay(run) else _taker(context, one, run, takers)
        if taker is None:  # the job meant to use its resources found no room, or only quota admission requires the stop
            context.undo_release(run)
        else:
            context.preempt(run, taker, detail)


def _taker(
    context: CycleContext, one: _Candidate, run: Running, takers: Iterable[_Candidate]
) -> tuple[int | None, str]:
    """The first of `takers` that took from the job, and what: GPUs, room on a node, or quota; None if none did."""
    gpu_ids = {gpu_id for share in run.allocations for gpu_id in share.gpu_ids}
    node_ids = {share.node_id for share in run.allocations}
    beside = quota = None
    for other in takers:
        shares = context.places[other.job.id].allocations
        if any(gpu_id in gpu_ids for share in shares for gpu_id in share.gpu_ids):
            return other.job.id, "its GPUs go to jobs ahead of it"
        if beside is None and any(share.node_id in node_ids for share in shares):
            beside = other.job.id
        if quota is None and other.size > other.held and (other.job.vc_id, other.kind) == (one.job.vc_id, one.kind):
            quota = other.job.id
    if not context.has_room_for(run):
        return beside, "CPUs or memory of its node go to jobs ahead of it"
    return quota, "its quota goes to jobs of its virtual cluster ahead of it"


def _scattered(one: _Candidate) -> Denial:
    return Denial(
        HoldReason.FRAGMENTED,
        f"{one.size} {one.kind or 'nodes'} are assigned to this job, but the free ones do not fit its locality",
        {"gpu_type": one.kind or "", "gpus": one.size},
        ("jobs end on nodes that it could use", "its locality is relaxed"),
    )


def _nothing_left(one: _Candidate, *, steady: bool) -> Denial:
    keeps = ", or with one that keeps its size until others have stopped" if steady else ""
    return Denial(
        HoldReason.NO_FREE_GPUS,
        f"each {one.kind or 'GPU'} that this job may use is with a job ahead of it{keeps}",
        {"gpu_type": one.kind or "", "needed": 1},
        (f"one {one.kind or 'GPU'} becomes free",),
    )


PLUGIN = Optimus
