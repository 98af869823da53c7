"""What a pool will have free at each later moment, if all that run end when they must, and promises are kept.

Promises are counted by node and GPU type: on one node, GPUs of a type are worth the same. An end may be infinite; what
is promised for then is what comes free once those have ended of whom nobody knows when they will.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.guard import Usage
from scheduler.model import AllocationView, Job
from scheduler.placement.free import Demand
from scheduler.scratch import Scratch

# GPUs of a type, CPUs or memory of a node, or GPUs of a type of a virtual cluster: what it is, whose, and the type.
_Key = tuple[str, int, str | None]


@dataclass(frozen=True, slots=True)
class Promise:
    """GPUs for a waiting job, from `start` on, for as long as it may run; without shares, only its quota."""

    job: Job
    start: float
    end: float
    gpu_type: str | None
    shares: tuple[AllocationView, ...]
    waits_for: int | None  # the job whose end makes room, if it is known


@dataclass(frozen=True, slots=True)
class _Holding:
    end: float
    job_id: int
    shares: tuple[AllocationView, ...]
    vc_id: int
    gpu_type: str | None


class Horizon:
    """The future of a scratch, as far as ends are known and GPUs are promised."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.promises: dict[int, Promise] = {}
        self._holdings: list[_Holding] = []
        # What is held or promised of something: (until, how much), and (from, until, how much).
        self._held: dict[_Key, list[tuple[float, int]]] = {}
        self._booked: dict[_Key, dict[int, tuple[float, float, int]]] = {}

    def holds(self, job: Job, allocations: Iterable[AllocationView], end: float) -> None:
        """Somebody holds these until then, or has been given them now."""
        view = self._scratch.view
        gpu_type, shares = None, []
        for share in allocations:
            if self._scratch.board.free.node(share.node_id) is None:
                continue  # out of service: nothing comes back
            # What is kept for somebody already, as GPUs of a job that stops may be, comes back to nobody else.
            gpu_ids = tuple(
                gpu_id
                for gpu_id in share.gpu_ids
                if gpu_id in view.gpu_by_id and view.gpu_by_id[gpu_id].healthy and gpu_id not in view.reserved_gpus
            )
            if gpu_ids:
                gpu_type = view.gpu_by_id[gpu_ids[0]].type
            shares.append(AllocationView(share.node_id, share.rank, gpu_ids, share.cpus, share.memory_mib))
        holding = _Holding(max(end, self._scratch.now), job.id, tuple(shares), job.vc_id, gpu_type)
        self._holdings.append(holding)
        for key, amount in _amounts(holding.shares, gpu_type, job.vc_id):
            self._held.setdefault(key, []).append((holding.end, amount))

    def promise(self, promise: Promise) -> None:
        """Keep it in mind from now on."""
        self.promises[promise.job.id] = promise
        for key, amount in _wants(promise):
            self._booked.setdefault(key, {})[promise.job.id] = (promise.start, promise.end, amount)

    def forget(self, job_id: int) -> None:
        """Promise this job nothing any more; one that was promised nothing is no error."""
        promise = self.promises.pop(job_id, None)
        if promise is not None:
            for key, _ in _wants(promise):
                del self._booked[key][job_id]

    def possible(self, promise: Promise) -> bool:
        """Whether this can be promised beside all that is promised already."""
        for key, amount in _wants(promise):
            if key[0] == "quota":
                continue
            came = sum(held for end, held in self._held.get(key, ()) if end <= promise.start)
            if self._free(key) + came < self._peak(key, promise.start, promise.end) + amount:
                return False
        ended = [holding for holding in self._holdings if holding.end <= promise.start]
        for holding in ended:
            self._give(holding)
        admitted = self._admits(promise.job, promise.gpu_type, promise.start, promise.end)
        for holding in reversed(ended):
            self._take(holding)
        return admitted

    def place_now(self, job: Job, demands: Iterable[Demand], end: float) -> tuple[AllocationView, ...] | None:
        """Where the job can start now and stay until then without touching what is promised, or None."""
        found = self._place(job, demands, self._scratch.now, end)
        return None if found is None else found[1]

    def earliest(self, job: Job, demands: Sequence[Demand], length_s: float, *, quota_only: bool) -> Promise | None:
        """The soonest that the job could be promised: its GPUs, or only that its quota has room; None if never."""
        moments = {promise.end for promise in self.promises.values()} | {self._scratch.now}
        ending = sorted(self._holdings, key=lambda holding: (holding.end, holding.job_id))
        moments |= {holding.end for holding in ending}
        given: list[_Holding] = []
        try:
            for moment in sorted(moments):
                while len(given) < len(ending) and ending[len(given)].end <= moment:
                    self._give(ending[len(given)])
                    given.append(ending[len(given)])
                end = moment + length_s
                waits_for = given[-1].job_id if given and given[-1].end == moment else None
                if quota_only:
                    for demand in demands:
                        if self._admits(job, demand.gpu_type, moment, end):
                            return Promise(job, moment, end, demand.gpu_type, (), waits_for)
                    continue
                found = self._place(job, demands, moment, end)
                if found is not None:
                    return Promise(job, moment, end, *found, waits_for)
        finally:
            for holding in reversed(given):
                self._take(holding)
        return None

    def _place(
        self, job: Job, demands: Iterable[Demand], start: float, end: float
    ) -> tuple[str | None, tuple[AllocationView, ...]] | None:
        """Places for the job in what is free now and not promised between the two moments."""
        free, placement = self._scratch.board.free, self._scratch.placement
        for demand in demands:
            if free.gpus(demand.gpu_type) < demand.gpus * demand.nodes:
                continue
            if not self._admits(job, demand.gpu_type, start, end):
                continue
            allocations = placement.place(free, demand, job.avoid_nodes)
            if allocations is None:
                continue  # nor beside what is promised, which takes longer to find out
            lent = self._lend(start, end)
            if lent:
                allocations = placement.place(free, demand, job.avoid_nodes)
            for shares in reversed(lent):
                free.give(shares)
            if allocations is not None:
                return demand.gpu_type, allocations
        return None

    def _admits(self, job: Job, gpu_type: str | None, start: float, end: float) -> bool:
        """Whether the guard lets the job in, with what its virtual cluster is promised in the meantime."""
        board, key = self._scratch.board, (job.vc_id, str(gpu_type))
        peak = self._peak(("quota", *key), start, end)
        usage = board.usage
        if peak:
            usage = Usage(usage)
            usage[key] += peak
        return self._scratch.guard.admit(board.view, usage, job, gpu_type, job.gpus_total) is None

    def _lend(self, start: float, end: float) -> list[tuple[AllocationView, ...]]:
        """Take from what is free what is promised to others between the two moments, and say what that was."""
        free = self._scratch.board.free
        lent: list[tuple[AllocationView, ...]] = []
        for node_id in sorted({share.node_id for one in self.promises.values() for share in one.shares}):
            node = free.node(node_id)
            if node is None:
                continue
            gpu_ids: list[int] = []
            for gpu_type in sorted(node.gpus):
                gpu_ids += node.gpus[gpu_type][: self._peak(("gpus", node_id, gpu_type), start, end)]
            cpus = min(node.cpus, self._peak(("cpus", node_id, None), start, end))
            memory_mib = min(node.memory_mib, self._peak(("memory", node_id, None), start, end))
            if gpu_ids or cpus or memory_mib:
                lent.append((AllocationView(node_id, 0, tuple(gpu_ids), cpus, memory_mib),))
        for shares in lent:
            free.take(shares)
        return lent

    def _peak(self, key: _Key, start: float, end: float) -> int:
        """The most that is promised at any moment in between, beyond what comes free after the start; at least 0."""
        booked = self._booked.get(key)
        if not booked:
            return 0
        changes: list[tuple[float, int]] = []
        for since, until, amount in booked.values():
            if (since < end or math.isinf(end)) and (until > start or math.isinf(until)):
                changes.append((max(since, start), amount))
                if until < end:
                    changes.append((until, -amount))
        if not changes:
            return 0
        changes += [(at, -amount) for at, amount in self._held.get(key, ()) if start < at <= end]
        level = peak = 0
        for _, change in sorted(changes):  # at one moment, what ends comes before what starts
            level += change
            peak = max(peak, level)
        return peak

    def _free(self, key: _Key) -> int:
        """How much of it is free now."""
        kind, node_id, gpu_type = key
        node = self._scratch.board.free.node(node_id)
        if node is None:
            return 0
        if kind == "gpus":
            return node.count(gpu_type)
        return node.cpus if kind == "cpus" else node.memory_mib

    def _give(self, holding: _Holding) -> None:
        self._scratch.board.free.give(holding.shares)
        self._scratch.board.usage[holding.vc_id, str(holding.gpu_type)] -= _gpus(holding.shares)

    def _take(self, holding: _Holding) -> None:
        self._scratch.board.free.take(holding.shares)
        self._scratch.board.usage[holding.vc_id, str(holding.gpu_type)] += _gpus(holding.shares)


def _wants(promise: Promise) -> list[tuple[_Key, int]]:
    wanted = _amounts(promise.shares, promise.gpu_type, promise.job.vc_id)
    if not promise.shares:
        wanted.append((("quota", promise.job.vc_id, str(promise.gpu_type)), promise.job.gpus_total))
    return wanted


def _amounts(shares: Iterable[AllocationView], gpu_type: str | None, vc_id: int) -> list[tuple[_Key, int]]:
    """How much the shares take of what."""
    found: list[tuple[_Key, int]] = []
    total = 0
    for share in shares:
        if share.gpu_ids:
            found.append((("gpus", share.node_id, str(gpu_type)), len(share.gpu_ids)))
            total += len(share.gpu_ids)
        found += [(("cpus", share.node_id, None), share.cpus), (("memory", share.node_id, None), share.memory_mib)]
    if total:
        found.append((("quota", vc_id, str(gpu_type)), total))
    return found


def _gpus(shares: Iterable[AllocationView]) -> int:
    return sum(len(share.gpu_ids) for share in shares)
