"""Nodes and GPUs that consolidation gives to a gang."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from scheduler.model import Locality, Node, Running
from scheduler.model.request import request_of
from scheduler.placement.consolidate import Consolidate
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from tests.unit.scheduler.factories import make_node, make_running, make_share, make_snapshot
from tests.unit.scheduler.pools import Case, gang, lot, nodes, using


def demand(gpus: int, nodes: int = 1, gpu_type: str | None = "A100", cpus: int = 1, memory_mib: int = 1024) -> Demand:
    return Demand(request_of(gpu_type=gpu_type, gpus=gpus, nodes=nodes, cpus=cpus, memory_mib=memory_mib))


@dataclass(frozen=True)
class Chosen:
    """A demand on a pool, and the ids of the nodes that it gets."""

    expected: list[int] | None
    demand: Demand
    nodes: tuple[Node, ...]
    running: tuple[Running, ...] = ()
    avoid: Iterable[int] = ()


CASES = {
    "an empty pool: the smallest id": Chosen([1], demand(1), nodes("a", "a")),
    "one node: the tightest fit": Chosen([2], demand(2), nodes("a", "a", "a"), (using(1, 3), using(2, 6), using(3, 7))),
    "one node: never the one the job avoids": Chosen([1], demand(2), nodes("a", "a"), (using(2, 6),), avoid=[2]),
    "one node: the avoided one when no other fits": Chosen([2], demand(8), nodes("a", "a"), (using(1, 1),), avoid=[2]),
    "two nodes: one rack before a tighter fit": Chosen(
        [2, 3], demand(4, 2), nodes("a", "b", "b"), (using(1, 4), using(2, 4))
    ),
    "two nodes: the rack where they leave the fewest idle": Chosen(
        [3, 4], demand(4, 2), nodes("a", "a", "b", "b"), (using(1, 2), using(3, 3))
    ),
    "two nodes: equal racks by name": Chosen([3, 4], demand(8, 2), nodes("b", "b", "a", "a")),
    "three nodes: the rack with the most, then the tightest of the rest": Chosen(
        [2, 3, 4], demand(4, 3), nodes("a", "b", "b", "c"), (using(4, 4),)
    ),
    "two nodes: one rack with an avoided node is worth less than none avoided": Chosen(
        [1, 3], demand(8, 2), nodes("a", "a", "b"), avoid=[2]
    ),
    "two nodes: no more avoided ones than it takes": Chosen([1, 3], demand(8, 2), nodes("a", "a", "a"), avoid=[1, 2]),
    "a node that lacks CPUs is passed by": Chosen([2], demand(1, cpus=8), nodes("a", "a"), (using(1, 4, cpus=60),)),
    "a node that lacks memory is passed by": Chosen(
        [2], demand(1, memory_mib=4096), (make_node(1, memory_mib=2048), make_node(2))
    ),
    "a node that takes no jobs is passed by": Chosen([2], demand(1), (make_node(1, schedulable=False), make_node(2))),
    "GPUs that are not healthy are not free": Chosen([2], demand(8), (make_node(1, unhealthy=[0]), make_node(2))),
    "GPUs of another type are not counted": Chosen([2], demand(8), (make_node(1, gpu_type="V100"), make_node(2))),
    "no GPUs: where the fewest GPUs are left idle": Chosen(
        [3], demand(0, gpu_type=None), (*nodes("a", "a"), make_node(3, gpus=0))
    ),
    "no node is large enough": Chosen(None, demand(8), nodes("a", "a"), (using(1, 1), using(2, 1))),
    "not enough nodes": Chosen(None, demand(1, 3), nodes("a", "b")),
    "not enough nodes with the CPUs as well": Chosen(
        None, demand(1, 2, cpus=8), nodes("a", "a"), (using(1, 1, cpus=60),)
    ),
    "a type that is not there": Chosen(None, demand(1, gpu_type="H100"), nodes("a")),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_consolidation_chooses(case: Chosen) -> None:
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


STRUCK = (replace(make_node(1), strikes=2.0), replace(make_node(2), strikes=4.0), replace(make_node(3), strikes=1.0))

MORE = {
    "a lot: the tightest node that holds it": Case([(2, 3)], lot(3), nodes("a", "a"), (using(1, 1), using(2, 5))),
    "a lot: the avoided node when no other holds it": Case([(1, 8)], lot(8), nodes("a"), avoid=[1]),
    "a lot: several nodes before an avoided one": Case(
        [(2, 6), (3, 2)], lot(8), nodes("a", "a", "a"), (using(2, 2), using(3, 2)), avoid=[1]
    ),
    "a lot within a node: the avoided one when no other holds it": Case(
        [(1, 8)], lot(8, Locality.NODE), nodes("a", "a"), (using(2, 1),), avoid=[1]
    ),
    "a lot within a node: none holds it": Case(None, lot(9, Locality.NODE), nodes("a", "a")),
    "a lot on several nodes: the rack with the fewest": Case(
        [(2, 8), (3, 4)], lot(12), nodes("a", "b", "b", "a", "a"), (using(1, 4), using(3, 4), using(4, 4), using(5, 4))
    ),
    "a lot on several nodes: of equal racks, the smaller name": Case(
        [(3, 8), (4, 1)], lot(9), nodes("b", "b", "a", "a")
    ),
    "a lot on several nodes: the last is the tightest that holds the rest": Case(
        [(1, 8), (3, 2)], lot(10), nodes("a", "a", "a"), (using(2, 4), using(3, 6))
    ),
    "a lot within a rack: none has enough": Case(None, lot(9, Locality.RACK), nodes("a", "b")),
    "a lot over racks: the roomiest nodes of the pool": Case(
        [(2, 8), (3, 8), (1, 1)], lot(17), nodes("a", "b", "c"), (using(1, 5),)
    ),
    "a lot over racks: with as few avoided nodes as possible": Case(
        [(3, 8), (1, 2), (2, 2)], lot(12), nodes("a", "b", "c"), (using(1, 6),), avoid=[2]
    ),
    "a lot: more than is free": Case(None, lot(17), nodes("a", "b")),
    "a lot: nodes give what they have CPUs for": Case(
        [(1, 6), (2, 2)], lot(8, cpus=10), nodes("a", "a"), (using(1, 0, cpus=0),)
    ),
    "a lot: not enough CPUs anywhere": Case(None, lot(3, cpus=40), nodes("a", "a")),
    "a gang within a rack: though a gang over racks were tighter": Case(
        [(2, 4), (3, 4)], gang(4, 2, Locality.RACK), nodes("a", "b", "b", "c"), (using(1, 4), using(4, 4))
    ),
    "a gang within a rack: the one with the fewest avoided nodes": Case(
        [(3, 8), (4, 8)], gang(8, 2, Locality.RACK), nodes("a", "a", "b", "b"), avoid=[1]
    ),
    "a gang within a rack: no rack has the nodes": Case(None, gang(1, 2, Locality.RACK), nodes("a", "b")),
    "a gang of several within one node": Case(None, gang(1, 2, Locality.NODE), nodes("a", "a")),
    "a rank within one node": Case([(1, 1)], gang(1, 1, Locality.NODE), nodes("a")),
    "of equals, the fewest strikes": Case([(3, 8)], gang(8), STRUCK),
    "too many strikes are as bad as an avoided node": Case([(1, 3)], gang(3), STRUCK, (using(2, 5), using(3, 6))),
    "a node with too many strikes when no other fits": Case([(2, 8)], gang(8), STRUCK, (using(1, 1), using(3, 1))),
}


@pytest.mark.parametrize("case", MORE.values(), ids=MORE)
def test_consolidation_gives(case: Case) -> None:
    assert case.got(Consolidate()) == case.expected


def test_how_many_strikes_are_too_many_is_a_parameter() -> None:
    case = Case([(2, 3)], gang(3), STRUCK, (using(2, 5), using(3, 6)))
    assert case.got(Consolidate(strikes_limit=5.0)) == case.expected


def test_asking_takes_nothing_and_taking_does() -> None:
    free = Free(make_snapshot(nodes=nodes("a")))
    first = Consolidate().place(free, demand(6), ())
    assert first == Consolidate().place(free, demand(6), ())
    assert first is not None
    free.take(first)
    assert (free.gpus("A100"), free.max_on_one_node("A100"), free.nodes_with("A100", 2)) == (2, 2, 1)
    assert Consolidate().place(free, demand(6), ()) is None
    assert Consolidate().place(free, demand(2), ()) == (make_share(1, (6, 7)),)


def test_equal_fits_go_by_id_whatever_was_taken_first() -> None:
    free = Free(make_snapshot(nodes=nodes("a", "a", "a")))
    free.take([make_share(3, range(4)), make_share(1, range(4)), make_share(2, range(4))])
    assert [node.id for node in free.by_fit("A100", 1)] == [1, 2, 3]
