"""Consolidation; docs/policies/consolidate.md says what it optimises and what it does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView, Job, Level
from scheduler.placement.free import Demand, Free, FreeNode
from scheduler.placement.split import fewest_nodes


@dataclass(frozen=True, slots=True)
class Consolidate:
    """Places a gang by these wishes, the earlier the stronger.

    1. No node that the job avoids, or else as few as possible.
    2. As few racks as possible.
    3. The nodes with the fewest free GPUs.
    4. The smaller rack name, the smaller node id.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}
    relaxes: ClassVar[bool] = False

    def within(self, job: Job, now: float) -> Level:
        """As close as the job itself asks for."""
        return job.locality

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, neighbouring ranks close together, or None when the gang does not fit."""
        if demand.split:
            return fewest_nodes(free, demand, frozenset(avoid))
        nodes = _one_node(free, demand, avoid) if demand.nodes == 1 else _many_nodes(free, demand, avoid)
        if nodes is None:
            return None
        return tuple(
            AllocationView(
                node_id=node.id,
                rank=rank,
                gpu_ids=tuple(node.gpus[demand.gpu_type][: demand.gpus]) if demand.gpu_type else (),
                cpus=demand.cpus,
                memory_mib=demand.memory_mib,
            )
            for rank, node in enumerate(sorted(nodes, key=lambda node: (node.rack, node.id)))
        )


def _one_node(free: Free, demand: Demand, avoid: Collection[int]) -> Sequence[FreeNode] | None:
    last_choice = None
    for node in free.candidates(demand):
        if node.id not in avoid:
            return [node]
        last_choice = last_choice or node
    return [last_choice] if last_choice else None


def _many_nodes(free: Free, demand: Demand, avoid: Collection[int]) -> Sequence[FreeNode] | None:
    candidates = list(free.candidates(demand))
    if len(candidates) < demand.nodes:
        return None
    wanted = [node for node in candidates if node.id not in avoid] if avoid else candidates
    if len(wanted) <= demand.nodes:
        last_choices = [node for node in candidates if node.id in avoid]
        return wanted + last_choices[: demand.nodes - len(wanted)]
    return _fewest_racks(wanted, demand)


def _fewest_racks(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    """The nodes of a gang, from candidates that are enough and in the order of their fit.

    While no rack can host all that is missing, the rack with the most candidates joins whole: no other choice covers
    more. The last rack is the one whose best nodes leave the fewest GPUs idle.
    """
    racks: dict[str, list[FreeNode]] = {}
    for node in candidates:
        racks.setdefault(node.rack, []).append(node)
    chosen: list[FreeNode] = []
    while True:
        missing = demand.nodes - len(chosen)
        enough = [nodes[:missing] for nodes in racks.values() if len(nodes) >= missing]
        if enough:
            return chosen + min(enough, key=lambda nodes: (_idle(nodes, demand), nodes[0].rack))
        largest = min(racks, key=lambda rack: (-len(racks[rack]), rack))
        chosen += racks.pop(largest)


def _idle(nodes: Sequence[FreeNode], demand: Demand) -> int:
    return sum(node.count(demand.gpu_type) for node in nodes)
