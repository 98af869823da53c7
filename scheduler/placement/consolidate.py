"""Pack a gang into few racks, on the nodes where it leaves the fewest GPUs idle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model import AllocationView
from scheduler.placement.base import BasePlacement, NodeExclusion
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import by_rack, gang, idle, ranks
from scheduler.placement.split import fewest_nodes


@dataclass(frozen=True, slots=True)
class Consolidate(BasePlacement):
    """Prefers nodes for a gang by these rules, in order:

    1. as few last resorts as possible;
    2. as few racks as possible;
    3. the fewest free GPUs;
    4. the smallest rack name, then the fewest strikes, then the smallest node id.
    """

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, neighbouring ranks close together; None if the gang does not fit."""
        if demand.divisible:
            return fewest_nodes(free, demand, exclusion)
        nodes = gang(
            exclusion.allowed(free.candidates(demand)), demand, exclusion.last_resort, _fewest_racks, rack_cost
        )
        return None if nodes is None else ranks(demand, sorted(nodes, key=lambda node: (node.rack, node.id)))


def rack_cost(nodes: Sequence[FreeNode], demand: Demand) -> tuple[int, str]:
    """The cost of nodes in one rack: their free GPUs. The smaller name breaks ties."""
    return idle(nodes, demand), nodes[0].rack


def _fewest_racks(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    """The nodes of a gang from enough candidates, which are sorted by fit.

    While no rack can host the missing ranks, add all candidates of the rack with the most: no other rack covers more.
    The last rack is the one whose best nodes leave the fewest GPUs idle.
    """
    racks = by_rack(candidates)
    chosen: list[FreeNode] = []
    while True:
        missing = demand.nodes - len(chosen)
        enough = [nodes[:missing] for nodes in racks.values() if len(nodes) >= missing]
        if enough:
            return chosen + min(enough, key=lambda nodes: rack_cost(nodes, demand))
        largest = min(racks, key=lambda rack: (-len(racks[rack]), rack))
        chosen += racks.pop(largest)


PLUGIN = Consolidate
