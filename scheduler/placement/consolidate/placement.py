"""Consolidation; docs/policies/consolidate.md says what it optimises and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model import AllocationView
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import by_rack, gang, idle, ranks
from scheduler.placement.split import fewest_nodes
from scheduler.placement.steady import NodeExclusion, Steady


@dataclass(frozen=True, slots=True)
class Consolidate(Steady):
    """Places a gang by these wishes, the earlier the stronger.

    1. No node that is a last choice, or else as few as possible.
    2. As few racks as possible.
    3. The nodes with the fewest free GPUs.
    4. The smaller rack name, the fewer strikes, the smaller node id.
    """

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, neighbouring ranks close together, or None when the gang does not fit."""
        if demand.divisible:
            return fewest_nodes(free, demand, exclusion)
        nodes = gang(
            exclusion.allowed(free.candidates(demand)), demand, exclusion.last_resort, _fewest_racks, rack_cost
        )
        return None if nodes is None else ranks(demand, sorted(nodes, key=lambda node: (node.rack, node.id)))


def rack_cost(nodes: Sequence[FreeNode], demand: Demand) -> tuple[int, str]:
    """What is lost with nodes of one rack: the GPUs that are free on them; of equals, the smaller name wins."""
    return idle(nodes, demand), nodes[0].rack


def _fewest_racks(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    """The nodes of a gang, from candidates that are enough and in the order of their fit.

    While no rack can host all that is missing, the rack with the most candidates joins whole: no other choice covers
    more. The last rack is the one whose best nodes leave the fewest GPUs idle.
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
