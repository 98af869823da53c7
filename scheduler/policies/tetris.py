"""Prefers jobs that fit the free resources well and end soon (Tetris)."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.authoring import BasePolicy, Job, Key, Need, param
from scheduler.policies.shared import DominantShares, requested, weights_of_vcs
from scheduler.workshop import UNSCHEDULABLE, AllocationView, CycleContext, Demand, FreeNode, QueueWalk


@dataclass(frozen=True, slots=True)
class Tetris(BasePolicy):
    """Starts the job with the highest score: alignment with the free resources minus remaining work.

    Source: Grandl et al., Multi-resource Packing for Cluster Schedulers (SIGCOMM 2014), §3.
    """

    m: float = param(1, "The weight of little remaining work against alignment. 0: only alignment counts.", minimum=0)
    fairness: float = param(
        0.25,
        "The part of the virtual clusters that waits, those furthest ahead of their share first.",
        minimum=0,
        maximum=1,
    )
    remote_penalty: float = param(0.1, "The part of its alignment that a scattered job loses.", minimum=0, maximum=1)
    aligned_nodes: bool = param(
        True, "Put a job of one node on its best aligned node, instead of the placement's choice."
    )

    needs: ClassVar[frozenset[Need]] = frozenset({Need.REMAINING})

    def waiting_key(self, job: Job) -> Key:
        """By priority and remaining time; the score itself depends on what is free when a job is served.

        Of jobs with equal demands the shortest always scores best, so only the first of each class is scored.
        """
        left_s = math.inf if job.remaining_s is None else job.remaining_s
        return (-job.priority, left_s, job.submitted_at)

    def serve(self, context: CycleContext) -> None:
        for job_class in context.service_classes():
            _Packing(self, context).serve([*context.state.queue(self).walks(job_class)])


@dataclass(slots=True)
class _ClassHead:
    """Jobs with equal demands, and the place for the first of them."""

    walk: QueueWalk
    job: Job
    demand: Demand
    allocations: tuple[AllocationView, ...] = ()
    alignment: float = 0.0
    seen: int = 0  # the number of placed jobs when this was found


class _Packing:
    """One decision.

    1. For the first job of each class of equal demands, find the place that aligns best with the free resources.
    2. ε = m · mean(alignment) / mean(remaining work), which balances the two.
    3. Place the job with the highest score among the virtual clusters furthest behind; then score its class again, and
       other classes only if their chosen nodes have changed: free resources only shrink, so an unchanged best place
       stays best.
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
        """Place jobs that fit; the others may reclaim resources on loan."""
        left: list[Job] = []
        heads = [first for walk in walks if (first := self._advance(walk, left)) is not None]
        known = [head.job.remaining_s for head in heads if head.job.remaining_s is not None]
        self._usual_s = sum(known) / len(known) if known else 0.0
        work = sum(self._work(head) for head in heads)
        self._epsilon = self._policy.m * sum(head.alignment for head in heads) / work if work > 0 else 0.0
        heap = [(*self._key(head), head.job.id, head) for head in heads]
        heapq.heapify(heap)
        deferred: list[tuple[Any, ...]] = []
        behind = self._furthest_behind(heads)
        while heap or deferred:
            if not heap:  # none of them found room, so all others may be tried
                heap, deferred, behind = deferred, [], None
                heapq.heapify(heap)
            entry = heapq.heappop(heap)
            head: _ClassHead = entry[-1]
            if self._context.limit_reached:
                self._defer(head)
                continue
            if behind is not None and head.job.vc_id not in behind:
                deferred.append(entry)
                continue
            if self._stale(head):
                if self._fit(head):
                    heapq.heappush(heap, (*self._key(head), head.job.id, head))
                else:
                    left.append(head.job)
                continue
            self._take(head)
            following = self._advance(head.walk, left)
            if following is not None:
                deferred.append((*self._key(following), following.job.id, following))
            for again in deferred:
                heapq.heappush(heap, again)
            deferred = []
            behind = self._furthest_behind(entry[-1] for entry in heap)
        for job in left:
            lent = self._context.reclaimable(job)
            if lent:
                self._context.place_instead(job, lent, "its GPUs were on loan from the job that starts")
                self._context.bind_deferred_lots()

    def _advance(self, walk: QueueWalk, left: list[Job]) -> _ClassHead | None:
        """The next job of a class that may start and finds room, if any."""
        context = self._context
        while (turn := walk.next()) is not None:
            job = turn[0]
            if job.id in context.places or job.id in context.reserved:
                continue
            admitted, denial = context.admissible(job)
            if denial is not None and denial.reason in UNSCHEDULABLE:
                return None
            if admitted:
                head = _ClassHead(walk, job, admitted[0])
                if self._fit(head):
                    return head
            if admitted or context.admission.reclaims:
                left.append(job)
            if not context.placement.relaxes:
                return None
        return None

    def _defer(self, head: _ClassHead) -> None:
        """Defer the job and those behind it."""
        self._context.deferred.add(head.job.id)
        while self._context.explain and (turn := head.walk.next()) is not None:
            self._context.deferred.add(turn[0].id)

    def _stale(self, head: _ClassHead) -> bool:
        """True if the place found may be gone, or no longer the best."""
        if self._context.quota_denial(head.job, head.demand) is not None:
            return True
        return any(self._touched.get(share.node_id, -1) >= head.seen for share in head.allocations)

    def _fit(self, head: _ClassHead) -> bool:
        """Find the best aligned place for the first of the class; True if there is one."""
        best: tuple[float, Demand, tuple[AllocationView, ...]] | None = None
        for demand in self._context.admissible(head.job)[0]:
            head.demand = demand
            if self._find(head) and (best is None or head.alignment > best[0]):
                best = (head.alignment, demand, head.allocations)
        if best is not None:
            head.alignment, head.demand, head.allocations = best
        return best is not None

    def _find(self, head: _ClassHead) -> bool:
        """The same for GPUs of one type."""
        context, demand, job = self._context, head.demand, head.job
        head.seen = self._placed
        free = context.state.free
        found = context.find(job, demand)
        if found is None:
            return False
        head.allocations = found
        parts = [self._aligned(free.node(share.node_id), demand, len(share.gpu_ids)) for share in found]
        head.alignment = sum(parts) / len(parts)
        if self._apart(demand, found):
            head.alignment *= 1.0 - self._policy.remote_penalty
        if self._policy.aligned_nodes and demand.nodes == 1 and not demand.divisible:
            self._choose_node(head)
        return True

    def _choose_node(self, head: _ClassHead) -> None:
        """Choose the best aligned node for a job on one node; the placement breaks ties."""
        demand, avoid = head.demand, head.job.avoid_nodes
        for node in self._context.state.free.candidates(demand):
            if node.id in avoid:
                continue
            alignment = self._aligned(node, demand, demand.gpus)
            if alignment > head.alignment:
                gpu_ids = tuple(node.gpus[demand.gpu_type][: demand.gpus]) if demand.gpu_type else ()
                head.allocations = (AllocationView(node.id, 0, gpu_ids, demand.cpus, demand.memory_mib),)
                head.alignment = alignment

    def _aligned(self, node: FreeNode | None, demand: Demand, gpus: int) -> float:
        """The product of what one rank takes and what is free, both as shares of the node."""
        if node is None:
            return 0.0
        whole_gpus, cpus, memory_mib = self._whole[node.id]
        lots = gpus if demand.divisible else 1
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
        """True if the job would use several racks, or more nodes than necessary."""
        nodes = self._context.view.node_by_id
        if len({nodes[share.node_id].rack for share in found}) > 1:
            return True
        most = self._largest.get(demand.gpu_type or "", 1) or 1
        return demand.divisible and len(found) > -(-demand.gpus // most)

    def _work(self, head: _ClassHead) -> float:
        """The remaining time, or the mean time if unknown, times the job's share of all resources of the pool."""
        left_s = self._usual_s if head.job.remaining_s is None else head.job.remaining_s
        total = self._ledger.total
        parts = (amount / total[kind] for kind, amount in requested(head.demand).items() if total.get(kind))
        return left_s * sum(parts)

    def _key(self, head: _ClassHead) -> Key:
        score = head.alignment - self._epsilon * self._work(head)
        return (-head.job.priority, -score, head.job.submitted_at)

    def _take(self, head: _ClassHead) -> None:
        self._context.take(head.job, head.allocations)
        self._ledger.charge(head.job, requested(head.demand), 1)
        for share in head.allocations:
            self._touched[share.node_id] = self._placed
        self._placed += 1

    def _furthest_behind(self, heads: Iterable[_ClassHead]) -> frozenset[int] | None:
        """The virtual clusters with the smallest dominant shares, among those with jobs; None for all."""
        if not self._policy.fairness:
            return None
        groups = sorted({head.job.vc_id for head in heads}, key=lambda group: (self._ledger.key(group), group))
        return frozenset(groups[: max(1, math.ceil((1.0 - self._policy.fairness) * len(groups)))])


PLUGIN = Tetris
