"""Backfill; docs/policies/backfill.md describes the promises and their assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from scheduler.authoring import Job, JobClass, Need, OrderedPolicy, Running, param
from scheduler.policies.backfill.horizon import Horizon, Promise
from scheduler.policies.predicted import ends_at, rest_s
from scheduler.workshop import (
    RESERVATION_S,
    UNSCHEDULABLE,
    AllocationView,
    CycleContext,
    Demand,
    Denial,
    HoldReason,
    Node,
    backoff_reason,
)

# The last moment that a date can express.
_LAST_DATE_S = 253_402_300_799.0


@dataclass(frozen=True, slots=True)
class Backfill(OrderedPolicy):
    """Serves by priority and submission; later jobs may start if they delay no promise.

    1. In order, each job starts that can without touching a promise.
    2. A job that cannot start is promised the earliest place possible: the first such job (`easy`), or each of the
       first `depth` (`conservative`).
    3. Conservative promises last from cycle to cycle: a job's promise can only become earlier.
    4. Where quota admission lends GPUs, their owners come first, and reclaim them if no promise needs them.
    """

    mode: str = param(
        "easy",
        "The jobs that are promised a start: the first that cannot start, or all.",
        enum=["easy", "conservative"],
    )
    depth: int = param(
        100, "With conservative: the number of jobs that are promised a start; more take more time.", minimum=1
    )
    optimistic: bool = param(False, "Count predicted run times as ends, although they are not enforced.")
    shortest_first: bool = param(
        False, "With easy: let the job with the shortest prediction pass first, instead of by order."
    )

    @property
    def needs(self) -> frozenset[Need]:
        """Remaining times, where they count as ends or decide who passes."""
        shortest = self.shortest_first and self.mode == "easy"
        return frozenset({Need.REMAINING} if self.optimistic or shortest else ())

    def serve(self, context: CycleContext) -> None:
        _Cycle(self, context).run()

    def length_s(self, job: Job) -> float:
        """The maximum time for which the job holds its GPUs, s: limit and grace, or its prediction if allowed."""
        return min(job.max_run_s, max(0.0, rest_s(job, None))) if self.optimistic else job.max_run_s

    def ends(self, run: Running, now: float) -> float:
        """The moment by which a running job ends; limit and grace count for a job that outran its prediction."""
        limit = run.placed_at + run.job.max_run_s
        predicted = min(limit, ends_at(run, None)) if self.optimistic else limit
        end = predicted if predicted > now else limit
        return min(end, now + RESERVATION_S) if run.stopping else end


class _Cycle:
    """One decision of the policy."""

    def __init__(self, policy: Backfill, context: CycleContext) -> None:
        self.policy, self.context = policy, context
        self.horizon = Horizon(context)
        self.max_promises = policy.depth if policy.mode == "conservative" else 1
        self.promised = 0
        self.released: set[int] = set()  # ids of running jobs to preempt
        self.heads: set[int] = set()  # virtual clusters with a job that was promised only its quota
        # Demands that could not start for a duration without touching a promise, by the shortest such duration.
        self.too_long: dict[tuple[int, Demand], float] = {}
        self.too_large: set[Demand] = set()  # demands that do not fit even without promises; free resources only shrink
        # Like `too_long`, even after reclaiming all GPUs on loan from such a job.
        self.too_long_anyhow: dict[tuple[int, Demand], float] = {}

    def run(self) -> None:
        """Serve each waiting job in order."""
        context, policy = self.context, self.policy
        if not len(context.state.queue(policy)) or not self._may_start_any():
            return
        self._look_ahead()
        if policy.mode == "conservative":
            self._remember()
        for job_class in context.service_classes():
            self._walk(job_class)
        if policy.mode == "conservative":
            self._note()

    def _may_start_any(self) -> bool:
        """True if the decision can change anything: a waiting job fits, or promises are explained or kept.

        Most decisions in a full pool end here, before the cost of looking ahead.
        """
        context = self.context
        if context.explain or context.admission.reclaims or context.placement.relaxes or self.policy.mode != "easy":
            return True
        heads = (job for job, _ in context.state.queue(self.policy).classes())
        return any(self._fits(job, demand) for job in heads for demand in context.admissible(job)[0])

    def _look_ahead(self) -> None:
        """Collect the ends of all holdings."""
        context, policy, view = self.context, self.policy, self.context.view
        for run in view.running:
            self.horizon.add_running(run, policy.ends(run, context.now))
        self.horizon.add_reopenings()
        for place in context.places.values():
            job = view.waiting_by_id[place.job_id]
            self.horizon.add_reserved(job, place.allocations, context.now + policy.length_s(job))
        for kept in view.reservations:
            if kept.until <= context.now:
                continue
            moving = view.running_by_job.get(kept.job_id)
            if kept.offered:  # it is unknown whether, and for how long, a framework will take them
                self.horizon.add_reserved(None, kept.allocations, math.inf)
            elif kept.job_id in context.reserved:
                job = view.waiting_by_id[kept.job_id]
                self.horizon.add_reserved(job, kept.allocations, kept.until + policy.length_s(job))
            elif moving is not None:
                self.horizon.add_reserved(None, kept.allocations, kept.until + policy.length_s(moving.job))

    def _walk(self, job_class: JobClass | None) -> None:
        context, policy = self.context, self.policy
        walk = context.state.queue(policy).walk(job_class)
        passing: list[Job] = []
        while (context.explain or not context.limit_reached) and (turn := walk.next()) is not None:
            job, _ = turn
            if job.id not in context.places and job.id not in context.reserved:
                if self.promised and policy.shortest_first and policy.mode == "easy":
                    passing.append(job)
                elif not self._serve(job) and not context.placement.relaxes:
                    walk.drop()
        for job in sorted(passing, key=lambda one: (rest_s(one, None), policy.waiting_key(one), one.id)):
            self._serve(job)

    def _serve(self, job: Job) -> bool:
        """Start the job, or promise it a start; False if no job with the same demands can be served either."""
        context, horizon = self.context, self.horizon
        admitted, denial = context.admissible(job)
        if denial is not None and denial.reason in UNSCHEDULABLE:
            return False
        before = horizon.promises.get(job.id)
        horizon.remove_promise(job.id)
        fitting = [demand for demand in admitted if self._fits(job, demand)]
        started = self._starts(job, fitting) or self._reclaims(job, admitted or context.demands(job))
        if not started and self._protects(job, admitted):
            self._promise(job, admitted, before)
        elif not started and fitting and context.explain and job.id not in context.deferred:
            context.pending_reasons[job.id] = _would_be_late(horizon.promises.values(), context.now)
        if before is not None and not _is_same(before, horizon.promises.get(job.id)):
            self.too_long.clear()  # the resources of the old promise may be free again
            self.too_long_anyhow.clear()
        return started or bool(fitting) or job.id in horizon.promises or bool(admitted and context.admission.reclaims)

    def _protects(self, job: Job, admitted: Sequence[Demand]) -> bool:
        """True if the job is among those that get a promise."""
        if self.policy.mode == "conservative" or admitted:
            return self.promised < self.max_promises
        return self._leads(job)

    def _leads(self, job: Job) -> bool:
        """True if the job, which lacks quota, is the first such job of its virtual cluster."""
        if job.vc_id in self.heads:
            return False
        self.heads.add(job.vc_id)
        return True

    def _starts(self, job: Job, fitting: Iterable[Demand]) -> bool:
        context, length_s = self.context, self.policy.length_s(job)
        hopeful = _short_enough(self.too_long, job, fitting, length_s)
        if not hopeful:
            return False
        allocations = self.horizon.place_now(job, hopeful, context.now + length_s)
        if allocations is None:
            self.too_long |= {(job.vc_id, one): length_s for one in hopeful}
            return False
        if context.limit_reached:
            context.deferred.add(job.id)
            return False
        context.take(job, allocations)
        self.horizon.take(job, allocations, context.now + length_s)
        return True

    def _reclaims(self, job: Job, admitted: Sequence[Demand]) -> bool:
        """Start the job after as few jobs as possible released GPUs on loan from it; True if it started.

        Resources released early may be promised from their original end on; a longer job cannot use them.
        """
        context, horizon, length_s = self.context, self.horizon, self.policy.length_s(job)
        hopeful = _short_enough(self.too_long_anyhow, job, admitted, length_s) if context.admission.reclaims else ()
        if not hopeful or context.limit_reached:
            return False
        lent = context.reclaimable(job)
        there = sum(run.gpus for run in lent)
        hopeful = [one for one in hopeful if context.state.free.gpus(one.gpu_type) + there >= one.gpus * one.nodes]
        # The released jobs take their grace period, which delays the start and the end of the job.
        end, gone, allocations = context.now + RESERVATION_S + length_s, list[Running](), None
        for run in lent if hopeful else ():
            if not context.may_reclaim(job, run):
                continue
            self._releases(run)
            gone.append(run)
            allocations = horizon.place_now(job, hopeful, end)
            if allocations is not None:
                break
        for run in reversed(gone):  # the last one is needed, if any number was enough
            self._undo_release(run)
            there_too = None if allocations is None or run is gone[-1] else horizon.place_now(job, hopeful, end)
            if there_too is not None:
                allocations = there_too
            elif allocations is not None:
                self._releases(run)
        if allocations is None:
            self.too_long_anyhow |= {(job.vc_id, one): length_s for one in hopeful}
            return False
        for run in gone:
            if run.job.id in self.released:
                context.preempt(run, job.id, "its GPUs go to a job of the virtual cluster that lent them")
        context.take(job, allocations)
        horizon.take(job, allocations, end)
        for known in (self.too_long, self.too_long_anyhow, self.too_large):
            known.clear()
        return True

    def _releases(self, run: Running) -> None:
        self.horizon.release(run)
        self.context.release(run)
        self.released.add(run.job.id)

    def _undo_release(self, run: Running) -> None:
        self.context.undo_release(run)
        self.horizon.undo_release(run, self.policy.ends(run, self.context.now))
        self.released.remove(run.job.id)

    def _fits(self, job: Job, demand: Demand) -> bool:
        """True if the demand would fit into what is free now if nothing were promised."""
        if demand in self.too_large:
            return False
        if self.context.find(job, demand) is None:
            self.too_large.add(demand)
            return False
        return True

    def _promise(self, job: Job, admitted: Sequence[Demand], before: Promise | None) -> None:
        """Promise the job its earliest possible start.

        A job that lacks quota is promised only its quota, so that it blocks only its own virtual cluster; unless every
        job is promised a start, and it is known when the quota has room.
        """
        context, length_s = self.context, self.policy.length_s(job)
        demands = [one for one in context.demands(job) if context.state.capacity.infeasible(one) is None]
        promise = None
        if admitted or self.policy.mode == "conservative":
            promise = self.horizon.earliest(job, demands, length_s, quota_only=False)
        if not admitted and (promise is None or math.isinf(promise.start)):
            promise = self.horizon.earliest(job, demands, length_s, quota_only=True)
        if promise is None:
            return
        if before is not None:  # no job with precedence over it has arrived since
            promise = replace(promise, made_at=before.made_at, known=before.known)
        self.horizon.promise(promise)
        if promise.shares:
            self.promised += 1
            if context.explain and job.id not in context.deferred:
                context.pending_reasons[job.id] = _will_start(promise, context)

    # Promises of earlier cycles

    def _remember(self) -> None:
        """Restore the earlier promises, up to the jobs that arrived since and have precedence over the rest.

        A job that was already waiting when others were promised something, and got no promise itself, does not break
        theirs.
        """
        context = self.context
        left = sum("since" in job.policy_state for job in context.view.waiting)
        newest_at, newest_id = -math.inf, 0  # the newest job so far without a promise
        for job_class in context.service_classes():
            walk = context.state.queue(self.policy).walk(job_class)
            while left and len(self.horizon.promises) < self.max_promises and (turn := walk.next()) is not None:
                job, _ = turn
                if job.id in context.places or job.id in context.reserved:
                    continue
                left -= "since" in job.policy_state
                promise = _promise_of(job, self.policy.length_s(job), context.now)
                if promise is None:
                    newest_at, newest_id = max(newest_at, job.waiting_since), max(newest_id, job.id)
                elif newest_at <= promise.made_at and newest_id <= promise.known and self.horizon.possible(promise):
                    self.horizon.promise(promise)
                else:
                    return

    def _note(self) -> None:
        """Store the promises of this cycle for the next one."""
        context = self.context
        for job in sorted(context.view.waiting, key=lambda one: one.id):
            if job.id in context.places or job.id in context.reserved or backoff_reason(job, context.now):
                continue
            promise = self.horizon.promises.get(job.id)
            policy_state = _memo_of(promise) if promise is not None and promise.shares else {}
            if policy_state != job.policy_state:
                context.note(job, None, policy_state)


def _memo_of(promise: Promise) -> Mapping[str, float]:
    """A promise as numbers: the start, whether it is ever known, and the GPUs by node and type."""
    policy_state: dict[str, float] = {
        "since": promise.job.waiting_since,
        "made_at": promise.made_at,
        "known": promise.known,
    }
    policy_state |= {"start": promise.start} if math.isfinite(promise.start) else {"never": 1}
    for share in promise.shares:
        policy_state[f"node {share.node_id} {promise.gpu_type or ''}"] = len(share.gpu_ids)
    return policy_state


def _promise_of(job: Job, length_s: float, now: float) -> Promise | None:
    """The promise in the job's policy state while it waits; None without one."""
    if job.policy_state.get("since") != job.waiting_since:
        return None
    start = math.inf if "never" in job.policy_state else max(now, job.policy_state.get("start", math.inf))
    shares: list[AllocationView] = []
    gpu_type = None
    for name in sorted(job.policy_state):
        kind, _, rest = name.partition(" ")
        if kind == "node":
            node_id, _, type_name = rest.partition(" ")
            gpu_type, gpus = type_name or None, int(job.policy_state[name])
            lots, size = gpus if job.request.divisible else 1, job.request.choice_of(gpu_type) or job.request.first
            # Only the number counts: the GPUs themselves are chosen when the job starts.
            shares.append(
                AllocationView(int(node_id), len(shares), tuple(range(gpus)), size.cpus * lots, size.memory_mib * lots)
            )
    made_at, known = job.policy_state.get("made_at", -math.inf), int(job.policy_state.get("known", 0))
    return Promise(job, start, start + length_s, gpu_type, tuple(shares), None, made_at, known) if shares else None


