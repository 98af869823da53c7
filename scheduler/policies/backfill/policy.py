"""Backfill; docs/policies/backfill.md says what is promised to whom, and what that rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from scheduler.board import Key
from scheduler.lifecycle import HoldReason
from scheduler.model import AllocationView, Job, Running
from scheduler.placement.free import Demand
from scheduler.plan import FOR_EVER, RESERVATION_S, Denial
from scheduler.policies.backfill.horizon import Horizon, Promise
from scheduler.policies.ordered import Ordered
from scheduler.policies.predicted import rest_s
from scheduler.scratch import Scratch, not_yet

# The last moment that a date can name.
_LAST_DATE_S = 253_402_300_799.0


@dataclass(frozen=True, slots=True)
class Backfill(Ordered):
    """Serves in the order of priority and submission, and lets later jobs start where that delays no promise.

    1. In order, each job that can start without touching what is promised starts.
    2. One that cannot is promised the earliest place that it can have: the first such job (`easy`), or each of the
       first `depth` (`conservative`).
    3. Conservative promises are kept from cycle to cycle: a job can only be promised something sooner.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "mode": {
                "type": "string",
                "enum": ["easy", "conservative"],
                "default": "easy",
                "description": "Who is promised a start: the first job that cannot start, or every one.",
            },
            "depth": {
                "type": "integer",
                "minimum": 1,
                "default": 100,
                "description": "With conservative: how many jobs are promised a start; what more costs time.",
            },
            "optimistic": {
                "type": "boolean",
                "default": False,
                "description": "Whether predicted run times count as ends, though nobody enforces them.",
            },
            "shortest_first": {
                "type": "boolean",
                "default": False,
                "description": "With easy: whether the shortest prediction may pass first, not the first in the order.",
            },
        },
        "additionalProperties": False,
    }

    mode: str = "easy"
    depth: int = 100
    optimistic: bool = False
    shortest_first: bool = False

    def waiting_key(self, job: Job) -> Key:
        """By priority, then submission."""
        return (-job.priority, job.submitted_at)

    def serve(self, scratch: Scratch) -> None:
        """See `Policy`."""
        _Cycle(self, scratch).run()

    def length_s(self, job: Job) -> float:
        """How long the job will run at the most once it starts: its limit, and its prediction if that may count."""
        limit_s = math.inf if job.time_limit_s is None else job.time_limit_s
        return min(limit_s, max(0.0, rest_s(job, None))) if self.optimistic else limit_s

    def ends(self, run: Running, now: float) -> float:
        """When a running job has ended at the latest; one that has outrun its prediction has its limit left."""
        limit = run.placed_at + (math.inf if run.job.time_limit_s is None else run.job.time_limit_s)
        predicted = run.placed_at + self.length_s(run.job)
        end = predicted if predicted > now else limit
        return min(end, now + RESERVATION_S) if run.stopping else end


