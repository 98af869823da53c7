"""Reservations while others stop: bound once they are free, and let go once they cannot be had."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.admission.quota import Quota
from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Node, Reservation, Running, Snapshot, VirtualCluster
from scheduler.model.invariants import awaits_preemption, check
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.plan import Place, Plan, Preempt, apply, blocking_jobs, release
from tests.unit.scheduler.factories import (
    NOW,
    asking,
    make_job,
    make_node,
    make_running,
    make_share,
    make_snapshot,
    make_vc,
)

PAIR = make_share(1, (0, 1))
PAIR_JOB = make_job(1, gpus=2)


def stopping(run: Running) -> Running:
    return replace(run, state=AttemptState.STOPPING)


@dataclass(frozen=True)
class Case:
    """Two GPUs of node 1 are kept for job 1, which wants two; `then` is what becomes of it."""

    then: str
    job: Job = PAIR_JOB
    running: tuple[Running, ...] = ()
    nodes: tuple[Node, ...] = (make_node(1, gpus=2), make_node(2, gpus=2))
    vcs: tuple[VirtualCluster, ...] = (make_vc(),)
    until: float = NOW + 60


CASES = {
    "no job holds it any more": Case("bound"),
    "one who stops holds part of it": Case("kept", running=(stopping(make_running(make_share(1, (1,)))),)),
    "one who stops holds the CPUs that it needs": Case(
        "kept", job=asking(PAIR_JOB, cpus=8), running=(stopping(make_running(make_share(1, (), cpus=60))),)
    ),
    "one who goes on holds the CPUs that it needs": Case(
        "dropped", job=asking(PAIR_JOB, cpus=8), running=(make_running(make_share(1, (), cpus=60)),)
    ),
    "one who stops holds the quota that it needs": Case(
        "kept", running=(stopping(make_running(make_share(2, (0, 1)))),), vcs=(make_vc(quotas={"A100": 2}),)
    ),
    "the quota has become too small": Case("dropped", vcs=(make_vc(quotas={"A100": 1}),)),
    "its node was cordoned meanwhile": Case("dropped", nodes=(make_node(1, gpus=2, schedulable=False), make_node(2))),
    "its node was cordoned while it is held still": Case(
        "dropped",
        nodes=(make_node(1, gpus=2, schedulable=False), make_node(2)),
        running=(stopping(make_running(make_share(1, (1,)))),),
    ),
    "one of its GPUs is broken": Case("dropped", nodes=(make_node(1, gpus=2, unhealthy=(1,)), make_node(2))),
    "the job backs off by now": Case("dropped", job=replace(PAIR_JOB, eligible_at=NOW + 5)),
    "its time is over": Case("forgotten", until=NOW),
}


def world_of(case: Case, *others: Job) -> Snapshot:
    kept = replace(PAIR, cpus=case.job.request.first.cpus, memory_mib=case.job.request.first.memory_mib)
    world = make_snapshot(nodes=case.nodes, waiting=(case.job, *others), running=case.running, vcs=case.vcs)
    return replace(world, reservations=(Reservation(1, (kept,), case.until),))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_kept_is_bound_or_kept_or_let_go_when(case: Case) -> None:
    world = world_of(case)
    plan = decide(world, CycleConfig())
    places = {place.job_id: place.allocations[0].node_id for place in plan.places}
    assert check(world, plan, Quota()) == ()
    assert (plan.drops == (1,)) is (case.then == "dropped")
    if case.then == "kept":
        assert places == {}
        assert [hold.reason for hold in plan.holds] == [HoldReason.RESERVED]
        assert apply(world, plan).reservations == world.reservations
    elif case.then in {"bound", "forgotten"}:
        assert places == {1: 1}
    assert case.then in {"kept", "forgotten"} or apply(world, plan).reservations == ()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_others_take_what_was_let_go_and_nothing_else(case: Case) -> None:
    world = world_of(case, *(make_job(job_id, gpus=1, vc_id=2) for job_id in range(2, 9)))
    world = replace(world, vcs=(*world.vcs, make_vc(2, "speech")))
    plan = decide(world, CycleConfig())
    assert check(world, plan, Quota()) == ()
    if case.then == "kept":
        assert not {100, 101} & {gpu for place in plan.places for share in place.allocations for gpu in share.gpu_ids}


def test_who_is_placed_with_the_quota_of_one_who_stops_starts_later() -> None:
    victim = make_running(make_share(1, (0, 1)))
    free = Place(1, (make_share(1, (2,)),))
    world = make_snapshot(
        waiting=(make_job(1), make_job(2), make_job(3, vc_id=2)),
        running=(victim,),
        vcs=(make_vc(quotas={"A100": 2}), make_vc(2, "speech")),
    )
    others = (Place(2, (make_share(1, (3,)),)), Place(3, (make_share(1, (4,)),)))
    plan = Plan((free, *others), (), preempts=(Preempt(victim.job.id, 1, ""),))
    assert check(world, plan, Quota()) == ()
    assert blocking_jobs(world, free) == frozenset()
    assert awaits_preemption(world, plan, Quota()) == {1, 2}
    after = apply(world, plan, awaiting=awaits_preemption(world, plan, Quota()))
    assert [kept.job_id for kept in after.reservations] == [1, 2]
    assert [run.job.id for run in after.running if not run.stopping] == [3]
    assert check(after, decide(after, CycleConfig()), Quota()) == ()
    bound = decide(release(after, [victim.job.id]), CycleConfig())
    assert {1, 2} <= {place.job_id for place in bound.places}


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """A pool that is partly full of jobs of three virtual clusters, and more that wait."""
    nodes = [make_node(node_id, gpus=draw(st.integers(1, 4)), cpus=6) for node_id in (1, 2, 3)]
    running = []
    for node in nodes:
        for index in range(draw(st.integers(0, len(node.gpus)))):
            job = make_job(
                node.id * 1000 + index,
                vc_id=draw(st.integers(1, 3)),
                preemptible=draw(st.integers(0, 4)) > 0,
                attained_gpu_s=float(draw(st.integers(0, 50_000))),
                remaining_s=float(draw(st.integers(1, 5000))),
            )
            running.append(make_running(make_share(node.id, (index,)), attempt_id=node.id * 10 + index, job=job))
    waiting = [
        make_job(
            job_id,
            gpus=draw(st.integers(0, 3)),
            nodes=draw(st.integers(1, 2)),
            cpus=draw(st.integers(1, 4)),
            vc_id=draw(st.integers(1, 3)),
            remaining_s=float(draw(st.integers(1, 5000))),
        )
        for job_id in range(1, draw(st.integers(2, 8)))
    ]
    vcs = [make_vc(vc_id, f"vc{vc_id}", {"A100": draw(st.integers(0, 8))}) for vc_id in (1, 2, 3)]
    return make_snapshot(nodes=nodes, waiting=waiting, running=sorted(running, key=lambda run: run.attempt_id), vcs=vcs)


@given(crowded(), st.sampled_from(["srtf", "tiresias"]), st.data())
def test_every_cycle_is_lawful_while_some_of_the_preempted_have_stopped(
    world: Snapshot, policy: str, data: st.DataObject
) -> None:
    config = CycleConfig(policy=policy)
    admission = compose(config).admission
    for _ in range(4):
        plan = decide(world, config)
        assert check(world, plan, admission) == ()
        waits = awaits_preemption(world, plan, admission)
        started = [place for place in plan.places if place.job_id not in waits]
        assert check(world, Plan(tuple(started), (), drops=plan.drops), admission) == ()
        world = apply(world, plan, awaiting=waits)
        leaving = [run.job.id for run in world.running if run.stopping]
        world = release(world, data.draw(st.sets(st.sampled_from(leaving))) if leaving else ())
        world = replace(world, now=world.now + 10)