def _is_same(before: Promise, after: Promise | None) -> bool:
    """True if both promise the same amounts in the same places for the same time; the GPUs themselves may differ."""
    return after is not None and _memo_of(before) == _memo_of(after)


def _short_enough(
    too_long: Mapping[tuple[int, Demand], float], job: Job, demands: Iterable[Demand], length_s: float
) -> Sequence[Demand]:
    """The demands that might fit for this long, given the durations known not to fit."""
    return [
        one
        for one in demands
        if length_s < too_long.get((job.vc_id, one), math.inf) or (job.vc_id, one) not in too_long
    ]


def _will_start(promise: Promise, context: CycleContext) -> Denial:
    """The pending reason of a job that was promised a start."""
    needed, other = promise.job.request.gpus_on(promise.gpu_type), _named(promise, context)
    evidence: dict[str, int | float | str] = {"needed": needed}
    if promise.start > _LAST_DATE_S:
        detail = "backfill: it waits for jobs without a time limit, so its start is unknown"
        return Denial(HoldReason.NO_FREE_GPUS, detail, evidence, ("running jobs end",))
    evidence["starts_by"] = promise.start
    by = f"backfill: starts by {_moment(promise.start)} at the latest"
    closed = next((node for node in _nodes(promise, context) if node.maintenance_ends_at == promise.start), None)
    if closed is not None:
        helps = [f"the maintenance of {closed.name} is called off", "running jobs end before their time limits"]
        if (
            closed.schedulable
            and closed.maintenance_starts_at is not None
            and closed.maintenance_starts_at > context.now
        ):
            helps.insert(0, "set a time limit that ends before the maintenance begins")
        detail = f"{by}, when the maintenance of {closed.name} is over"
        return Denial(HoldReason.MAINTENANCE, detail, evidence, tuple(helps))
    because = f", when the time limit of {other} is over" if other else ""
    return Denial(HoldReason.NO_FREE_GPUS, f"{by}{because}", evidence, ("running jobs end before their time limits",))