class _Cycle:
    """One decision of the policy."""

    def __init__(self, policy: Backfill, scratch: Scratch) -> None:
        self.policy, self.scratch = policy, scratch
        self.horizon = Horizon(scratch)
        self.most = policy.depth if policy.mode == "conservative" else 1
        self.promised = 0
        self.heads: set[int] = set()  # virtual clusters with a job that was promised their quota only
        # For a demand that could not start for so long without touching a promise, how long; no longer can either.
        self.too_long: dict[tuple[int, Demand], float] = {}
        self.too_large: set[Demand] = set()  # what does not fit, whatever is promised; what is free only shrinks

    def run(self) -> None:
        """Give each job that waits its turn."""
        scratch, policy = self.scratch, self.policy
        walk = scratch.board.queue(policy).walk()
        first = walk.next()
        if first is None:
            return
        for run in scratch.view.running:
            self.horizon.holds(run.job, run.allocations, policy.ends(run, scratch.now))
        if policy.mode == "conservative":
            self._remember()
        turn: tuple[Job, Key] | None = first
        passing: list[Job] = []
        while turn is not None and (scratch.explain or not scratch.full):
            job, _ = turn
            if job.id not in scratch.places and job.id not in scratch.kept:
                if self.promised and policy.shortest_first and policy.mode == "easy":
                    passing.append(job)
                elif not self._serve(job) and not scratch.placement.relaxes:
                    walk.drop()
            turn = walk.next()
        for job in sorted(passing, key=lambda one: (rest_s(one, None), policy.waiting_key(one), one.id)):
            self._serve(job)
        if policy.mode == "conservative":
            self._note()

    def _serve(self, job: Job) -> bool:
        """Start the job, or promise it something; False when nobody who asks for the same can be helped either."""
        scratch, horizon = self.scratch, self.horizon
        admitted, denial = scratch.entitled(job)
        if denial is not None and denial.reason in FOR_EVER:
            return False
        before = horizon.promises.get(job.id)
        horizon.forget(job.id)
        fitting = [demand for demand in admitted if self._fits(job, demand)]
        started = self._starts(job, fitting)
        if not started and self._protects(job, admitted):
            self._promise(job, admitted)
        elif not started and fitting and scratch.explain and job.id not in scratch.too_late:
            scratch.said[job.id] = _would_be_late(horizon.promises.values(), scratch.now)
        if before is not None and before != horizon.promises.get(job.id):
            self.too_long.clear()  # what was promised then may have come free
        return started or bool(fitting) or job.id in horizon.promises

    def _protects(self, job: Job, admitted: Sequence[Demand]) -> bool:
        """Whether the job is one of those that are promised something."""
        if self.policy.mode == "conservative" or admitted:
            return self.promised < self.most
        return self._leads(job)

    def _leads(self, job: Job) -> bool:
        """Whether the job, which lacks quota, is the first of its virtual cluster that does."""
        if job.vc_id in self.heads:
            return False
        self.heads.add(job.vc_id)
        return True

    def _starts(self, job: Job, fitting: Iterable[Demand]) -> bool:
        scratch, length_s = self.scratch, self.policy.length_s(job)
        hopeful = [one for one in fitting if self._may_be_short_enough((job.vc_id, one), length_s)]
        if not hopeful:
            return False
        allocations = self.horizon.place_now(job, hopeful, scratch.now + length_s)
        if allocations is None:
            self.too_long |= {(job.vc_id, one): length_s for one in hopeful}
            return False
        if scratch.full:
            scratch.too_late.add(job.id)
            return False
        scratch.take(job, allocations)
        self.horizon.holds(job, allocations, scratch.now + length_s)
        return True

    def _may_be_short_enough(self, key: tuple[int, Demand], length_s: float) -> bool:
        return key not in self.too_long or length_s < self.too_long[key]

    def _fits(self, job: Job, demand: Demand) -> bool:
        """Whether the demand would fit into what is free now if nothing were promised."""
        if demand in self.too_large:
            return False
        if self.scratch.placement.place(self.scratch.board.free, demand, job.avoid_nodes) is None:
            self.too_large.add(demand)
            return False
        return True

    def _promise(self, job: Job, admitted: Sequence[Demand]) -> None:
        """Promise the job the earliest start that it can have.

        One that lacks quota is promised its quota only, so that it blocks nobody but its own virtual cluster; unless
        every job is promised a start, and it is known when the quota has room.
        """
        scratch, length_s = self.scratch, self.policy.length_s(job)
        demands = [one for one in scratch.demands(job) if scratch.board.capacity.infeasible(one) is None]
        promise = None
        if admitted or self.policy.mode == "conservative":
            promise = self.horizon.earliest(job, demands, length_s, quota_only=False)
        if not admitted and (promise is None or math.isinf(promise.start)):
            promise = self.horizon.earliest(job, demands, length_s, quota_only=True)
        if promise is None:
            return
        self.horizon.promise(promise)
        if promise.shares:
            self.promised += 1
            if scratch.explain and job.id not in scratch.too_late:
                scratch.said[job.id] = _will_start(promise, scratch)

    # Promises of earlier cycles

    def _remember(self) -> None:
        """Take up what was promised before, up to the first job that was promised nothing: it goes before the rest."""
        walk = self.scratch.board.queue(self.policy).walk()
        while len(self.horizon.promises) < self.most and (turn := walk.next()) is not None:
            job, _ = turn
            if job.id in self.scratch.places or job.id in self.scratch.kept:
                continue
            promise = _promise_of(job, self.policy.length_s(job), self.scratch.now)
            if promise is None or not self.horizon.possible(promise):
                return
            self.horizon.promise(promise)

    def _note(self) -> None:
        """Have the promises of this cycle told to the next one."""
        scratch = self.scratch
        for job in sorted(scratch.view.waiting, key=lambda one: one.id):
            if job.id in scratch.places or job.id in scratch.kept or not_yet(job, scratch.now):
                continue
            promise = self.horizon.promises.get(job.id)
            memo = _memo_of(promise) if promise is not None and promise.shares else {}
            if memo != job.memo:
                scratch.note(job, None, memo)


