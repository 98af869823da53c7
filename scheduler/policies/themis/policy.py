"""The auction as a policy: it leases free GPUs to applications, and takes back what is not leased again.

A decision between two auctions only keeps the accounts. docs/policies/themis.md has the rules, and what the paper
leaves open.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar
from zlib import crc32

from scheduler.authoring import Config, Cycle, CyclePolicy, Need, PolicyError, Running, param
from scheduler.policies.themis.applications import Quotas, applications, job_of, live
from scheduler.policies.themis.auction import Outcome, Payment, Row, hold
from scheduler.policies.themis.bidders import Candidate, drawn, ranked, shares, split
from scheduler.policies.themis.bidding import Application, Member
from scheduler.policies.themis.memory import Memory
from scheduler.workshop import AttemptState

SOON_S = 0.001
TRIES = 3  # how often an auction is held again without rows for which the nodes have no room
_LOGGED_ROWS = 16


@dataclass(slots=True)
class _Round:
    """One auction while it is carried out: what is offered, who bids, and what became of it."""

    offer: Mapping[str, int]
    bidders: Sequence[Candidate]
    outside: Sequence[Candidate]
    draws: Sequence[Candidate]
    forbidden: set[tuple[str, Row]] = field(default_factory=set)
    outcome: Outcome = field(default_factory=lambda: Outcome({}, {}))
    won: dict[int, Config] = field(default_factory=dict)
    drew: dict[int, Config] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Themis(CyclePolicy):
    """Leases GPUs by auctions among the applications that are furthest from their fair finish time."""

    fairness: float = param(
        0.8, "The part of the applications that may not bid: 0 favours efficiency, 1 fairness.", minimum=0, maximum=1
    )
    lease_s: float = param(1200, "The lease of a winner that pays nothing, s.", minimum=10, maximum=86400)
    every_s: float = param(
        60, "The time between two auctions, at least, s. No lease is shorter.", minimum=1, maximum=3600
    )
    payment: str = param(
        Payment.LEASE,
        "The means of payment: time of the winner's lease, or GPUs as in the paper.",
        enum=["lease", "gpus"],
    )
    t_id: str = param(
        "share", "T_id: on the share of the pool, or the paper's N times the time on it.", enum=["share", "paper"]
    )
    conserve: bool = param(False, "Give bidders the GPUs left over when these fit no other job.")

    preemptive: ClassVar[bool] = True

    needs: ClassVar[frozenset[Need]] = frozenset({Need.RATES, Need.REMAINING})

    def decide(self, cycle: Cycle) -> None:
        """Keep the accounts; hold an auction if it is time for one and there is something to offer."""
        memory = Memory.read(cycle.state)
        view = cycle.context.view
        for job in cycle.waiting() if any(not job.request.needs_gpus for job in view.waiting) else ():
            if not job.request.needs_gpus:
                cycle.place(job)
        present = live(cycle)
        memory.account(cycle.now, present, cycle.weights(), view.waiting_by_id.keys() | view.running_by_job.keys())
        if present and cycle.now >= memory.next_at - SOON_S:
            self._hold_auction(cycle, memory)
        cycle.remember(memory.to_state())
        if present:
            self._wake(cycle, memory)

    def _wake(self, cycle: Cycle, memory: Memory) -> None:
        """Decide again when the next lease ends or, where jobs wait, when the next auction is allowed."""
        ends = [self._lease_end(memory, run) for run in cycle.running() if run.job.preemptible]
        ends += [memory.lease_ends[job_id] for job_id in cycle.context.places if job_id in memory.lease_ends]
        moments = [max(end, memory.next_at, cycle.now + SOON_S) for end in ends]
        # A lease that has ended waits for the next auction, or for its job to begin.
        moments = [moment if moment > cycle.now + SOON_S else cycle.now + self.every_s for moment in moments]
        if memory.next_at > cycle.now + SOON_S and cycle.context.view.waiting_by_id:
            moments.append(memory.next_at)
        if moments:
            cycle.wake_at(min(moments))

    def _lease_end(self, memory: Memory, run: Running) -> float:
        """The end of the lease; a job that has none had its GPUs before the policy, and a full lease since then."""
        return memory.lease_ends.get(run.job.id, run.placed_at + self.lease_s)

    def _hold_auction(self, cycle: Cycle, memory: Memory) -> None:
        now = cycle.now

        def holds(run: Running) -> bool:
            begun = run.state is AttemptState.RUNNING
            return not (run.job.preemptible and begun and self._lease_end(memory, run) <= now + SOON_S)

        ended = [run for run in cycle.running() if not run.foreign and run.job.request.needs_gpus and not holds(run)]
        free = cycle.context.state.free
        offer = Counter({kind: free.gpus(kind) for kind in cycle.supply()})
        offer.update(_by_type(cycle, ended))
        offer = +offer
        if not offer:
            return
        with cycle.attempt():  # undone: what quotas and nodes would admit without those whose leases have ended
            for run in ended:
                cycle.context.release(run)
            present = applications(cycle, holds)
        candidates = ranked(
            [found for each in present.values() if (found := self._candidate(cycle, memory, each, offer))]
        )
        if not candidates or (not ended and self._is_vain(cycle, memory, offer, candidates)):
            return
        memory.auctions, memory.next_at = memory.auctions + 1, now + self.every_s
        weights = cycle.weights()
        held = Counter[int]()
        for each in present.values():
            held[each.tenant_id] += sum(each.held.values())
        bidders, outside = split(candidates, self.fairness, offer.total(), weights, held)
        holders = _holders(cycle, present.values())
        draw = Random(f"{cycle.seed}:{memory.auctions}:left-overs")  # noqa: S311 - the same in each replay
        this = _Round(offer, bidders, outside, drawn(outside, holders, draw))
        missed = self._carry_out(cycle, memory, this, ended, weights)
        self._lease(cycle, memory, this, missed)
        memory.vain = 0 if this.won or this.drew else _mark(cycle, offer, candidates)

    def _is_vain(self, cycle: Cycle, memory: Memory, offer: Mapping[str, int], candidates: Sequence[Candidate]) -> bool:
        """True if the last auction gave nothing out and nothing has changed since; after a lease it is tried again."""
        recent = cycle.now < memory.next_at + self.lease_s
        return recent and bool(memory.vain) and memory.vain == _mark(cycle, offer, candidates)

    def _candidate(
        self, cycle: Cycle, memory: Memory, application: Application, offer: Mapping[str, int]
    ) -> Candidate | None:
        """The application with its rho; None if it would not bid for what is offered."""
        sizes = [size for kind in application.types for size in application.sizes(kind, offer.get(kind, 0))]
        if not sizes:
            return None
        contention, demand = memory.mean_contention(application), memory.first_demand(application)
        isolated_s = application.isolated_s(cycle.supply(), contention, demand)
        if self.t_id == "paper":
            isolated_s = contention * application.work / min(demand, sum(cycle.supply().values()))
        if not math.isfinite(isolated_s):
            return None
        age_s = max(0.0, cycle.now - application.arrived_at)
        rest_s = application.isolated_s(cycle.supply(), contention, demand, rest=True)
        rho = application.shared_s(cycle.now, application.has) / isolated_s
        return Candidate(application, rho, (age_s + rest_s) / isolated_s, isolated_s, min(sizes), max(sizes))

    def _carry_out(
        self,
        cycle: Cycle,
        memory: Memory,
        this: _Round,
        ended: Sequence[Running],
        weights: Mapping[int, float],
    ) -> frozenset[int]:
        """Hold the auction, give out left-overs by lot, and assign; returns the jobs for which there was no room.

        Where the nodes have no room for a winner's row, the auction is held again without that row. The last time
        GPUs may be on more nodes than a row says.
        """
        for attempt_number in range(TRIES + 1):
            last = attempt_number == TRIES
            self._decide_round(cycle, memory, this, weights, Quotas(cycle, ended))
            chosen: dict[int, Config | None] = {run.job.id: None for run in ended if run.job.preemptible}
            chosen |= this.won | this.drew
            if last:
                chosen = {job_id: config and Config(config.gpu_type, config.gpus) for job_id, config in chosen.items()}
            with cycle.attempt() as attempt:
                missed = cycle.assign(chosen)
                without_room = missed & this.won.keys()
                if last or not without_room:
                    attempt.keep()
                    return missed
            for each in this.bidders:
                win = this.outcome.wins.get(each.application.key)
                if win is not None and win.row is not None:
                    served = each.application.served(win.row.gpu_type, win.row.gpus)
                    if without_room & {member.job_id for member in served}:
                        this.forbidden.add((each.application.key, win.row))
        raise PolicyError("an auction was not carried out")

    def _decide_round(
        self, cycle: Cycle, memory: Memory, this: _Round, weights: Mapping[int, float], quotas: Quotas
    ) -> None:
        bids = []
        for each, weight in zip(this.bidders, shares(this.bidders, weights), strict=True):
            bid = each.application.bid(
                memory.auctions, this.offer, now=cycle.now, isolated_s=each.isolated_s, weight=weight
            )
            bids.append(bid.without({row for key, row in this.forbidden if key == bid.bidder}))
        this.outcome = hold(bids, this.offer, auction=memory.auctions, payment=Payment(self.payment), seed=cycle.seed)
        this.won, this.drew, left = {}, {}, Counter(this.offer)
        for each in this.bidders:
            win = this.outcome.wins.get(each.application.key)
            if win is not None and win.row is not None:
                for member in each.application.served(win.row.gpu_type, win.row.gpus):
                    config = self._config(cycle, member, win.row.gpu_type, packed=win.row.packed)
                    if quotas.charge(member.job_id, config):
                        this.won[member.job_id] = config
                        left[win.row.gpu_type] -= config.gpus
        waiting = {each.application.key: list(each.application.bidding) for each in this.draws}
        found = True
        while found:
            found = False
            for each in this.draws:
                fitting = _first_that_fits(waiting[each.application.key], left)
                if fitting is not None:
                    member, kind = fitting
                    waiting[each.application.key].remove(member)
                    config = self._config(cycle, member, kind)
                    found = True
                    if quotas.charge(member.job_id, config):
                        this.drew[member.job_id] = config
                        left[kind] -= config.gpus

    def _config(self, cycle: Cycle, member: Member, gpu_type: str, *, packed: bool = True) -> Config:
        """The member's configuration on the type: on the fewest nodes if `packed`, where that makes it faster."""
        config = Config(gpu_type, member.gangs[gpu_type])
        if not packed or member.slowdowns.get(gpu_type, 1.0) <= 1:
            return config
        return cycle.closest(job_of(cycle, member.job_id), config)

    def _lease(self, cycle: Cycle, memory: Memory, this: _Round, missed: frozenset[int]) -> None:
        """Write the leases down, give waiting jobs what nothing claimed, and log the auction."""
        wins = []
        for each in this.bidders:
            win = this.outcome.wins.get(each.application.key)
            if win is None or win.row is None:
                continue
            members = each.application.served(win.row.gpu_type, win.row.gpus)
            served = [member.job_id for member in members if member.job_id in this.won]
            lease_s = max(self.every_s, win.part * self.lease_s)
            for job_id in served:
                memory.lease_ends[job_id] = cycle.now + lease_s
            wins.append(
                {
                    "application": each.application.key,
                    "gpu_type": win.row.gpu_type,
                    "gpus": win.row.gpus,
                    "packed": win.row.packed,
                    "part": round(win.part, 6),
                    "lease_s": round(lease_s, 3),
                    "jobs": [job_id for job_id in served if job_id not in missed],
                }
            )
        for each in [*this.draws, *(this.bidders if self.conserve else ())]:
            for member in each.application.bidding:
                job = cycle.context.view.waiting_by_id.get(member.job_id)
                if job is None or member.job_id in cycle.context.places or not cycle.context.state.free.gpus(None):
                    continue
                configs = [self._config(cycle, member, kind) for kind in member.gangs]
                if cycle.place(job, configs):
                    this.drew[member.job_id] = configs[0]
        for job_id in this.drew:
            memory.lease_ends[job_id] = cycle.now + self.lease_s
        memory.log(_entry(cycle, memory, this, wins, missed))


