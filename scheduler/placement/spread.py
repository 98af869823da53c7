"""Spread a gang over the emptiest nodes of as many racks as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import AllocationView, Locality
from scheduler.placement.base import BasePlacement, NodeExclusion
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import by_rack, gang, ranks
from scheduler.placement.split import divide


@dataclass(frozen=True, slots=True)
class Spread(BasePlacement):
    """Prefers nodes for a gang by these rules, in order:

    1. as few last resorts as possible;
    2. as many racks as the locality allows;
    3. the most free GPUs;
    4. the fewest strikes, then the smallest node id.
    """

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, the emptiest node first; None if the gang does not fit."""
        nodes = exclusion.allowed(_emptiest_first(free, demand))
        if demand.divisible:
            return _lot(nodes, demand, exclusion.last_resort)
        chosen = gang((node for node in nodes if node.fits(demand)), demand, exclusion.last_resort, _round_robin)
        return None if chosen is None else ranks(demand, chosen)


def _emptiest_first(free: Free, demand: Demand) -> Iterable[FreeNode]:
    if demand.gpu_type is None:  # a job without GPUs may run on nodes without free GPUs
        return sorted(free.by_fit(None, 0), key=lambda node: (-node.count(None), node.place))
    return free.by_room(demand.gpu_type)


def _lot(nodes: Iterable[FreeNode], demand: Demand, last_resort: frozenset[int]) -> tuple[AllocationView, ...] | None:
    """The lot on the emptiest nodes, filled one after the other."""
    if last_resort:
        nodes = sorted(nodes, key=lambda node: node.id in last_resort)
    if demand.within is Locality.ANY:
        return divide(demand, nodes)
    if demand.within is Locality.NODE:
        node = next((node for node in nodes if node.room(demand) >= demand.gpus), None)
        return None if node is None else divide(demand, [node])
    lots = [lot for members in by_rack(nodes).values() if (lot := divide(demand, members)) is not None]
    return min(lots, key=lambda lot: sum(share.node_id in last_resort for share in lot)) if lots else None


def _round_robin(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    """The first nodes in round-robin order over racks."""
    seen: Counter[str] = Counter()
    order = []
    for preference, node in enumerate(candidates):
        order.append((seen[node.rack], preference))
        seen[node.rack] += 1
    return [candidates[preference] for _, preference in sorted(order)[: demand.nodes]]


PLUGIN = Spread
