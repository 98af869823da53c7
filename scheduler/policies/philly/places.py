"""Philly's placement of a gang: the rack with the most free GPUs, and there the fewest servers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.authoring import Locality
from scheduler.workshop import AllocationView, Demand, Free, FreeNode, divide

# The stages of locality, relaxed one after the other.
FEWEST_SERVERS, ONE_RACK, ANYWHERE = range(3)


def find(
    free: Free, demand: Demand, stage: int, avoid: Collection[int], *, dedicated: bool
) -> tuple[AllocationView, ...] | None:
    """One allocation per rank, or None if the gang finds no room within the stage's locality.

    With `dedicated`, a gang on several servers gets only empty ones, and other jobs avoid servers that host such a
    gang.
    """
    shunned = demand.closed.union(avoid)
    nodes = [node for node in free.by_fit(demand.gpu_type, 1 if demand.gpus else 0) if node.id not in shunned]
    if dedicated:
        nodes = [node for node in nodes if all(resident.nodes == 1 for resident in node.residents)]
    single = demand.nodes == 1
    if single:
        # A small job is packed onto a partly used server: the tightest that holds it.
        for node in nodes:
            if _hosts(node, demand):
                return _cut(demand, [node])
        if not demand.divisible or demand.within is Locality.NODE:
            return None
    if dedicated:
        nodes = [node for node in nodes if not node.residents]
    racks: dict[str, list[FreeNode]] = {}
    for node in nodes:
        racks.setdefault(node.rack, []).append(node)
    order = sorted(racks, key=lambda rack: (-sum(node.count(demand.gpu_type) for node in racks[rack]), rack))
    fewest = fewest_servers(free, demand)
    for rack in order:
        found = _gather(demand, racks[rack])
        if found is not None and (stage > FEWEST_SERVERS or len(found) <= fewest):
            return found
    if stage < ANYWHERE or demand.within is Locality.RACK:
        return None
    return _gather(demand, [node for rack in order for node in racks[rack]], in_order=True)


def fewest_servers(free: Free, demand: Demand) -> int:
    """The minimum number of servers for the demand."""
    if not demand.divisible:
        return demand.nodes
    most = len(free.shelves(demand.gpu_type)) - 1
    return -(-demand.gpus // max(most, 1))


def _gather(demand: Demand, nodes: Sequence[FreeNode], *, in_order: bool = False) -> tuple[AllocationView, ...] | None:
    """The gang on the fewest of these nodes: roomiest nodes for a divisible job, best-filled ones for ranks."""
    if demand.divisible:
        roomiest = nodes if in_order else sorted(nodes, key=lambda node: (-node.room(demand), node.id))
        return _cut(demand, roomiest)
    fitting = [node for node in nodes if _hosts(node, demand)]
    return _cut(demand, fitting[: demand.nodes]) if len(fitting) >= demand.nodes else None


def _hosts(node: FreeNode, demand: Demand) -> bool:
    """True if the node could host one rank, or all of a divisible job."""
    if demand.divisible:
        return node.room(demand) >= demand.gpus
    return (
        node.count(demand.gpu_type) >= demand.gpus and node.cpus >= demand.cpus and node.memory_mib >= demand.memory_mib
    )


def _cut(demand: Demand, nodes: Sequence[FreeNode]) -> tuple[AllocationView, ...] | None:
    if demand.divisible:
        return divide(demand, nodes)
    ordered = sorted(nodes, key=lambda node: (node.rack, node.id))
    return tuple(
        AllocationView(
            node.id,
            rank,
            tuple(node.gpus[demand.gpu_type][: demand.gpus]) if demand.gpu_type else (),
            demand.cpus,
            demand.memory_mib,
        )
        for rank, node in enumerate(ordered)
    )
