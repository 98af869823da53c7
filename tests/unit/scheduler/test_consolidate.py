"""Which nodes and GPUs consolidation gives to a gang."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from scheduler.model import Node, Running
from scheduler.placement.consolidate.placement import Consolidate
from scheduler.placement.free import Demand, Free
from tests.unit.scheduler.factories import make_node, make_running, make_share, make_snapshot


def demand(gpus: int, nodes: int = 1, gpu_type: str | None = "A100", cpus: int = 1, memory_mib: int = 1024) -> Demand:
    return Demand(gpu_type, gpus, nodes, cpus, memory_mib)


def using(node_id: int, gpus: int, cpus: int = 1) -> Running:
    return make_running(make_share(node_id, range(gpus), cpus=cpus), attempt_id=node_id)


def nodes(*racks: str) -> tuple[Node, ...]:
    return tuple(make_node(index, rack=rack) for index, rack in enumerate(racks, start=1))


@dataclass(frozen=True)
class Case:
    """A demand on a pool, and the ids of the nodes that it gets."""

    expected: list[int] | None
    demand: Demand
    nodes: tuple[Node, ...]
    running: tuple[Running, ...] = ()
    avoid: Iterable[int] = ()


CASES = {
    "an empty pool: the smallest id": Case([1], demand(1), nodes("a", "a")),
    "one node: the tightest fit": Case([2], demand(2), nodes("a", "a", "a"), (using(1, 3), using(2, 6), using(3, 7))),
    "one node: never the one the job avoids": Case([1], demand(2), nodes("a", "a"), (using(2, 6),), avoid=[2]),
    "one node: the avoided one when no other fits": Case([2], demand(8), nodes("a", "a"), (using(1, 1),), avoid=[2]),
    "two nodes: one rack before a tighter fit": Case(
        [2, 3], demand(4, 2), nodes("a", "b", "b"), (using(1, 4), using(2, 4))
    ),
    "two nodes: the rack where they leave the fewest idle": Case(
        [3, 4], demand(4, 2), nodes("a", "a", "b", "b"), (using(1, 2), using(3, 3))
    ),
    "two nodes: equal racks by name": Case([3, 4], demand(8, 2), nodes("b", "b", "a", "a")),
    "three nodes: the rack with the most, then the tightest of the rest": Case(
        [2, 3, 4], demand(4, 3), nodes("a", "b", "b", "c"), (using(4, 4),)
    ),
    "two nodes: one rack with an avoided node is worth less than none avoided": Case(
        [1, 3], demand(8, 2), nodes("a", "a", "b"), avoid=[2]
    ),
    "two nodes: no more avoided ones than it takes": Case([1, 3], demand(8, 2), nodes("a", "a", "a"), avoid=[1, 2]),
    "a node that lacks CPUs is passed by": Case([2], demand(1, cpus=8), nodes("a", "a"), (using(1, 4, cpus=60),)),
    "a node that lacks memory is passed by": Case(
        [2], demand(1, memory_mib=4096), (make_node(1, memory_mib=2048), make_node(2))
    ),
    "a node that takes no jobs is passed by": Case([2], demand(1), (make_node(1, schedulable=False), make_node(2))),
    "GPUs that are not healthy are not free": Case([2], demand(8), (make_node(1, unhealthy=[0]), make_node(2))),
    "GPUs of another type are not counted": Case([2], demand(8), (make_node(1, gpu_type="V100"), make_node(2))),
    "no GPUs: where the fewest GPUs are left idle": Case(
        [3], demand(0, gpu_type=None), (*nodes("a", "a"), make_node(3, gpus=0))
    ),
    "no node is large enough": Case(None, demand(8), nodes("a", "a"), (using(1, 1), using(2, 1))),
    "not enough nodes": Case(None, demand(1, 3), nodes("a", "b")),
    "not enough nodes with the CPUs as well": Case(
        None, demand(1, 2, cpus=8), nodes("a", "a"), (using(1, 1, cpus=60),)
    ),
    "a type that is not there": Case(None, demand(1, gpu_type="H100"), nodes("a")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_consolidation_chooses(case: Case) -> None:
    free = Free(make_snapshot(nodes=case.nodes, running=case.running))
    allocations = Consolidate().place(free, case.demand, tuple(case.avoid))
    assert (None if allocations is None else sorted(share.node_id for share in allocations)) == case.expected


def test_a_gang_gets_ranks_in_the_order_of_racks_and_nodes() -> None:
    free = Free(make_snapshot(nodes=nodes("b", "a", "b")))
    allocations = Consolidate().place(free, demand(8, 3), ())
    assert allocations is not None
    assert [(share.rank, share.node_id) for share in allocations] == [(0, 2), (1, 1), (2, 3)]


def test_the_free_gpus_with_the_smallest_indexes_are_given() -> None:
    shuffled = replace(make_node(1), gpus=tuple(reversed(make_node(1).gpus)))
    free = Free(make_snapshot(nodes=[shuffled], running=[make_running(make_share(1, (0, 2)))]))
    assert Consolidate().place(free, demand(3), ()) == (make_share(1, (1, 3, 4)),)


def test_asking_takes_nothing_and_taking_does() -> None:
    free = Free(make_snapshot(nodes=nodes("a")))
    first = Consolidate().place(free, demand(6), ())
    assert first == Consolidate().place(free, demand(6), ())
    assert first is not None
    free.take(first)
    assert (free.gpus("A100"), free.most_on_one_node("A100"), free.nodes_with("A100", 2)) == (2, 2, 1)
    assert Consolidate().place(free, demand(6), ()) is None
    assert Consolidate().place(free, demand(2), ()) == (make_share(1, (6, 7)),)


def test_equal_fits_go_by_id_whatever_was_taken_first() -> None:
    free = Free(make_snapshot(nodes=nodes("a", "a", "a")))
    free.take([make_share(3, range(4)), make_share(1, range(4)), make_share(2, range(4))])
    assert [node.id for node in free.by_fit("A100", 1)] == [1, 2, 3]
