"""Nodes that best fit gives to a gang."""

from dataclasses import replace

import pytest

from scheduler.model import Locality
from scheduler.placement.best_fit import BestFit
from tests.unit.scheduler.factories import make_node
from tests.unit.scheduler.pools import Case, gang, lot, nodes, using

CASES = {
    "one node: the fewest GPUs left": Case([(2, 2)], gang(2), nodes("a", "a"), (using(1, 1), using(2, 2))),
    "one node: of equals, one that is in use": Case(
        [(2, 2)], gang(2), (make_node(1, gpus=4), make_node(2)), (using(2, 4),)
    ),
    "one node: of equals in use, the fewest CPUs left": Case(
        [(2, 2)], gang(2), nodes("a", "a"), (using(1, 2, cpus=8), using(2, 2, cpus=9))
    ),
    "one node: then the least memory left": Case(
        [(2, 2)], gang(2), nodes("a", "a"), (using(1, 2, memory_mib=1), using(2, 2, memory_mib=2))
    ),
    "one node: then the fewest strikes": Case([(2, 2)], gang(2), (replace(make_node(1), strikes=1.0), make_node(2))),
    "one node: then the smallest id": Case([(1, 2)], gang(2), nodes("a", "a")),
    "one node: not one that the job avoids": Case([(1, 2)], gang(2), nodes("a", "a"), (using(2, 4),), avoid=[2]),
    "one node: the avoided one when no other fits": Case([(1, 8)], gang(8), nodes("a", "a"), (using(2, 1),), avoid=[1]),
    "two nodes: the tightest, whatever their racks": Case(
        [(1, 4), (2, 4)], gang(4, 2), nodes("a", "b", "b"), (using(1, 4), using(2, 4))
    ),
    "two nodes within a rack: where they leave the fewest idle": Case(
        [(2, 4), (3, 4)], gang(4, 2, Locality.RACK), nodes("a", "b", "b", "a"), (using(1, 4), using(2, 4), using(3, 1))
    ),
    "no GPUs: the fewest CPUs left": Case([(2, 0)], gang(0), nodes("a", "a"), (using(2, 0, cpus=5),)),
    "a lot on one node: the fewest CPUs left": Case(
        [(2, 2)], lot(2), nodes("a", "a"), (using(1, 2), using(2, 2, cpus=9))
    ),
    "a lot on several nodes: as few as possible": Case(
        [(3, 8), (2, 1)], lot(9), nodes("a", "a", "a"), (using(1, 5), using(2, 6))
    ),
    "no room": Case(None, gang(8), nodes("a"), (using(1, 1),)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_best_fit_chooses(case: Case) -> None:
    assert case.got(BestFit()) == case.expected
