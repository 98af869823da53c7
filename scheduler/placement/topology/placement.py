"""Topology; docs/policies/topology.md says what it optimises and what it does not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any, ClassVar

from scheduler.model import AllocationView
from scheduler.placement.as_asked import AsAsked
from scheduler.placement.bases import BASE_PARAMS, base
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.steady import STRIKES_LIMIT
from scheduler.placement.topology.subsets import best_subset

# Of equally tight nodes, so many are compared; each costs some 100 µs the first time.
_COMPARED = 16


@dataclass(frozen=True, slots=True)
class Topology(AsAsked):
    """Which nodes, the placement `inside` says; of the free GPUs there, a rank gets those that are linked best.

    1. The worst link between two of them is as good as possible, then the sum of all their links.
    2. The GPUs that stay free are linked as well as possible.
    3. The smaller indexes.

    What lies on one node goes, of the nodes with equally many free GPUs, where its links are the best.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {**BASE_PARAMS},
        "additionalProperties": False,
    }
    fills: ClassVar[bool] = True

    inside: str = "consolidate"
    strikes_limit: float = STRIKES_LIMIT

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """See `Placement`."""
        inside = base(self.inside, self.strikes_limit)
        exclusion = inside.exclusion(free, avoid)
        shares = inside.choose(free, demand, exclusion)
        if shares is None or demand.gpu_type is None or not free.linked:
            return shares
        if len(shares) == 1:
            (share,) = shares
            nodes = _as_tight(free, demand, share.node_id, exclusion.last_resort)
            found = [(_linked(free, node, demand.gpu_type, len(share.gpu_ids)), node) for node in nodes]
            (_, gpu_ids), best = max(found, key=lambda one: one[0][0])  # of equals, the first
            return (replace(share, node_id=best.id, gpu_ids=gpu_ids),)
        return tuple(_relinked(free, share, demand.gpu_type) for share in shares)


def _as_tight(free: Free, demand: Demand, node_id: int, last: frozenset[int]) -> Iterator[FreeNode]:
    """The node itself, and then others that would do as well but for their links."""
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
        and (node.id in last) == (node_id in last)
        and node.id not in demand.closed
        and node.cpus >= demand.cpus * lots
        and node.memory_mib >= demand.memory_mib * lots
    )
    yield from islice(same, _COMPARED)


def _relinked(free: Free, share: AllocationView, gpu_type: str) -> AllocationView:
    node = free.node(share.node_id)
    return share if node is None else replace(share, gpu_ids=_linked(free, node, gpu_type, len(share.gpu_ids))[1])


def _linked(free: Free, node: FreeNode, gpu_type: str, gpus: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The best that so many free GPUs of the node score, and these GPUs."""
    ids = node.gpus[gpu_type]
    score, positions = best_subset(free.links(node.id), tuple(map(free.index_of, ids)), gpus)
    return score, tuple(ids[position] for position in positions)
