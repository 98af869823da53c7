"""DRF serves the group next with the smallest share of the resource it uses most."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Running, Snapshot, Tenant, VirtualCluster
from scheduler.model.invariants import check
from scheduler.model.plan import Plan, apply
from scheduler.policies.drf import Drf
from tests.profiles import examples
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

GIB = 1024  # in MiB


def config(**params: Any) -> CycleConfig:
    return CycleConfig(policy="drf", policy_params=params, admission="open")


def placed(plan: Plan) -> list[int]:
    return sorted(place.job_id for place in plan.places)


def of_users(world: Snapshot, plan: Plan) -> dict[int, int]:
    """The number of jobs of each user that were placed."""
    owners = [world.waiting_by_id[place.job_id].owner_id for place in plan.places]
    return {owner: owners.count(owner) for owner in sorted(set(owners))}


def test_the_example_of_the_paper_comes_out() -> None:
    # Nine CPUs and 18 GB; each task of user 1 takes <1 CPU, 4 GB>, each of user 2 <3 CPUs, 1 GB> (§4.1).
    jobs = [make_job(n, gpus=0, gpu_type=None, owner_id=1, memory_mib=4 * GIB) for n in range(1, 10)]
    jobs += [make_job(n, gpus=0, gpu_type=None, owner_id=2, cpus=3, memory_mib=GIB) for n in range(11, 20)]
    world = make_snapshot(nodes=[make_node(gpus=0, cpus=9, memory_mib=18 * GIB)], waiting=jobs)
    assert of_users(world, decide(world, config())) == {1: 3, 2: 2}


def jobs_of(owner_id: int, first: int, count: int, **fields: Any) -> list[Job]:
    return [make_job(n, owner_id=owner_id, **fields) for n in range(first, first + count)]


CASES: dict[str, tuple[list[Job], dict[int, int]]] = {
    "equal users get equal parts": ([*jobs_of(1, 1, 9), *jobs_of(2, 11, 9)], {1: 4, 2: 4}),
    "one alone gets all": (jobs_of(1, 1, 9), {1: 8}),
    "who wants less leaves the rest to the other": ([*jobs_of(1, 1, 9), *jobs_of(2, 11, 2)], {1: 6, 2: 2}),
    "large jobs count for what they are": ([*jobs_of(1, 1, 9, gpus=2), *jobs_of(2, 11, 9)], {1: 2, 2: 4}),
    "a job that does not fit is passed by a smaller one of the same user": (
        [make_job(1, gpus=9, nodes=1, owner_id=1), make_job(2, gpus=7, owner_id=1), *jobs_of(2, 11, 2)],
        {1: 1, 2: 1},
    ),
    # 16 of 64 CPUs are a quarter of all, a single GPU is an eighth.
    "what is used most counts, not what is called for": (
        [*jobs_of(1, 1, 9, cpus=16), *jobs_of(2, 11, 9, cpus=0)],
        {1: 3, 2: 5},
    ),
}


@pytest.mark.parametrize(("jobs", "expected"), CASES.values(), ids=CASES)
def test_users_get_equal_dominant_shares(jobs: list[Job], expected: dict[int, int]) -> None:
    world = make_snapshot(waiting=jobs)
    assert of_users(world, decide(world, config())) == expected


def test_what_runs_counts() -> None:
    world = make_snapshot(
        running=[make_running(make_share(1, range(4)), owner_id=1)], waiting=[*jobs_of(1, 1, 9), *jobs_of(2, 11, 9)]
    )
    assert of_users(world, decide(world, config())) == {2: 4}


def test_within_a_user_the_priority_counts_and_then_the_submission() -> None:
    world = make_snapshot(waiting=[*jobs_of(1, 1, 8), make_job(9, owner_id=1, priority=1)])
    assert placed(decide(world, config())) == [1, 2, 3, 4, 5, 6, 7, 9]


OVER: dict[str, tuple[str, dict[int, int]]] = {
    "users": ("user", {1: 3, 2: 3, 3: 2}),
    "virtual clusters": ("vc", {1: 2, 2: 2, 3: 4}),  # users 1 and 2 share one
    "tenants by their weight": ("tenant", {1: 3, 2: 3, 3: 2}),  # the first of which has weight 3
}


@pytest.mark.parametrize(("over", "expected"), OVER.values(), ids=OVER)
def test_shares_are_those_of_users_or_virtual_clusters_or_tenants(over: str, expected: dict[int, int]) -> None:
    world = make_snapshot(
        waiting=[*jobs_of(1, 1, 9), *jobs_of(2, 11, 9), *jobs_of(3, 21, 9, vc_id=2, tenant_id=2)],
        vcs=[make_vc(1), VirtualCluster(2, 2, "speech", {})],
    )
    weight = 3.0 if over == "tenant" else 1.0
    world = replace(world, tenants=(Tenant(1, "lab", weight), Tenant(2, "other", 1.0)))
    # Users 1 and 2 submitted at the same times, so that they alternate within a group.
    alternate = tuple(replace(job, submitted_at=NOW - 99 + job.id % 10) for job in world.waiting)
    assert of_users(world, decide(replace(world, waiting=alternate), config(over=over))) == expected


def run_of(owner_id: int, attempt_id: int, indexes: range, **fields: Any) -> Running:
    return make_running(make_share(1, indexes), attempt_id=attempt_id, owner_id=owner_id, **fields)


def test_no_job_is_preempted_by_default() -> None:
    world = make_snapshot(running=[run_of(1, 1, range(8))], waiting=jobs_of(2, 1, 1))
    assert decide(world, config()).preempts == ()


PREEMPTED: dict[str, tuple[list[Running], list[Job], float, list[int]]] = {
    "the newest of who holds the most, while they hold no less than the taker": (
        [run_of(1, n, range(n - 1, n)) for n in range(1, 9)],
        jobs_of(2, 11, 9),
        1.0,
        [1008],
    ),
    "not if they would hold less": ([run_of(1, 1, range(8))], jobs_of(2, 11, 9), 1.0, []),
    "no more than may go at a time": ([run_of(1, 1, range(4)), run_of(1, 2, range(4, 8))], jobs_of(2, 11, 1), 0.4, []),
    "as much as may go at a time": (
        [run_of(1, 1, range(4)), run_of(1, 2, range(4, 8))],
        jobs_of(2, 11, 1),
        0.5,
        [1002],
    ),
    "not what may not be preempted": (
        [run_of(1, 1, range(4)), run_of(1, 2, range(4, 8), preemptible=False)],
        jobs_of(2, 11, 1),
        1.0,
        [1001],
    ),
}


@pytest.mark.parametrize(("running", "waiting", "share", "expected"), PREEMPTED.values(), ids=PREEMPTED)
def test_who_holds_more_is_preempted(
    running: list[Running], waiting: list[Job], share: float, expected: list[int]
) -> None:
    # Of jobs with equal requests, one preempts others in each cycle.
    world = make_snapshot(running=running, waiting=waiting)
    plan = decide(world, config(preemption_share=share))
    assert [preempt.job_id for preempt in plan.preempts] == expected


def test_no_preemption_is_reversed() -> None:
    world = make_snapshot(running=[run_of(1, n, range(n - 1, n)) for n in range(1, 9)], waiting=jobs_of(2, 11, 9))
    for _ in range(8):
        world = apply(world, decide(world, config(preemption_share=1)))
        gone = [run for run in world.running if run.stopping]
        back = tuple(run.job for run in gone)
        world = replace(
            world, running=tuple(run for run in world.running if not run.stopping), waiting=world.waiting + back
        )
    owners = [run.job.owner_id for run in world.running]
    assert (owners.count(1), owners.count(2)) == (4, 4)
    assert decide(world, config(preemption_share=1)).preempts == ()


def test_the_order_is_the_one_in_which_shares_fill() -> None:
    world = make_snapshot(waiting=[*jobs_of(1, 1, 2, gpus=2), *jobs_of(2, 11, 4)])
    assert [job.id for job in Drf().order(world)] == [1, 11, 12, 2, 13, 14]


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 2), st.integers(0, 40)), max_size=12),
    st.sampled_from(["user", "tenant", "vc"]),
    st.sampled_from([0, 0.5, 1]),
)
def test_a_plan_never_breaks_the_law(
    drawn: list[tuple[int, int, int, int]], over: str, preemption_share: float
) -> None:
    jobs = [
        make_job(n, owner_id=owner, gpus=gpus, nodes=nodes, cpus=cpus, gpu_type="A100" if gpus else None)
        for n, (owner, gpus, nodes, cpus) in enumerate(drawn, start=1)
    ]
    chosen = config(over=over, preemption_share=preemption_share)
    world = make_snapshot(nodes=[make_node(1, gpus=4), make_node(2, gpus=4)], waiting=jobs[:6])
    world = apply(world, decide(world, chosen))
    world = replace(world, waiting=(*world.waiting, *jobs[6:]), now=NOW + 100)
    plan = decide(world, chosen)
    assert check(world, plan, compose(chosen).admission) == ()
    answered = [place.job_id for place in plan.places] + [hold.job_id for hold in plan.holds]
    assert sorted(answered) == sorted(job.id for job in world.waiting)
