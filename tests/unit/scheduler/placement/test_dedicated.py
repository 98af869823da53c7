"""Jobs that may share a node, where large jobs are kept apart."""

from dataclasses import dataclass, field

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Locality
from scheduler.model.lifecycle import HoldReason
from scheduler.placement import PLACEMENTS
from scheduler.placement.dedicated import Dedicated
from scheduler.placement.free import Free
from tests.unit.scheduler.factories import make_job, make_running, make_share, make_snapshot
from tests.unit.scheduler.pools import Case, by_rank, gang, lot, nodes, spanning, using

BY_SIZE = Dedicated(from_gpus=4, distributed=False)
WHOLE = Dedicated(whole_nodes=True)


@dataclass(frozen=True)
class Rules(Case):
    """A case under other rules than the usual ones."""

    rules: Dedicated = field(default_factory=Dedicated)


CASES = {
    "a distributed job keeps away from another": Rules(
        [(2, 2), (3, 2)], gang(2, 2), nodes("a", "a", "a"), (spanning(9, 1, 4),)
    ),
    "a distributed job shares with small ones": Rules(
        [(1, 2), (2, 2)], gang(2, 2), nodes("a", "a"), (using(1, 4), using(2, 4))
    ),
    "a small job shares with a distributed one": Rules([(1, 2)], gang(2), nodes("a", "a"), (spanning(9, 1, 4),)),
    "a distributed job waits when all nodes have another": Rules(
        None, gang(2, 2), nodes("a", "a", "a"), (spanning(9, 1, 2),)
    ),
    "a job on one node is not distributed": Rules([(1, 6)], gang(6), nodes("a", "a"), (spanning(9, 1, 2),)),
    "a gang without GPUs is not large": Rules([(1, 0), (2, 0)], gang(0, 2), nodes("a", "a"), (spanning(9, 1, 2),)),
    "a lot is small while one node holds it": Rules([(1, 6)], lot(6), nodes("a", "a"), (spanning(9, 1, 2),)),
    "a lot over several nodes is distributed": Rules(
        [(3, 8), (4, 2)], lot(10), nodes("a", "a", "a", "a"), (spanning(9, 1, 2),)
    ),
    "a lot over several nodes waits": Rules(None, lot(10), nodes("a", "a", "a"), (spanning(9, 1, 2),)),
    "a lot that must lie on one node never becomes distributed": Rules(
        None, lot(8, Locality.NODE), nodes("a", "a"), (using(1, 1), using(2, 1))
    ),
    "a large job keeps away from another": Rules([(2, 4)], gang(4), nodes("a", "a"), (using(1, 4),), rules=BY_SIZE),
    "a small job shares with a large one": Rules([(1, 3)], gang(3), nodes("a", "a"), (using(1, 4),), rules=BY_SIZE),
    "a large job shares with small ones": Rules([(1, 4)], gang(4), nodes("a", "a"), (using(1, 3),), rules=BY_SIZE),
    "several nodes may make no job large": Rules(
        [(1, 3)], lot(3), nodes("a"), (spanning(9, 1, 4, gpus=1),), rules=BY_SIZE
    ),
    "whole nodes: a large job takes empty ones": Rules(
        [(2, 2), (3, 2)], gang(2, 2), nodes("a", "a", "a"), (using(1, 1),), rules=WHOLE
    ),
    "whole nodes: a large job waits for empty ones": Rules(
        None, gang(2, 2), nodes("a", "a"), (using(1, 1),), rules=WHOLE
    ),
    "whole nodes: a small job keeps away from large ones": Rules(
        [(3, 2)], gang(2), nodes("a", "a", "a"), (spanning(9, 1, 2),), rules=WHOLE
    ),
    "whole nodes: a small job waits": Rules(None, gang(2), nodes("a", "a"), (spanning(9, 1, 2),), rules=WHOLE),
    "whole nodes: small jobs share": Rules([(1, 2)], gang(2), nodes("a", "a"), (using(1, 1),), rules=WHOLE),
    "whole nodes: a lot becomes large only where it must": Rules(
        [(3, 7)], lot(7), nodes("a", "a", "a"), (spanning(9, 1, 2), using(3, 1)), rules=WHOLE
    ),
    "inside, another placement chooses": Rules(
        [(2, 1)], gang(1), nodes("a", "a"), (using(1, 1),), rules=Dedicated(inside="spread")
    ),
    "an avoided node is still a last choice": Rules(
        [(2, 2), (3, 2)], gang(2, 2), nodes("a", "a", "a"), (using(1, 4),), avoid=[1]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_large_jobs_are_kept_apart(case: Rules) -> None:
    assert case.got(case.rules) == case.expected


def test_guests_come_and_go_with_what_they_hold() -> None:
    free = Free(make_snapshot(nodes=nodes("a", "a", "a", "a")))
    first = Dedicated().place(free, gang(2, 2), ())
    assert by_rank(first) == [(1, 2), (2, 2)]
    assert first is not None
    free.take(first)
    assert by_rank(Dedicated().place(free, gang(2, 2), ())) == [(3, 2), (4, 2)]
    free.give(first)
    assert Dedicated().place(free, gang(2, 2), ()) == first


def test_a_job_that_is_kept_from_free_gpus_is_told_why() -> None:
    world = make_snapshot(
        nodes=nodes("a", "a"),
        waiting=[make_job(1, gpus=2, nodes=2), make_job(2, gpus=10, split=True, cpus=0, memory_mib=0)],
        running=[make_running(make_share(1, range(2)), make_share(2, range(2), 1))],
    )
    plan = decide(world, CycleConfig(placement="dedicated", policy_params={"skip_blocked": True}))
    assert [(hold.job_id, hold.reason) for hold in plan.holds] == [
        (1, HoldReason.FRAGMENTED),
        (2, HoldReason.FRAGMENTED),
    ]
    assert {hold.detail for hold in plan.holds} == {
        "12 A100 are free, but too few on nodes that this job may share with their jobs"
    }


def test_it_is_found_by_its_name_with_its_parameters() -> None:
    params = {"from_gpus": 8, "distributed": False, "whole_nodes": True, "inside": "best_fit", "strikes_limit": 2}
    assert PLACEMENTS.make("dedicated", params) == Dedicated(
        from_gpus=8, distributed=False, whole_nodes=True, inside="best_fit", strikes_limit=2
    )
