"""Multi-resource packing; docs/policies/tetris.md says what it optimises and what its parameters cost."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.engine.context import CycleContext
from scheduler.engine.queue import Key, QueueWalk
from scheduler.model import AllocationView, Job, Running, View
from scheduler.model.plan import UNSCHEDULABLE
from scheduler.placement.free import Demand, FreeNode
from scheduler.policies.shared import DominantShares, wanted, weights_of_vcs


@dataclass(frozen=True, slots=True)
class Tetris:
    """Starts the job with the highest score: alignment to what is free less remaining work.

    Source: Grandl et al., Multi-resource Packing for Cluster Schedulers (SIGCOMM 2014), §3.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "m": {
                "type": "number",
                "minimum": 0,
                "default": 1,
                "description": "How much little remaining work counts beside alignment. 0: only alignment counts.",
            },
            "fairness": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0.25,
                "description": "Only the virtual clusters furthest behind are looked at: 1 less this part of them.",
            },
            "remote_penalty": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0.1,
                "description": "Which part of its alignment a job loses that would lie apart.",
            },
            "aligned_nodes": {
                "type": "boolean",
                "default": True,
                "description": "Whether a job on one node goes to the best aligned one, or where the placement says.",
            },
        },
        "additionalProperties": False,
    }

    m: float = 1
    fairness: float = 0.25
    remote_penalty: float = 0.1
    aligned_nodes: bool = True

    def waiting_key(self, job: Job) -> Key:
        """Of jobs with equal demands the shortest is always best, so that only the first of each class is scored."""
        left_s = math.inf if job.remaining_s is None else job.remaining_s
        return (-job.priority, left_s, job.submitted_at)

    def order(self, view: View) -> Iterable[Job]:
        """By priority and remaining time; the score depends on what is free when a job has its turn."""
        return sorted(view.waiting, key=lambda job: (self.waiting_key(job), job.id))

    def next_change(self, job: Job, run: Running | None, now: float) -> float | None:
        """See `Policy`."""
        return None

    def serve(self, context: CycleContext) -> None:
        """See `Policy`."""
        for klass in context.service_classes():
            _Packing(self, context).serve([*context.state.queue(self).walks(klass)])


@dataclass(slots=True)
class _Line:
    """Jobs that ask for the same, and how the first of them would be placed."""

    walk: QueueWalk
    job: Job
    demand: Demand
    allocations: tuple[AllocationView, ...] = ()
    alignment: float = 0.0
    seen: int = 0  # how many had been placed when this was found


