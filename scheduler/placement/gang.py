"""Choosing the nodes of a gang whose ranks are of one size, each on a node of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scheduler.model import AllocationView, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import FreeNode

Pick = Callable[[Sequence[FreeNode], Demand], Sequence[FreeNode]]
Cost = Callable[[Sequence[FreeNode], Demand], Any]


def gang(
    candidates: Iterable[FreeNode], demand: Demand, last: frozenset[int], pick: Pick, cost: Cost | None = None
) -> Sequence[FreeNode] | None:
    """The nodes of a gang, of candidates that stand in the order of preference, or None when they do not suffice.

    1. As few of the `last` choices as possible.
    2. Within one rack, the first candidates of the rack whose `cost` is the smallest, or of the first rack.
    3. Anywhere, what `pick` picks of candidates that are more than enough.
    """
    if demand.nodes == 1:
        node = first_choice(candidates, last)
        return None if node is None else [node]
    if demand.within is Locality.NODE:
        return None
    every = list(candidates)
    if len(every) < demand.nodes:
        return None
    if demand.within is Locality.RACK:
        chosen = [_first(nodes, demand, last) for nodes in by_rack(every).values() if len(nodes) >= demand.nodes]
        return (
            min(chosen, key=lambda nodes: (among(last, nodes), cost(nodes, demand) if cost else 0)) if chosen else None
        )
    wanted = [node for node in every if node.id not in last] if last else every
    return pick(wanted, demand) if len(wanted) > demand.nodes else _first(every, demand, last)


def first_choice(candidates: Iterable[FreeNode], last: frozenset[int]) -> FreeNode | None:
    """The first candidate, but a `last` choice only when there is no other."""
    last_choice = None
    for node in candidates:
        if node.id not in last:
            return node
        last_choice = last_choice or node
    return last_choice


def ranks(demand: Demand, nodes: Iterable[FreeNode]) -> tuple[AllocationView, ...]:
    """One rank on each of the nodes, in their order."""
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
    """The nodes of each rack, both in the order in which they come."""
    racks: dict[str, list[FreeNode]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    return racks


def among(last: frozenset[int], nodes: Iterable[FreeNode]) -> int:
    """How many of the nodes are last choices."""
    return sum(node.id in last for node in nodes)


def idle(nodes: Sequence[FreeNode], demand: Demand) -> int:
    """How many GPUs of the type the nodes have free."""
    return sum(node.count(demand.gpu_type) for node in nodes)


def _first(nodes: Sequence[FreeNode], demand: Demand, last: frozenset[int]) -> Sequence[FreeNode]:
    return sorted(nodes, key=lambda node: node.id in last)[: demand.nodes]
