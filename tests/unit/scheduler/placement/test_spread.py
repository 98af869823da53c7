"""Nodes that spreading gives to a gang, and to a lot that may be split."""

from dataclasses import replace

import pytest

from scheduler.model import Locality
from scheduler.placement.spread import Spread
from tests.unit.scheduler.factories import make_node
from tests.unit.scheduler.pools import Case, gang, lot, nodes, using

CASES = {
    "one node: the emptiest": Case([(2, 2)], gang(2), nodes("a", "a"), (using(1, 1),)),
    "one node: of equals, the smallest id": Case([(1, 2)], gang(2), nodes("a", "a")),
    "one node: rather a full one than one to avoid": Case([(2, 2)], gang(2), nodes("a", "a"), (using(2, 6),), [1]),
    "one node: the avoided one when no other fits": Case([(1, 2)], gang(2), nodes("a", "a"), (using(2, 7),), [1]),
    "one node: the emptiest with the CPUs as well": Case(
        [(2, 2)], gang(2, cpus=9), nodes("a", "a"), (using(1, 1, 60), using(2, 2))
    ),
    "two nodes: two racks before emptier nodes": Case(
        [(1, 2), (3, 2)], gang(2, 2), nodes("a", "a", "b"), (using(3, 5),)
    ),
    "three nodes: two racks, and the emptiest of the rest": Case(
        [(1, 2), (4, 2), (3, 2)], gang(2, 3), nodes("a", "a", "a", "b"), (using(2, 1),)
    ),
    "two nodes: one rack with none to avoid before two racks": Case(
        [(1, 2), (2, 2)], gang(2, 2), nodes("a", "a", "b"), avoid=[3]
    ),
    "two nodes: no more to avoid than it takes": Case([(2, 2), (1, 2)], gang(2, 2), nodes("a", "b"), avoid=[1]),
    "two nodes within a rack: the rack of the emptiest node": Case(
        [(3, 2), (4, 2)], gang(2, 2, Locality.RACK), nodes("a", "a", "b", "b"), (using(1, 1), using(2, 1))
    ),
    "two nodes within a rack: none is large enough": Case(None, gang(2, 2, Locality.RACK), nodes("a", "b")),
    "two nodes within one node: never": Case(None, gang(2, 2, Locality.NODE), nodes("a", "a")),
    "no GPUs: where the most are free": Case([(2, 0)], gang(0), nodes("a", "a"), (using(1, 1),)),
    "no GPUs: a node that has none will do": Case([(1, 0)], gang(0), (make_node(1, gpus=0),)),
    "a lot: all that the emptiest has, then the next": Case(
        [(3, 8), (1, 4)], lot(12), nodes("a", "a", "b"), (using(1, 2), using(2, 3))
    ),
    "a lot: of equals, the smallest id": Case([(1, 8), (2, 2)], lot(10), nodes("b", "a", "a")),
    "a lot: avoided nodes last": Case([(2, 4), (1, 2)], lot(6), nodes("a", "a"), (using(2, 4),), [1]),
    "a lot: as much as there are CPUs for": Case([(1, 3), (2, 5)], lot(8, cpus=8), nodes("a", "a"), (using(1, 0, 40),)),
    "a lot within a node: the emptiest": Case([(2, 5)], lot(5, Locality.NODE), nodes("a", "a"), (using(1, 1),)),
    "a lot within a node: none has room": Case(None, lot(9, Locality.NODE), nodes("a", "a")),
    "a lot within a rack: the rack of the emptiest node": Case(
        [(2, 8), (3, 1)], lot(9, Locality.RACK), nodes("a", "b", "b", "a"), (using(1, 1), using(3, 4), using(4, 1))
    ),
    "a lot within a rack: the next rack when the first has too few": Case(
        [(2, 7), (3, 7)], lot(14, Locality.RACK), nodes("a", "b", "b"), (using(2, 1), using(3, 1))
    ),
    "a lot within a rack: none has room": Case(None, lot(9, Locality.RACK), nodes("a", "b")),
    "a lot: too few are free": Case(None, lot(17), nodes("a", "b")),
    "of equals, the fewest strikes": Case(
        [(2, 1)],
        gang(1),
        (replace(make_node(1), strikes=0.5), make_node(2)),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_spreading_chooses(case: Case) -> None:
    assert case.got(Spread()) == case.expected