def _memo_of(promise: Promise) -> Mapping[str, float]:
    """What is promised, in numbers: the start, whether it is ever known, and the GPUs by node and type."""
    memo: dict[str, float] = {"since": promise.job.waiting_since}
    memo |= {"start": promise.start} if math.isfinite(promise.start) else {"never": 1}
    for share in promise.shares:
        memo[f"node {share.node_id} {promise.gpu_type or ''}"] = len(share.gpu_ids)
    return memo


def _promise_of(job: Job, length_s: float, now: float) -> Promise | None:
    """What the memo of a job says that it was promised while it waits; None when nothing was."""
    if job.memo.get("since") != job.waiting_since:
        return None
    start = math.inf if "never" in job.memo else max(now, job.memo.get("start", math.inf))
    shares: list[AllocationView] = []
    gpu_type = None
    for name in sorted(job.memo):
        kind, _, rest = name.partition(" ")
        if kind == "node":
            node_id, _, type_name = rest.partition(" ")
            gpu_type, gpus = type_name or None, int(job.memo[name])
            lots = gpus if job.split else 1
            # Only how many count: which they will be is settled when the job starts.
            shares.append(
                AllocationView(int(node_id), len(shares), tuple(range(gpus)), job.cpus * lots, job.memory_mib * lots)
            )
    return Promise(job, start, start + length_s, gpu_type, tuple(shares), None) if shares else None


def _will_start(promise: Promise, scratch: Scratch) -> Denial:
    """What a job is told that was promised a start."""
    needed, other = promise.job.gpus_total, _named(promise, scratch)
    evidence: dict[str, int | float | str] = {"needed": needed}
    if promise.start > _LAST_DATE_S:
        detail = "backfill: it waits for jobs without a time limit, so nobody knows when it starts"
        return Denial(HoldReason.NO_FREE_GPUS, detail, evidence, ("those that run now end",))
    evidence["starts_by"] = promise.start
    because = f", when the time limit of {other} is over" if other else ""
    detail = f"backfill: starts by {_moment(promise.start)} at the latest{because}"
    return Denial(HoldReason.NO_FREE_GPUS, detail, evidence, ("those that run now end before their time limits",))


def _would_be_late(promises: Iterable[Promise], now: float) -> Denial:
    """What a job is told that would fit now, but only on what was promised to others."""
    starts = [promise.start for promise in promises if promise.shares]
    soonest = min(starts, default=math.inf)
    if soonest > _LAST_DATE_S or soonest <= now:
        detail, helps = "backfill: what is free is promised to a job ahead", "a job ahead starts or leaves the queue"
        return Denial(HoldReason.BEHIND_HEAD, detail, {}, (helps,))
    return Denial(
        HoldReason.BEHIND_HEAD,
        f"backfill: what is free is promised to a job ahead, which starts by {_moment(soonest)}, "
        "and this one need not have ended by then",
        {"starts_by": soonest},
        ("ask for a time limit that is over by then", "a job ahead starts or leaves the queue"),
    )


def _named(promise: Promise, scratch: Scratch) -> str:
    """The job whose end makes room, in words; whose it is, and which, is not for other tenants to know."""
    if promise.waits_for is None:
        return ""
    run = scratch.view.running_by_job.get(promise.waits_for)
    if run is None or run.job.vc_id != promise.job.vc_id:
        return "another job"
    return f"job {promise.waits_for}"


def _moment(at: float) -> str:
    # Rounded up: "by" is a promise.
    return f"{datetime.fromtimestamp(math.ceil(at / 60) * 60, UTC):%Y-%m-%d %H:%M} UTC"
