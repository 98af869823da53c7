"""GPUs that two jobs share: who may, where there is room, and what a virtual cluster is charged for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.admission import Ledger
from scheduler.engine.context import CycleContext
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.engine.state import SchedulerState
from scheduler.model import HALF, SLOTS, AllocationView, Job, Locality, Reservation, Running, Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import JobClass
from scheduler.model.sharing import SharedGpuIndex, may_share
from scheduler.placement.colocate import colocate
from scheduler.placement.free import Free
from tests.unit.scheduler.factories import (
    NOW,
    make_job,
    make_node,
    make_packing,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

GPU = make_node().gpus[0]  # of 80 GiB
FULL = 80 * 1024


@pytest.mark.parametrize(
    ("jobs", "allowed"),
    [
        pytest.param([make_job(1)], True, id="one alone"),
        pytest.param([make_packing(1), make_packing(2)], True, id="two that need half of its memory each"),
        pytest.param([make_packing(1), make_job(2)], False, id="one that shares and one that does not"),
        pytest.param([make_packing(1), make_packing(2, vc_id=2)], False, id="two of two virtual clusters"),
        pytest.param(
            [make_packing(1), make_packing(2, job_class=JobClass.OPPORTUNISTIC)], False, id="two of two classes"
        ),
        pytest.param([make_packing(1), make_packing(2, gpu_memory_mib=None)], False, id="one whose memory is unknown"),
        pytest.param(
            [make_packing(1, gpu_memory_mib=1), make_packing(2, gpu_memory_mib=FULL)], False, id="more than its memory"
        ),
        pytest.param(
            [make_packing(1, gpu_memory_mib=0), make_packing(2, gpu_memory_mib=FULL)], True, id="exactly its memory"
        ),
        pytest.param([make_packing(number, gpu_memory_mib=1) for number in (1, 2, 3)], False, id="three"),
    ],
)
def test_who_may_be_on_one_gpu(jobs: list[Job], allowed: bool) -> None:
    assert may_share(GPU, jobs) is allowed
    assert may_share(GPU, reversed(jobs)) is allowed


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([HALF, SLOTS]))))
def test_the_first_job_on_a_gpu_and_the_last_to_leave_are_reported(steps: list[tuple[int, int]]) -> None:
    partly, there = SharedGpuIndex(), dict[int, list[int]]()
    for gpu_id, slots in steps:
        here = there.setdefault(gpu_id, [])
        if sum(here) + slots <= SLOTS:
            assert partly.take(gpu_id, slots) is (not here)
            here.append(slots)
        elif here:
            assert partly.give(gpu_id, here.pop()) is (not here)
        partial = sum(here) if SLOTS not in here else 0
        assert partly.free_slots(gpu_id) == (SLOTS - partial if partial else 0)
    assert partly.full() == sorted(gpu_id for gpu_id, here in there.items() if here == [HALF, HALF])


def host(*shares: AllocationView, attempt_id: int = 5, **fields: Any) -> Running:
    shares = tuple(replace(share, slots=HALF) for share in shares)
    gpus = len(shares[0].gpu_ids)
    job = make_packing(attempt_id, gpus=gpus, nodes=len(shares), **fields)
    return make_running(*shares, attempt_id=attempt_id, job=job)


@dataclass(frozen=True)
class Case:
    """A job, who runs, and the indexes of the GPUs by node that it gets beside the first of them."""

    job: Job
    running: tuple[Running, ...]
    found: list[tuple[int, tuple[int, ...]]] | None
    within: Locality = Locality.ANY
    reservations: tuple[Reservation, ...] = ()


ONE = host(make_share(1, (3,)))
PAIR = host(make_share(1, (0, 1)), make_share(2, (6, 7), rank=1))
CASES = {
    "on the GPU of one like it": Case(make_packing(1), (ONE,), [(1, (103,))]),
    "on all the GPUs of a gang like it": Case(
        make_packing(1, gpus=2, nodes=2), (PAIR,), [(1, (100, 101)), (2, (206, 207))]
    ),
    "a lot lies as the other one does": Case(
        make_packing(1, gpus=4, split=True), (PAIR,), [(1, (100, 101)), (2, (206, 207))]
    ),
    "nor where the other one is too far apart": Case(
        make_packing(1, gpus=4, split=True), (PAIR,), None, within=Locality.NODE
    ),
    "not beside a gang of another shape": Case(make_packing(1, gpus=4), (PAIR,), None),
    "not beside one of another size": Case(make_packing(1, gpus=2), (ONE,), None),
    "not on GPUs of another type": Case(make_packing(1, gpu_type="V100"), (ONE,), None),
    "not when it does not want to": Case(make_job(1), (ONE,), None),
    "not beside one that grows and shrinks": Case(make_packing(1), (host(make_share(1, (3,)), max_gpus=4),), None),
    "not beside one that stops": Case(make_packing(1), (replace(ONE, state=ONE.state.STOPPING),), None),
    "not where two are already": Case(make_packing(1), (ONE, host(make_share(1, (3,)), attempt_id=6)), None),
    "not where the node lacks memory": Case(make_packing(1, memory_mib=512 * 1024), (ONE,), None),
    "not on GPUs that are kept for others": Case(
        make_packing(1), (ONE,), None, reservations=(Reservation(9, (make_share(1, (3,)),), NOW + 60),)
    ),
}


def world_of(case: Case) -> Snapshot:
    world = make_snapshot(nodes=[make_node(1), make_node(2)], waiting=[case.job], running=case.running)
    return replace(world, reservations=case.reservations)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_place_beside_another_job(case: Case) -> None:
    world = world_of(case)
    context = CycleContext(
        SchedulerState(world),
        compose(CycleConfig()).admission,
        compose(CycleConfig()).placement,
        max_places=9,
        explain=False,
    )
    demand = context.demands(case.job)[0].relaxed(case.within)
    found = colocate(world, context.state.free, case.job, demand, case.running[0])
    assert (found and [(share.node_id, share.gpu_ids) for share in found]) == case.found


def test_a_gpu_with_one_that_shares_is_not_free_but_has_room() -> None:
    free = Free(make_snapshot(running=[host(make_share(1, (0,)))]))
    assert free.gpus("A100") == 7
    assert (free.room_on(100), free.room_on(101)) == (HALF, 0)
    assert not free.can_take([make_share(1, (0,))])
    assert free.can_take([make_share(1, (0,), slots=HALF)])


def test_a_gpu_comes_free_with_the_last_of_those_who_share_it() -> None:
    half = [make_share(1, (0,), slots=HALF)]
    free = Free(make_snapshot(running=[host(make_share(1, (0,)))]))
    free.take(half)
    assert list(free.shared) == [100]
    free.give(half)
    assert (free.gpus("A100"), free.room_on(100)) == (7, HALF)
    free.give(half)
    assert (free.gpus("A100"), free.room_on(100)) == (8, 0)


def test_a_virtual_cluster_is_charged_once_for_a_gpu_that_two_of_its_jobs_share() -> None:
    first, second = host(make_share(1, (0,))), host(make_share(1, (0,)), attempt_id=6)
    world = make_snapshot(running=[first, second, make_running(make_share(1, (1,)), attempt_id=7)])
    assert world.held_by_vc == {(1, "A100"): 2}
    assert world.holders_of_gpu == {100: (5, 6), 101: (1007,)}
    ledger = Ledger(world)
    ledger.give(first.job, first.allocations)
    assert ledger.usage[1, "A100"] == 2
    ahead = ledger.copy()
    ahead.give(second.job, second.allocations)
    assert ahead.usage[1, "A100"] == 1
    ahead.take(first.job, first.allocations)
    assert ahead.usage[1, "A100"] == 2
    assert ledger.usage[1, "A100"] == 2


def test_what_opportunistic_jobs_share_is_on_loan_once() -> None:
    pair = [host(make_share(1, (0,)), attempt_id=number, job_class=JobClass.OPPORTUNISTIC) for number in (5, 6)]
    assert Ledger(make_snapshot(running=pair)).usage == {(1, "A100"): 1, (-1, "A100"): 1}


PREEMPTIVE = CycleConfig(policy="priority", policy_params={"preemptive": True})


def pair_of(**fields: Any) -> list[Running]:
    return [host(make_share(1, (0,)), attempt_id=number, **fields) for number in (5, 6)]


@pytest.mark.parametrize("vc_id", [1, 2])
def test_a_job_that_takes_a_gpu_from_a_pair_preempts_both(vc_id: int) -> None:
    winner = make_packing(9, priority=1, vc_id=vc_id)
    vcs = [make_vc(), make_vc(2, "speech")]
    world = make_snapshot(nodes=[make_node(1, gpus=1)], waiting=[winner], running=pair_of(), vcs=vcs)
    plan = decide(world, PREEMPTIVE)
    assert check(world, plan, compose(PREEMPTIVE).admission) == ()
    assert ([place.job_id for place in plan.places], [one.job_id for one in plan.preempts]) == ([9], [5, 6])


def test_of_a_pair_that_was_let_go_in_vain_both_stay_though_their_quota_is_used_up() -> None:
    winner = make_job(9, gpus=1, nodes=2, priority=1)
    single = make_running(make_share(2, (0,)), attempt_id=7, priority=0)
    nodes = [make_node(1, gpus=2), make_node(2, gpus=1)]
    vcs = [make_vc(quotas={"A100": 3})]
    world = make_snapshot(nodes=nodes, waiting=[winner], running=[*pair_of(), single], vcs=vcs)
    plan = decide(world, PREEMPTIVE)
    assert check(world, plan, compose(PREEMPTIVE).admission) == ()
    assert [one.job_id for one in plan.preempts] == [1007]