def _mark(cycle: Cycle, offer: Mapping[str, int], candidates: Sequence[Candidate]) -> int:
    """A checksum of what an auction is about: what is offered, who wants it, and the CPUs and memory in use."""
    keys = sorted(each.application.key for each in candidates)
    used = sorted(cycle.context.view.used_by_node.items())
    return crc32(repr((sorted(offer.items()), keys, used)).encode())


def _entry(
    cycle: Cycle, memory: Memory, this: _Round, wins: Sequence[Mapping[str, Any]], missed: Iterable[int]
) -> dict[str, Any]:
    """The auction as the pages show it."""
    bids = {}
    for each in this.bidders:
        bid = each.application.bid(memory.auctions, this.offer, now=cycle.now, isolated_s=each.isolated_s, weight=1.0)
        rows = [[row.gpu_type, row.gpus, row.packed, round(row.value, 6)] for row in bid.rows[:_LOGGED_ROWS]]
        rho = round(each.rho, 6) if math.isfinite(each.rho) else None
        bids[each.application.key] = {"tenant": each.application.tenant_id, "rho": rho, "rows": rows}
    used = Counter[str]()
    for job_id, config in (this.won | this.drew).items():
        used[config.gpu_type or ""] += 0 if job_id in missed else config.gpus
    return {
        "auction": memory.auctions,
        "at": cycle.now,
        "offer": dict(sorted(this.offer.items())),
        "bids": bids,
        "outside": len(this.outside),
        "wins": list(wins),
        "drawn": sorted(this.drew.keys() - set(missed)),
        "left": dict(sorted((+(Counter(this.offer) - used)).items())),
        "refused": dict(this.outcome.refused),
        "without_room": sorted(missed),
    }