def _would_be_late(promises: Iterable[Promise], now: float) -> Denial:
    """The pending reason of a job that would fit now, but only on GPUs promised to others."""
    starts = [promise.start for promise in promises if promise.shares]
    soonest = min(starts, default=math.inf)
    if soonest > _LAST_DATE_S or soonest <= now:
        detail = "backfill: the free resources are promised to a job ahead"
        return Denial(HoldReason.BEHIND_HEAD, detail, {}, ("a job ahead starts or leaves the queue",))
    return Denial(
        HoldReason.BEHIND_HEAD,
        f"backfill: the free resources are promised to a job ahead, which starts by {_moment(soonest)}, "
        "and this one may still run then",
        {"starts_by": soonest},
        ("set a time limit that ends by then", "a job ahead starts or leaves the queue"),
    )


def _nodes(promise: Promise, context: CycleContext) -> Iterable[Node]:
    """The promised nodes."""
    return (context.view.node_by_id[share.node_id] for share in promise.shares)


def _named(promise: Promise, context: CycleContext) -> str:
    """The job whose end makes room, in words that name no other tenant's job."""
    if promise.waits_for is None:
        return ""
    run = context.view.running_by_job.get(promise.waits_for)
    if run is None or run.job.vc_id != promise.job.vc_id:
        return "another job"
    return f"job {promise.waits_for}"


def _moment(at: float) -> str:
    # Rounded up: "by" is a promise.
    return f"{datetime.fromtimestamp(math.ceil(at / 60) * 60, UTC):%Y-%m-%d %H:%M} UTC"
