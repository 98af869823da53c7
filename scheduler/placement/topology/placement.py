"""Topology; docs/policies/topology.md describes its goals and limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import ClassVar

from scheduler.model import AllocationView
from scheduler.placement.base import FixedLocality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.inner import Delegating
from scheduler.placement.topology.subsets import best_subset

# The number of equally tight nodes to compare; each costs about 100 µs the first time.
_MAX_COMPARED = 16


@dataclass(frozen=True, slots=True)
class Topology(FixedLocality, Delegating):
    """Gives each rank the best-linked free GPUs of its node, which the placement `inside` chooses.

    1. Maximise the worst link between two GPUs of the rank, then the sum of their links.
    2. Maximise the links among the GPUs that stay free.
    3. Prefer smaller indexes.

    A job on one node goes to the node with the best links among nodes with equally many free GPUs.
    """

    fills: ClassVar[bool] = True

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        inside = self.inner
        exclusion = inside.exclusion(free, avoid)
        shares = inside.choose(free, demand, exclusion)
        if shares is None or demand.gpu_type is None or not free.linked:
            return shares
        if len(shares) == 1:
            (share,) = shares
            nodes = _as_tight(free, demand, share.node_id, exclusion.last_resort)
            found = [(_linked(free, node, demand.gpu_type, len(share.gpu_ids)), node) for node in nodes]
            (_, gpu_ids), best = max(found, key=lambda one: one[0][0])  # the first of equals
            return (replace(share, node_id=best.id, gpu_ids=gpu_ids),)
        return tuple(_relinked(free, share, demand.gpu_type) for share in shares)


def _as_tight(free: Free, demand: Demand, node_id: int, last_resort: frozenset[int]) -> Iterator[FreeNode]:
    """The chosen node, then other nodes that differ from it only in their links."""
    chosen = free.node(node_id)
    if chosen is None:
        return
    yield chosen
    count = chosen.count(demand.gpu_type)
    equals = takewhile(lambda node: node.count(demand.gpu_type) == count, free.by_fit(demand.gpu_type, count))
    lots = demand.gpus if demand.divisible else 1
    same = (
        node
        for node in equals
        if node is not chosen
        and node.strikes == chosen.strikes
        and (node.id in last_resort) == (node_id in last_resort)
        and node.id not in demand.closed
        and node.cpus >= demand.cpus * lots
        and node.memory_mib >= demand.memory_mib * lots
    )
    yield from islice(same, _MAX_COMPARED)


def _relinked(free: Free, share: AllocationView, gpu_type: str) -> AllocationView:
    node = free.node(share.node_id)
    return share if node is None else replace(share, gpu_ids=_linked(free, node, gpu_type, len(share.gpu_ids))[1])


def _linked(free: Free, node: FreeNode, gpu_type: str, gpus: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The best score of `gpus` free GPUs of the node, and these GPUs."""
    ids = node.gpus[gpu_type]
    score, positions = best_subset(free.links(node.id), tuple(map(free.index_of, ids)), gpus)
    return score, tuple(ids[position] for position in positions)
