"""Divides a lot of GPUs among nodes.

A simulation divides hundreds of thousands of lots. A lot that needs only GPUs is divided by the shelves of the pool and
of its racks, which tell the number of nodes without reading any node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from scheduler.model import AllocationView, Locality
from scheduler.placement.base import NodeExclusion
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import by_rack, count_last_resort

T = TypeVar("T")


def divide(demand: Demand, nodes: Iterable[FreeNode]) -> tuple[AllocationView, ...] | None:
    """Take as many GPUs as fit from each node until the lot is complete; None if the nodes have too few."""
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


def fewest_nodes(
    free: Free,
    demand: Demand,
    exclusion: NodeExclusion,
    singles: Callable[[Free, Demand], Iterable[FreeNode]] = Free.candidates,
) -> tuple[AllocationView, ...] | None:
    """The lot on as few nodes and racks as possible. Its last node is the tightest fit.

    1. One node: the first of `singles` that is no last resort.
    2. One rack: the rack that needs the fewest nodes, its roomiest nodes first.
    3. Several racks: the roomiest nodes first.
    4. The same with as few last resorts as possible.
    """
    fallback = None
    for node in exclusion.allowed(singles(free, demand)):
        if node.id not in exclusion.last_resort:
            return divide(demand, [node])
        fallback = fallback or node
    if demand.within is not Locality.NODE and free.gpus(demand.gpu_type) >= demand.gpus:
        if demand.cpus or demand.memory_mib or demand.closed or exclusion.last_resort or exclusion.excluded is not None:
            nodes = _by_node(free, demand, exclusion)
        else:
            nodes = _by_number(free, demand, str(demand.gpu_type))
        if nodes is not None and (fallback is None or not count_last_resort(exclusion.last_resort, nodes)):
            return divide(demand, nodes)
    return None if fallback is None else divide(demand, [fallback])


def _by_number(free: Free, demand: Demand, gpu_type: str) -> list[FreeNode] | None:
    gpus = demand.gpus
    least = -(-gpus // max(1, free.max_on_one_node(gpu_type)))  # no rack needs fewer
    fewest, best = 0, None
    for _, shelves in free.racks(gpu_type, gpus):
        nodes = _nodes_needed(shelves, gpus)
        if best is None or nodes < fewest:
            fewest, best = nodes, shelves
        if fewest <= least:
            break
    if best is None:
        if demand.within is Locality.RACK:
            return None
        best = free.shelves(gpu_type)
    return [free.at(place) for place in _roomiest(best, gpus)] or None


def _by_node(free: Free, demand: Demand, exclusion: NodeExclusion) -> list[FreeNode] | None:
    lot = _in_one_rack(free, demand, exclusion)
    if lot:
        return lot
    nodes = list(exclusion.allowed(free.by_room(demand.gpu_type)))
    wanted = [node for node in nodes if node.id not in exclusion.last_resort] if exclusion.last_resort else nodes
    if demand.within is Locality.ANY:
        lot = _roomiest(_shelved(wanted, demand), demand.gpus)
    if lot or len(wanted) == len(nodes):
        return lot or None
    lots = [_last_resorts_last(inside, demand, exclusion) for _, inside in sorted(by_rack(nodes).items())]
    fitting = [lot for lot in lots if lot]
    if fitting:
        return min(fitting, key=lambda lot: (count_last_resort(exclusion.last_resort, lot), len(lot)))
    return (_last_resorts_last(nodes, demand, exclusion) or None) if demand.within is Locality.ANY else None


def _in_one_rack(free: Free, demand: Demand, exclusion: NodeExclusion) -> list[FreeNode]:
    """The lot in the rack that needs the fewest nodes, without last resorts; empty if no rack has room.

    The GPU counts of a rack bound the nodes that it needs from below, so the nodes of most racks are not read.
    """
    gpus = demand.gpus
    racks = dict(free.racks(str(demand.gpu_type), gpus))
    found: tuple[int, str] | None = None
    lot: list[FreeNode] = []
    for least, rack in sorted((_nodes_needed(shelves, gpus), rack) for rack, shelves in racks.items()):
        if found is not None and found < (least, rack):
            break
        nodes = exclusion.allowed(free.at(place) for shelf in reversed(racks[rack]) for place in shelf)
        here = _roomiest(_shelved((node for node in nodes if node.id not in exclusion.last_resort), demand), gpus)
        if here and (found is None or (len(here), rack) < found):
            found, lot = (len(here), rack), here
    return lot


def _last_resorts_last(nodes: Sequence[FreeNode], demand: Demand, exclusion: NodeExclusion) -> list[FreeNode]:
    """The roomiest nodes that hold the lot, last resorts only as far as needed; empty if they hold too little."""
    wanted = _shelved((node for node in nodes if node.id not in exclusion.last_resort), demand)
    lot = _roomiest(wanted, demand.gpus)
    if lot or not exclusion.last_resort:
        return lot
    preferred = [node for shelf in reversed(wanted) for node in shelf]
    missing = demand.gpus - sum(node.room(demand) for node in preferred)
    rest = _roomiest(_shelved((node for node in nodes if node.id in exclusion.last_resort), demand), missing)
    return preferred + rest if rest else []


def _shelved(nodes: Iterable[FreeNode], demand: Demand) -> list[list[FreeNode]]:
    """The nodes that can host a part of the lot, by the number of GPUs that they can host."""
    shelves: list[list[FreeNode]] = [[]]
    for node in nodes:
        room = node.room(demand)
        if room > 0:
            shelves.extend([] for _ in range(room + 1 - len(shelves)))
            shelves[room].append(node)
    return shelves


def _nodes_needed(shelves: Sequence[Sequence[T]], gpus: int) -> int:
    """The number of nodes that a lot needs on these shelves, which have room for it."""
    nodes = 0
    for room in range(len(shelves) - 1, 0, -1):
        nodes_here = len(shelves[room])
        if gpus <= nodes_here * room:
            return nodes - (-gpus // room)
        gpus -= nodes_here * room
        nodes += nodes_here
    return nodes


def _roomiest(shelves: Sequence[Sequence[T]], gpus: int) -> list[T]:
    """The roomiest nodes, and as last node the tightest fit for the rest of the lot; empty if they hold too little."""
    chosen: list[T] = []
    for room in range(len(shelves) - 1, 0, -1):
        for node in shelves[room]:
            if room >= gpus:
                chosen.append(next((shelves[tight][0] for tight in range(gpus, room) if shelves[tight]), node))
                return chosen
            chosen.append(node)
            gpus -= room
    return []
