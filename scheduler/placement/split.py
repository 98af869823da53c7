"""Cutting one lot of GPUs to nodes.

A simulation cuts hundreds of thousands of lots. A lot that needs only GPUs is cut from the shelves of the pool and of
its racks, which know how many nodes it takes without looking at any node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from scheduler.model import AllocationView, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import among, by_rack
from scheduler.placement.steady import NodeExclusion

T = TypeVar("T")


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


def fewest_nodes(
    free: Free,
    demand: Demand,
    exclusion: NodeExclusion,
    singles: Callable[[Free, Demand], Iterable[FreeNode]] = Free.candidates,
) -> tuple[AllocationView, ...] | None:
    """The lot on as few nodes as possible, and as few racks; the last node is the one that it fills best.

    1. On one node, the first of `singles` that is no last choice.
    2. Within one rack: its roomiest nodes, and the rack that needs the fewest of them.
    3. Over racks, the roomiest nodes first.
    4. All the same with as few last choices as possible.
    """
    last_choice = None
    for node in exclusion.allowed(singles(free, demand)):
        if node.id not in exclusion.last_resort:
            return cut(demand, [node])
        last_choice = last_choice or node
    if demand.within is not Locality.NODE and free.gpus(demand.gpu_type) >= demand.gpus:
        if demand.cpus or demand.memory_mib or demand.closed or exclusion.last_resort or exclusion.excluded is not None:
            nodes = _with_a_look_at_each(free, demand, exclusion)
        else:
            nodes = _by_number(free, demand, str(demand.gpu_type))
        if nodes is not None and (last_choice is None or not among(exclusion.last_resort, nodes)):
            return cut(demand, nodes)
    return None if last_choice is None else cut(demand, [last_choice])


def _by_number(free: Free, demand: Demand, gpu_type: str) -> list[FreeNode] | None:
    gpus = demand.gpus
    least = -(-gpus // max(1, free.most_on_one_node(gpu_type)))  # no rack can do with fewer
    fewest, best = 0, None
    for _, shelves in free.racks(gpu_type, gpus):
        nodes = _how_many(shelves, gpus)
        if best is None or nodes < fewest:
            fewest, best = nodes, shelves
        if fewest <= least:
            break
    if best is None:
        if demand.within is Locality.RACK:
            return None
        best = free.shelves(gpu_type)
    return [free.at(place) for place in _roomiest(best, gpus)] or None


def _with_a_look_at_each(free: Free, demand: Demand, exclusion: NodeExclusion) -> list[FreeNode] | None:
    lot = _in_one_rack(free, demand, exclusion)
    if lot:
        return lot
    nodes = list(exclusion.allowed(free.by_room(demand.gpu_type)))
    wanted = [node for node in nodes if node.id not in exclusion.last_resort] if exclusion.last_resort else nodes
    if demand.within is Locality.ANY:
        lot = _roomiest(_shelved(wanted, demand), demand.gpus)
    if lot or len(wanted) == len(nodes):
        return lot or None
    lots = [_last_choices_last(inside, demand, exclusion) for _, inside in sorted(by_rack(nodes).items())]
    fitting = [lot for lot in lots if lot]
    if fitting:
        return min(fitting, key=lambda lot: (among(exclusion.last_resort, lot), len(lot)))
    return (_last_choices_last(nodes, demand, exclusion) or None) if demand.within is Locality.ANY else None


def _in_one_rack(free: Free, demand: Demand, exclusion: NodeExclusion) -> list[FreeNode]:
    """The lot without last choices in the rack that needs the fewest nodes, or none.

    By its GPUs alone a rack would need no more nodes than it does, so most racks need no look at their nodes.
    """
    gpus = demand.gpus
    racks = dict(free.racks(str(demand.gpu_type), gpus))
    found: tuple[int, str] | None = None
    lot: list[FreeNode] = []
    for least, rack in sorted((_how_many(shelves, gpus), rack) for rack, shelves in racks.items()):
        if found is not None and found < (least, rack):
            break
        nodes = exclusion.allowed(free.at(place) for shelf in reversed(racks[rack]) for place in shelf)
        here = _roomiest(_shelved((node for node in nodes if node.id not in exclusion.last_resort), demand), gpus)
        if here and (found is None or (len(here), rack) < found):
            found, lot = (len(here), rack), here
    return lot


def _last_choices_last(nodes: Sequence[FreeNode], demand: Demand, exclusion: NodeExclusion) -> list[FreeNode]:
    """The roomiest of the nodes that hold the lot together, or none when they do not."""
    wanted = _shelved((node for node in nodes if node.id not in exclusion.last_resort), demand)
    lot = _roomiest(wanted, demand.gpus)
    if lot or not exclusion.last_resort:
        return lot
    whole = [node for shelf in reversed(wanted) for node in shelf]
    missing = demand.gpus - sum(node.room(demand) for node in whole)
    rest = _roomiest(_shelved((node for node in nodes if node.id in exclusion.last_resort), demand), missing)
    return whole + rest if rest else []


def _shelved(nodes: Iterable[FreeNode], demand: Demand) -> list[list[FreeNode]]:
    """The nodes that have room for any of the lot, by how much."""
    shelves: list[list[FreeNode]] = [[]]
    for node in nodes:
        room = node.room(demand)
        if room > 0:
            shelves.extend([] for _ in range(room + 1 - len(shelves)))
            shelves[room].append(node)
    return shelves


def _how_many(shelves: Sequence[Sequence[T]], gpus: int) -> int:
    """How many nodes a lot takes that fits on these shelves."""
    nodes = 0
    for room in range(len(shelves) - 1, 0, -1):
        here = len(shelves[room])
        if gpus <= here * room:
            return nodes - (-gpus // room)
        gpus -= here * room
        nodes += here
    return nodes


def _roomiest(shelves: Sequence[Sequence[T]], gpus: int) -> list[T]:
    """The roomiest nodes, but for the last one: the tightest that holds what is left of the lot; empty if too few."""
    chosen: list[T] = []
    for room in range(len(shelves) - 1, 0, -1):
        for node in shelves[room]:
            if room >= gpus:
                chosen.append(next((shelves[tight][0] for tight in range(gpus, room) if shelves[tight]), node))
                return chosen
            chosen.append(node)
            gpus -= room
    return []
