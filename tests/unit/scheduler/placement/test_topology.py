"""GPUs of a node for a rank, where the links between them are known."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import AllocationView, Node, Running
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free
from scheduler.placement.topology.placement import Topology
from scheduler.placement.topology.subsets import best_subset
from tests.profiles import examples
from tests.unit.scheduler.factories import make_node, make_running, make_share, make_snapshot
from tests.unit.scheduler.pools import gang, lot

Links = tuple[tuple[int, ...], ...]


def cliques(*sizes: int, inside: int = 4, between: int = 1) -> Links:
    """Cliques of neighbouring indexes."""
    member = [clique for clique, size in enumerate(sizes) for _ in range(size)]
    return tuple(
        tuple(0 if a == b else inside if member[a] == member[b] else between for b in range(len(member)))
        for a in range(len(member))
    )


# 0-1 and 2-3 are pairs of two links, 1-2 has one.
CHAIN: Links = ((0, 2, 0, 0), (2, 0, 1, 0), (0, 1, 0, 2), (0, 0, 2, 0))
CASES = {
    "a clique when one is free": (cliques(4, 4), (1, 4, 5, 6, 7), 4, (4, 5, 6, 7)),
    "a pair from one clique": (cliques(4, 4), (3, 4, 5), 2, (4, 5)),
    "a pair from the clique that is broken already": (cliques(4, 4), (0, 1, 2, 3, 4, 5), 2, (4, 5)),
    "a single GPU that is in no clique": (cliques(4, 4), (0, 1, 4), 1, (4,)),
    "of equal sets, the smallest indexes": (cliques(4, 4), (0, 1, 2, 3, 4, 5, 6, 7), 4, (0, 1, 2, 3)),
    "the worst link counts before the sum": (((0, 9, 0), (9, 0, 1), (0, 1, 0)), (0, 1, 2), 3, (0, 1, 2)),
    "a pair, not the middle": (CHAIN, (0, 1, 2, 3), 2, (0, 1)),
    "all that are free": (CHAIN, (0, 2, 3), 3, (0, 2, 3)),
    "without a matrix, the smallest indexes": ((), (2, 3, 5), 2, (2, 3)),
    "indexes beyond the matrix are linked to no GPU": (CHAIN, (2, 3, 8, 9), 2, (2, 3)),
    "the upper half of the matrix is read": (((0, 1, 5), (0, 0, 0), (0, 0, 0)), (0, 1, 2), 2, (0, 2)),
    "among sixteen, a clique of four": (
        cliques(4, 4, 4, 4),
        (0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13),
        4,
        (8, 9, 10, 11),
    ),
    "among sixteen, one from the smallest rest": (cliques(4, 4, 4, 4), (0, 1, 2, 3, 4, 5, 6, 7, 8), 1, (8,)),
}


@pytest.mark.parametrize(("links", "indexes", "size", "expected"), CASES.values(), ids=CASES)
def test_the_best_set_is(links: Links, indexes: tuple[int, ...], size: int, expected: tuple[int, ...]) -> None:
    assert tuple(indexes[position] for position in best_subset(links, indexes, size)[1]) == expected


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=6, max_size=6), st.integers(1, 6))
def test_no_set_of_a_small_node_has_better_links(rows: list[list[int]], size: int) -> None:
    links = tuple(map(tuple, rows))

    def inside(subset: tuple[int, ...]) -> tuple[int, int]:
        found = [links[a][b] for a, b in combinations(subset, 2)]
        return min(found, default=0), sum(found)

    score, chosen = best_subset(links, tuple(range(6)), size)
    assert len(chosen) == size
    assert inside(chosen) == score[:2] == max(inside(subset) for subset in combinations(range(6), size))


def place(demand: Demand, *running: Running, nodes: tuple[Node, ...], placement: Topology | None = None) -> object:
    free = Free(make_snapshot(nodes=nodes, running=running))
    return (placement or Topology()).place(free, demand, ())


LINKED = tuple(replace(make_node(node_id), links=cliques(4, 4)) for node_id in (1, 2, 3))


def test_a_rank_gets_linked_gpus() -> None:
    held = make_running(make_share(1, (0, 1, 2)))
    assert place(gang(1), held, nodes=LINKED) == (make_share(1, (3,)),)
    assert place(gang(3), held, nodes=LINKED) == (make_share(1, (4, 5, 6)),)


def test_each_rank_of_a_gang_gets_linked_gpus() -> None:
    held = make_running(make_share(1, (0,)), make_share(2, (4,), rank=1))
    assert place(gang(4, 2), held, nodes=LINKED[:2]) == (
        make_share(1, (4, 5, 6, 7)),
        make_share(2, (0, 1, 2, 3), rank=1),
    )


def test_of_equally_tight_nodes_the_one_with_the_better_links_is_taken() -> None:
    torn, whole = make_running(make_share(1, (0, 1, 4, 5))), make_running(make_share(2, (0, 1, 2, 3)), attempt_id=2)
    assert place(gang(4), torn, whole, nodes=LINKED) == (make_share(2, (4, 5, 6, 7)),)
    assert place(gang(2), torn, whole, nodes=LINKED) == (make_share(1, (2, 3)),)


def test_a_lot_that_is_split_is_linked_on_each_node() -> None:
    held = make_running(make_share(1, (0, 1)), make_share(2, (3, 4, 5, 6), rank=1))
    shares = place(lot(9), held, nodes=LINKED[:2])
    assert shares == (
        AllocationView(1, 0, (102, 103, 104, 105, 106, 107), 0, 0),
        AllocationView(2, 1, (200, 201, 202), 0, 0),
    )


def test_nodes_without_a_matrix_give_their_smallest_indexes() -> None:
    nodes = (make_node(1), *LINKED[1:])
    assert place(gang(2), make_running(make_share(1, (0, 1))), nodes=nodes) == (make_share(1, (2, 3)),)


@pytest.mark.parametrize(("inside", "node"), [("consolidate", 1), ("spread", 2)])
def test_the_placement_inside_chooses_the_node(inside: str, node: int) -> None:
    shares = place(gang(2), make_running(make_share(1, (0,))), nodes=LINKED[:2], placement=Topology(inside=inside))
    assert isinstance(shares, tuple)
    assert [share.node_id for share in shares] == [node]