class _Packing:
    """One decision.

    1. For the first of each class of equal demands: the place where it aligns best with what is free.
    2. ε = m · mean(alignment) / mean(remaining work), so that both count alike.
    3. The one with the highest score of those whose virtual clusters are furthest behind is placed; then its class is
       scored anew, and others when their turn comes, if nodes that they were to use are touched since: what is free
       only shrinks, so what was best remains so where nothing was touched.
    """

    def __init__(self, policy: Tetris, context: CycleContext) -> None:
        self._policy, self._context = policy, context
        self._ledger = DominantShares(
            context.view,
            context.state.capacity,
            context.state.resource_usage,
            lambda job: job.vc_id,
            weights_of_vcs(context.view),
        )
        self._whole = {
            node.id: (Counter(gpu.type for gpu in node.gpus), node.cpus, node.memory_mib) for node in context.view.nodes
        }
        self._largest = {
            kind: max((whole[0][kind] for whole in self._whole.values()), default=1)
            for kind in context.state.capacity.types
        }
        self._touched: dict[int, int] = {}
        self._placed = 0
        self._epsilon = self._usual_s = 0.0

    def serve(self, walks: Sequence[QueueWalk]) -> None:
        """Place what fits; what does not may take back what was lent."""
        left: list[Job] = []
        lines = [first for walk in walks if (first := self._advance(walk, left)) is not None]
        known = [line.job.remaining_s for line in lines if line.job.remaining_s is not None]
        self._usual_s = sum(known) / len(known) if known else 0.0
        work = sum(self._work(line) for line in lines)
        self._epsilon = self._policy.m * sum(line.alignment for line in lines) / work if work > 0 else 0.0
        heap = [(*self._key(line), line.job.id, line) for line in lines]
        heapq.heapify(heap)
        deferred: list[tuple[Any, ...]] = []
        behind = self._furthest_behind(lines)
        while heap or deferred:
            if not heap:  # none of them found room, so that all others may be looked at
                heap, deferred, behind = deferred, [], None
                heapq.heapify(heap)
            entry = heapq.heappop(heap)
            line: _Line = entry[-1]
            if self._context.limit_reached:
                self._too_late(line)
                continue
            if behind is not None and line.job.vc_id not in behind:
                deferred.append(entry)
                continue
            if self._stale(line):
                if self._fit(line):
                    heapq.heappush(heap, (*self._key(line), line.job.id, line))
                else:
                    left.append(line.job)
                continue
            self._take(line)
            following = self._advance(line.walk, left)
            if following is not None:
                deferred.append((*self._key(following), following.job.id, following))
            for again in deferred:
                heapq.heappush(heap, again)
            deferred = []
            behind = self._furthest_behind(entry[-1] for entry in heap)
        for job in left:
            lent = self._context.reclaimable(job)
            if lent:
                self._context.place_instead(job, lent, "its GPUs go to a job that has a right to them")

    def _advance(self, walk: QueueWalk, left: list[Job]) -> _Line | None:
        """The next job of a class that may start and finds room, if there is one."""
        context = self._context
        while (turn := walk.next()) is not None:
            job = turn[0]
            if job.id in context.places or job.id in context.reserved:
                continue
            admitted, denial = context.admissible(job)
            if denial is not None and denial.reason in UNSCHEDULABLE:
                return None
            if admitted:
                line = _Line(walk, job, admitted[0])
                if self._fit(line):
                    return line
                left.append(job)
            if not context.placement.relaxes:
                return None
        return None

    def _too_late(self, line: _Line) -> None:
        """Say so to the job, and to those behind it."""
        self._context.deferred.add(line.job.id)
        while self._context.explain and (turn := line.walk.next()) is not None:
            self._context.deferred.add(turn[0].id)

    def _stale(self, line: _Line) -> bool:
        """Whether the place that was found may not be there, or not be the best, any more."""
        if self._context.quota_denial(line.job, line.demand) is not None:
            return True
        return any(self._touched.get(share.node_id, -1) >= line.seen for share in line.allocations)

    def _fit(self, line: _Line) -> bool:
        """Whether there is a place for the first of the class; if so it is the one of the best alignment."""
        best: tuple[float, Demand, tuple[AllocationView, ...]] | None = None
        for demand in self._context.admissible(line.job)[0]:
            line.demand = demand
            if self._find(line) and (best is None or line.alignment > best[0]):
                best = (line.alignment, demand, line.allocations)
        if best is not None:
            line.alignment, line.demand, line.allocations = best
        return best is not None

    def _find(self, line: _Line) -> bool:
        """The same for GPUs of one type."""
        context, demand, job = self._context, line.demand, line.job
        line.seen = self._placed
        free = context.state.free
        found = context.placement.place(free, demand, job.avoid_nodes)
        if found is None:
            return False
        line.allocations = found
        parts = [self._aligned(free.node(share.node_id), demand, len(share.gpu_ids)) for share in found]
        line.alignment = sum(parts) / len(parts)
        if self._apart(demand, found):
            line.alignment *= 1.0 - self._policy.remote_penalty
        if self._policy.aligned_nodes and demand.nodes == 1 and not demand.split:
            self._choose_node(line)
        return True

    def _choose_node(self, line: _Line) -> None:
        """A job on one node goes to the one with which it aligns best, of equals to the one of the placement."""
        demand, avoid = line.demand, line.job.avoid_nodes
        for node in self._context.state.free.candidates(demand):
            if node.id in avoid:
                continue
            alignment = self._aligned(node, demand, demand.gpus)
            if alignment > line.alignment:
                gpu_ids = tuple(node.gpus[demand.gpu_type][: demand.gpus]) if demand.gpu_type else ()
                line.allocations = (AllocationView(node.id, 0, gpu_ids, demand.cpus, demand.memory_mib),)
                line.alignment = alignment

    def _aligned(self, node: FreeNode | None, demand: Demand, gpus: int) -> float:
        """The product of what one rank takes and what is free, both as parts of what the node has."""
        if node is None:
            return 0.0
        whole_gpus, cpus, memory_mib = self._whole[node.id]
        lots = gpus if demand.split else 1
        kind = demand.gpu_type
        aligned = 0.0
        if kind is not None and whole_gpus[kind]:
            aligned += gpus * node.count(kind) / whole_gpus[kind] ** 2
        if cpus:
            aligned += demand.cpus * lots * node.cpus / cpus**2
        if memory_mib:
            aligned += demand.memory_mib * lots * node.memory_mib / memory_mib**2
        return aligned

    def _apart(self, demand: Demand, found: Sequence[AllocationView]) -> bool:
        """Whether the job would lie on several racks, or on more nodes than it must."""
        nodes = self._context.view.node_by_id
        if len({nodes[share.node_id].rack for share in found}) > 1:
            return True
        most = self._largest.get(demand.gpu_type or "", 1) or 1
        return demand.split and len(found) > -(-demand.gpus // most)

    def _work(self, line: _Line) -> float:
        """The time that is left, or the usual time, times all that the job takes as parts of the pool."""
        left_s = self._usual_s if line.job.remaining_s is None else line.job.remaining_s
        total = self._ledger.total
        parts = (amount / total[kind] for kind, amount in wanted(line.demand).items() if total.get(kind))
        return left_s * sum(parts)

    def _key(self, line: _Line) -> Key:
        score = line.alignment - self._epsilon * self._work(line)
        return (-line.job.priority, -score, line.job.submitted_at)

    def _take(self, line: _Line) -> None:
        self._context.take(line.job, line.allocations)
        self._ledger.charge(line.job, wanted(line.demand), 1)
        for share in line.allocations:
            self._touched[share.node_id] = self._placed
        self._placed += 1

    def _furthest_behind(self, lines: Iterable[_Line]) -> frozenset[int] | None:
        """The virtual clusters with the smallest dominant shares, of those that have jobs; None for all."""
        if not self._policy.fairness:
            return None
        groups = sorted({line.job.vc_id for line in lines}, key=lambda group: (self._ledger.key(group), group))
        return frozenset(groups[: max(1, math.ceil((1.0 - self._policy.fairness) * len(groups)))])
