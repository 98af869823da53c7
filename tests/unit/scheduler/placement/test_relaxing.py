"""Closeness of a job, relaxed the longer it waits."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Job, Locality
from scheduler.model.lifecycle import HoldReason
from scheduler.placement.relaxing import Relaxing
from tests.unit.scheduler.factories import NOW, asking, make_job, make_snapshot
from tests.unit.scheduler.pools import Case, by_rank, lot, nodes, using

RELAXING = Relaxing(node_s=100.0, rack_s=300.0)
PARAMS = {"node_s": 100, "rack_s": 300}


def waiting(waited_s: float, **fields: Any) -> Job:
    return asking(make_job(1, gpus=12, split=True, cpus=0, memory_mib=0, submitted_at=NOW - waited_s), **fields)


LEVELS = {
    "one that just came wants one node": (waiting(0), Locality.NODE, NOW + 100),
    "one moment before its first wait ends": (waiting(99), Locality.NODE, NOW + 1),
    "after its first wait, one rack will do": (waiting(100), Locality.RACK, NOW + 200),
    "one moment before its second wait ends": (waiting(299), Locality.RACK, NOW + 1),
    "after its second wait, anywhere will do": (waiting(300), Locality.ANY, None),
    "it never lies further apart than it asked for": (waiting(300, locality=Locality.RACK), Locality.RACK, None),
    "then it waits only for what it allows": (waiting(0, locality=Locality.RACK), Locality.NODE, NOW + 100),
    "one that asks for one node never relaxes": (waiting(300, locality=Locality.NODE), Locality.NODE, None),
    "one that came back begins anew": (waiting(1000, requeued_at=NOW - 50), Locality.NODE, NOW + 50),
    "a back-off is no waiting": (waiting(1000, eligible_at=NOW - 150), Locality.RACK, NOW + 150),
    "ranks that share no node begin with the rack": (
        waiting(0, split=False, gpus=1, nodes=2),
        Locality.RACK,
        NOW + 300,
    ),
}


@pytest.mark.parametrize(("job", "level", "relaxes_at"), LEVELS.values(), ids=LEVELS)
def test_a_job_gives_in(job: Job, level: Locality, relaxes_at: float | None) -> None:
    assert RELAXING.within(job, NOW) is level
    assert RELAXING.relaxes_at(job, NOW) == relaxes_at


def test_at_the_moment_that_it_names_the_level_has_changed() -> None:
    job = waiting(0.1)  # NOW - 0.1 + 100 - NOW is not 99.9
    moment = RELAXING.relaxes_at(job, NOW)
    assert moment is not None
    assert RELAXING.within(job, moment) is Locality.RACK


@pytest.mark.parametrize(("inside", "node"), [("consolidate", 2), ("best_fit", 2), ("spread", 1)])
def test_another_placement_chooses_among_what_is_close_enough(inside: str, node: int) -> None:
    case = Case([(node, 3)], lot(3, Locality.NODE), nodes("a", "a"), (using(2, 2),))
    assert case.got(Relaxing(inside=inside)) == case.expected


RACKS = nodes("a", "a", "b", "b")
USED = (using(1, 2), using(2, 2), using(3, 2), using(4, 2))  # 6 are free on each node, 12 in each rack
CYCLES = {
    "it waits for one node": (waiting(0, gpus=7), None),
    "it takes one rack after its first wait": (waiting(100, gpus=7), [(1, 6), (2, 1)]),
    "it waits for one rack": (waiting(299, gpus=14), None),
    "it goes anywhere after its second wait": (waiting(300, gpus=14), [(1, 6), (2, 6), (3, 2)]),
    "it does not wait for a node that no pool has": (waiting(0, gpus=12), [(1, 6), (2, 6)]),
    "nor for a rack": (waiting(0, gpus=18), [(1, 6), (2, 6), (3, 6)]),
}


@pytest.mark.parametrize(("job", "expected"), CYCLES.values(), ids=CYCLES)
def test_in_a_cycle(job: Job, expected: list[tuple[int, int]] | None) -> None:
    world = make_snapshot(nodes=RACKS, waiting=[job], running=USED)
    plan = decide(world, CycleConfig(placement="relaxing", placement_params=PARAMS))
    assert (by_rank(plan.places[0].allocations) if plan.places else None) == expected
    assert [hold.reason for hold in plan.holds] == ([HoldReason.FRAGMENTED] if expected is None else [])


def test_a_job_that_may_lie_nowhere_but_on_one_node_is_told_that_none_is_large_enough() -> None:
    job = waiting(1000, gpus=9, locality=Locality.NODE)
    plan = decide(make_snapshot(nodes=RACKS, waiting=[job]), CycleConfig(placement="relaxing"))
    assert [hold.reason for hold in plan.holds] == [HoldReason.INFEASIBLE]
    assert plan.holds[0].detail == "this job needs 9 A100 within one node; at most 8 are possible"


def test_one_that_gave_in_starts_though_an_equal_one_ahead_of_it_still_holds_out() -> None:
    patient, ahead = waiting(200, gpus=7), replace(waiting(50, gpus=7), id=2, priority=1)
    world = make_snapshot(nodes=RACKS, waiting=[patient, ahead], running=USED)
    config = CycleConfig(placement="relaxing", placement_params=PARAMS, policy_params={"skip_blocked": True})
    assert [place.job_id for place in decide(world, config).places] == [1]
