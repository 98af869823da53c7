"""A place on GPUs that are given: the gang is spread over their nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from scheduler.model import AllocationView, View
from scheduler.placement.demand import Demand

_NO_CELLS: Mapping[int, str] = MappingProxyType({})


def on_gpus(
    view: View, demand: Demand, gpu_ids: Collection[int], cells: Mapping[int, str] = _NO_CELLS
) -> tuple[AllocationView, ...] | None:
    """One allocation for each node of the GPUs, by the ids of the nodes; None if the demand is for other numbers.

    Whether the GPUs are free is not looked at. `cells` are the virtual cells by GPU id, of all GPUs or of none.
    """
    by_node: dict[int, list[int]] = {}
    for gpu_id in sorted(gpu_ids):
        gpu = view.gpu_by_id.get(gpu_id)
        if gpu is None or gpu.type != demand.gpu_type:
            return None
        by_node.setdefault(gpu.node_id, []).append(gpu_id)
    if demand.divisible:
        fits = len(gpu_ids) == demand.gpus
    else:
        fits = len(by_node) == demand.nodes and all(len(those) == demand.gpus for those in by_node.values())
    if not fits:
        return None
    lots = {node_id: len(those) if demand.divisible else 1 for node_id, those in by_node.items()}
    return tuple(
        AllocationView(
            node_id,
            rank,
            tuple(by_node[node_id]),
            demand.cpus * lots[node_id],
            demand.memory_mib * lots[node_id],
            cells=tuple(cells[gpu_id] for gpu_id in by_node[node_id]) if cells else (),
        )
        for rank, node_id in enumerate(sorted(by_node))
    )
