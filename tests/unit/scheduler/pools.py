"""Pools, demands and answers in the words of the placements' tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.model import AllocationView, Locality, Node, Running
from scheduler.model.request import request_of
from scheduler.placement import Placement
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from tests.unit.scheduler.factories import make_node, make_running, make_share, make_snapshot


def gang(gpus: int, nodes: int = 1, within: Locality = Locality.ANY, cpus: int = 1, memory_mib: int = 1024) -> Demand:
    """`nodes` ranks, each with these GPUs on its own node."""
    kind = "A100" if gpus else None
    return Demand(request_of(gpu_type=kind, gpus=gpus, nodes=nodes, cpus=cpus, memory_mib=memory_mib), within)


def lot(gpus: int, within: Locality = Locality.ANY, cpus: int = 0) -> Demand:
    """GPUs on as many nodes as it takes; CPUs are for each of them."""
    return Demand(request_of(gpu_type="A100", gpus=gpus, cpus=cpus, split=True), within)


def using(node_id: int, gpus: int, cpus: int = 1, memory_mib: int = 1024) -> Running:
    """A job that holds the first GPUs of a node."""
    return make_running(make_share(node_id, range(gpus), cpus=cpus, memory_mib=memory_mib), attempt_id=node_id)


def spanning(attempt_id: int, *node_ids: int, gpus: int = 2) -> Running:
    """A job that holds the first GPUs of several nodes."""
    shares = [make_share(node_id, range(gpus), rank) for rank, node_id in enumerate(node_ids)]
    return make_running(*shares, attempt_id=attempt_id)


def nodes(*racks: str) -> tuple[Node, ...]:
    """Nodes 1, 2, 3 … with eight GPUs each, in these racks."""
    return tuple(make_node(index, rack=rack) for index, rack in enumerate(racks, start=1))


@dataclass(frozen=True)
class Case:
    """A demand on a pool, and what it gets: (node id, GPUs) by rank."""

    expected: list[tuple[int, int]] | None
    demand: Demand
    nodes: tuple[Node, ...]
    running: tuple[Running, ...] = ()
    avoid: Iterable[int] = ()

    def got(self, placement: Placement) -> list[tuple[int, int]] | None:
        """The places that the placement gives."""
        free = Free(make_snapshot(nodes=self.nodes, running=self.running))
        return by_rank(placement.place(free, self.demand, tuple(self.avoid)))


def by_rank(allocations: tuple[AllocationView, ...] | None) -> list[tuple[int, int]] | None:
    """(node id, GPUs) of each rank."""
    if allocations is None:
        return None
    return [(share.node_id, len(share.gpu_ids)) for share in sorted(allocations, key=lambda share: share.rank)]
