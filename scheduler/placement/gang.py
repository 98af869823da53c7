"""Chooses the nodes of a gang with ranks of one size, each on its own node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scheduler.model import AllocationView, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import FreeNode

Pick = Callable[[Sequence[FreeNode], Demand], Sequence[FreeNode]]
Cost = Callable[[Sequence[FreeNode], Demand], Any]


def gang(
    candidates: Iterable[FreeNode], demand: Demand, last_resort: frozenset[int], pick: Pick, cost: Cost | None = None
) -> Sequence[FreeNode] | None:
    """The nodes of a gang from candidates in order of preference; None if too few fit.

    1. Use as few `last_resort` nodes as possible.
    2. Within one rack: the first candidates of the rack with the smallest `cost`, or of the first rack.
    3. Anywhere: the nodes that `pick` picks from more candidates than needed.
    """
    if demand.nodes == 1:
        node = first_choice(candidates, last_resort)
        return None if node is None else [node]
    if demand.within is Locality.NODE:
        return None
    every = list(candidates)
    if len(every) < demand.nodes:
        return None
    if demand.within is Locality.RACK:
        chosen = [_first(nodes, demand, last_resort) for nodes in by_rack(every).values() if len(nodes) >= demand.nodes]
        return (
            min(chosen, key=lambda nodes: (count_last_resort(last_resort, nodes), cost(nodes, demand) if cost else 0))
            if chosen
            else None
        )
    wanted = [node for node in every if node.id not in last_resort] if last_resort else every
    return pick(wanted, demand) if len(wanted) > demand.nodes else _first(every, demand, last_resort)


def first_choice(candidates: Iterable[FreeNode], last_resort: frozenset[int]) -> FreeNode | None:
    """The first candidate that is no last resort, or else the first candidate."""
    fallback = None
    for node in candidates:
        if node.id not in last_resort:
            return node
        fallback = fallback or node
    return fallback


def ranks(demand: Demand, nodes: Iterable[FreeNode]) -> tuple[AllocationView, ...]:
    """One rank on each node, in their order."""
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


def by_rack(nodes: Iterable[FreeNode]) -> dict[str, list[FreeNode]]:
    """The nodes by rack. Racks and nodes keep their order."""
    racks: dict[str, list[FreeNode]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    return racks


def count_last_resort(last_resort: frozenset[int], nodes: Iterable[FreeNode]) -> int:
    """The number of nodes that are a last resort."""
    return sum(node.id in last_resort for node in nodes)


def idle(nodes: Sequence[FreeNode], demand: Demand) -> int:
    """The number of free GPUs of the type on these nodes."""
    return sum(node.count(demand.gpu_type) for node in nodes)


def _first(nodes: Sequence[FreeNode], demand: Demand, last_resort: frozenset[int]) -> Sequence[FreeNode]:
    return sorted(nodes, key=lambda node: node.id in last_resort)[: demand.nodes]
