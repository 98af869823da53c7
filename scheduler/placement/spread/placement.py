"""Spreading; docs/policies/spread.md says what it optimises and what it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView, Job, Level
from scheduler.placement.free import Demand, Free, FreeNode
from scheduler.placement.split import cut


@dataclass(frozen=True, slots=True)
class Spread:
    """Places a gang by these wishes, the earlier the stronger.

    1. No node that the job avoids, or else as few as possible.
    2. As many racks as possible, if they may be several.
    3. The nodes with the most free GPUs.
    4. The smaller node id.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}
    relaxes: ClassVar[bool] = False

    def within(self, job: Job, now: float) -> Level:
        """As close as the job itself asks for."""
        return job.locality

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, the emptiest node first, or None when the gang does not fit."""
        if demand.split:
            return _lot(free, demand, avoid)
        candidates = [node for node in _emptiest_first(free, demand.gpu_type, avoid) if node.fits(demand)]
        nodes = _gang(candidates, demand, avoid)
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
            for rank, node in enumerate(nodes)
        )


def _emptiest_first(free: Free, gpu_type: str | None, avoid: Collection[int]) -> Iterable[FreeNode]:
    """The nodes with the most free GPUs first, then by id; those that the job avoids come last."""
    nodes: Iterable[FreeNode] = free.by_room(gpu_type)
    if gpu_type is None:  # a job without GPUs may also go where none is free
        nodes = sorted(free.by_fit(None, 0), key=lambda node: (-node.count(None), node.id))
    return sorted(nodes, key=lambda node: node.id in avoid) if avoid else nodes


def _lot(free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
    """As much as there is on the emptiest node, then on the next."""
    nodes = _emptiest_first(free, demand.gpu_type, avoid)
    if demand.within is Level.ANY:
        return cut(demand, nodes)
    if demand.within is Level.NODE:
        node = next((node for node in nodes if node.room(demand) >= demand.gpus), None)
        return None if node is None else cut(demand, [node])
    lots = (cut(demand, members) for members in _by_rack(nodes).values())
    return next((lot for lot in lots if lot is not None), None)


def _gang(candidates: Sequence[FreeNode], demand: Demand, avoid: Collection[int]) -> Sequence[FreeNode] | None:
    if demand.nodes == 1:
        return candidates[:1] or None
    if demand.within is Level.NODE or len(candidates) < demand.nodes:
        return None
    if demand.within is Level.RACK:
        racks = [nodes[: demand.nodes] for nodes in _by_rack(candidates).values() if len(nodes) >= demand.nodes]
        return min(racks, key=lambda nodes: sum(node.id in avoid for node in nodes)) if racks else None
    wanted = [node for node in candidates if node.id not in avoid]
    if len(wanted) < demand.nodes:
        return candidates[: demand.nodes]
    # The n-th node of each rack comes before the n-plus-first of any.
    seen: Counter[str] = Counter()
    turns = []
    for place, node in enumerate(wanted):
        turns.append((seen[node.rack], place))
        seen[node.rack] += 1
    return [wanted[place] for _, place in sorted(turns)[: demand.nodes]]


def _by_rack(nodes: Iterable[FreeNode]) -> dict[str, list[FreeNode]]:
    racks: dict[str, list[FreeNode]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    return racks