def _by_type(cycle: Cycle, runs: Iterable[Running]) -> Counter[str]:
    found = Counter[str]()
    for run in runs:
        found[cycle.held(run).gpu_type or ""] += run.gpus
    return found


def _holders(cycle: Cycle, present: Iterable[Application]) -> frozenset[str]:
    """The applications that hold GPUs on a node that has free ones."""
    view, free = cycle.context.view, cycle.context.state.free
    nodes: dict[int, set[int]] = {}
    for run in view.running:
        nodes[run.job.id] = {share.node_id for share in run.allocations}
    open_nodes = {node.id for node in view.nodes if (here := free.node(node.id)) is not None and here.count(None)}
    return frozenset(
        each.key
        for each in present
        if any(not open_nodes.isdisjoint(nodes.get(member.job_id, ())) for member in each.members if member.held)
    )


def _first_that_fits(members: Iterable[Member], left: Mapping[str, int]) -> tuple[Member, str] | None:
    """The first member for which enough GPUs are left, and their type: where it runs already, else its fastest."""
    for member in members:
        fit = [kind for kind, gpus in member.gangs.items() if gpus <= left.get(kind, 0)]
        if fit:
            speeds = member.speeds
            return member, min(fit, key=lambda kind: (kind != member.on, -speeds.get(kind, 0.0), kind))
    return None
