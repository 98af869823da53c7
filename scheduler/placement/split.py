"""Cutting one lot of GPUs to the nodes that a placement has chosen, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import AllocationView, Level
from scheduler.placement.free import Demand, Free, FreeNode


def cut(demand: Demand, nodes: Iterable[FreeNode]) -> tuple[AllocationView, ...] | None:
    """As much from each node as it has room for, until the lot is whole; None when the nodes do not suffice."""
    shares: list[AllocationView] = []
    missing = demand.gpus
    for node in nodes:
        gpus = min(missing, node.room(demand))
        if gpus <= 0:
            continue
        shares.append(
            AllocationView(
                node_id=node.id,
                rank=len(shares),
                gpu_ids=tuple(node.gpus[str(demand.gpu_type)][:gpus]),
                cpus=demand.cpus * gpus,
                memory_mib=demand.memory_mib * gpus,
            )
        )
        missing -= gpus
        if not missing:
            return tuple(shares)
    return None


def fewest_nodes(free: Free, demand: Demand, avoid: frozenset[int] = frozenset()) -> tuple[AllocationView, ...] | None:
    """The lot on as few nodes as possible, and as few racks; the last node is the one that it fills best.

    1. On one node, the tightest that has room.
    2. Within one rack: its roomiest nodes, and the rack that needs the fewest of them.
    3. Over racks, the roomiest nodes first.
    """
    single = [node for node in free.by_fit(demand.gpu_type, demand.gpus) if node.room(demand) >= demand.gpus]
    if single:
        return cut(demand, [next((node for node in single if node.id not in avoid), single[0])])
    if demand.within is Level.NODE:
        return None
    roomy = sorted(free.by_room(demand.gpu_type), key=lambda node: node.id in avoid)
    racks: dict[str, list[FreeNode]] = {}
    for node in roomy:
        racks.setdefault(node.rack, []).append(node)
    inside = [shares for rack in sorted(racks) if (shares := cut(demand, _fitting(demand, racks[rack]))) is not None]
    if inside:
        return min(inside, key=len)
    if demand.within is Level.RACK:
        return None
    return cut(demand, _fitting(demand, roomy))


def _fitting(demand: Demand, roomy: list[FreeNode]) -> Iterator[FreeNode]:
    """The roomiest nodes, but for the last one: the tightest that holds what is left."""
    missing = demand.gpus
    left = list(roomy)
    while left and missing > 0:
        enough = [node for node in left if node.room(demand) >= missing]
        node = min(enough, key=lambda one: one.count(demand.gpu_type)) if enough else left[0]
        left.remove(node)
        missing -= node.room(demand)
        yield node
