"""A target that was solved a while ago: what is still possible of it is carried out, and the rest is filled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.cycle import CycleConfig, compose, decide, decide_by_target, forecast
from scheduler.engine.target import agreement, target_of
from scheduler.model import Snapshot
from scheduler.model.invariants import check
from scheduler.model.lifecycle import HoldReason
from scheduler.model.plan import Hold, Note, Place, Plan, Preempt, apply
from tests.profiles import examples
from tests.unit.scheduler.engine.test_scheduler_properties import snapshots
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc

FIFO = CycleConfig()


def carried_out(world: Snapshot, plan: Plan, seen: Snapshot | None = None) -> tuple[Plan, dict[int, str]]:
    found, dropped = decide_by_target(world, FIFO, target_of(seen or world, plan))
    assert not check(world, found, compose(FIFO).admission)
    return found, dict(dropped)


def gpus_of(plan: Plan) -> dict[int, tuple[int, ...]]:
    return {place.job_id: place.allocations[0].gpu_ids for place in plan.places}


def test_jobs_get_the_gpus_of_the_target_and_the_others_what_is_left() -> None:
    world = make_snapshot(waiting=[make_job(1), make_job(2, gpus=2), make_job(3)])
    plan, dropped = carried_out(world, Plan((Place(2, (make_share(1, (6, 7)),)),), ()))
    assert gpus_of(plan)[2] == (106, 107)
    assert gpus_of(plan).keys() == {1, 2, 3}
    assert not dropped


OBSTACLES = {
    "the job is gone": (make_snapshot(waiting=[]), "the job does not wait any more"),
    "the job waits for its retry": (
        make_snapshot(waiting=[make_job(1, eligible_at=NOW + 60, requeued_at=NOW)]),
        "this job is tried again at 1970-01-12T13:47:40+00:00",
    ),
    "the node is gone": (
        make_snapshot(nodes=[make_node(2)], waiting=[make_job(1)]),
        "its node takes no jobs like it now",
    ),
    "the node is cordoned": (
        make_snapshot(nodes=[make_node(schedulable=False)], waiting=[make_job(1)]),
        "node1 takes no jobs like it now",
    ),
    "the GPU is taken": (
        make_snapshot(waiting=[make_job(1)], running=[make_running(make_share(1, (7,)))]),
        "its GPUs, CPUs or memory are not free any more",
    ),
    "the GPU is not healthy": (
        make_snapshot(nodes=[make_node(unhealthy=[7])], waiting=[make_job(1)]),
        "its GPUs, CPUs or memory are not free any more",
    ),
    "the quota is lower": (
        make_snapshot(waiting=[make_job(1)], vcs=[make_vc(quotas={})]),
        "the quota of vision is no A100; this job needs 1",
    ),
}


@pytest.mark.parametrize("what", OBSTACLES)
def test_a_place_that_is_not_possible_any_more_is_dropped_with_the_reason(what: str) -> None:
    world, words = OBSTACLES[what]
    _, dropped = carried_out(world, Plan((Place(1, (make_share(1, (7,)),)),), ()))
    assert dropped == {1: words}


def test_a_victim_stops_only_in_the_attempt_that_the_target_saw() -> None:
    run = make_running(make_share(1, range(8)))
    seen = make_snapshot(waiting=[make_job(1, gpus=8)], running=[run])
    plan = Plan((Place(1, run.allocations),), (), preempts=(Preempt(run.job.id, 1, "its turn is over"),))
    same, dropped = carried_out(seen, plan)
    assert [(one.job_id, one.for_job_id) for one in same.preempts] == [(run.job.id, 1)]
    assert not dropped
    later = replace(seen, running=(replace(run, attempt_id=99),))
    other, dropped = carried_out(later, plan, seen)
    assert not other.preempts
    assert dropped[run.job.id] == "the attempt that it stops has ended"


def test_nobody_stops_for_a_job_that_is_gone_but_a_lease_ends() -> None:
    run = make_running(make_share(1, range(8)))
    seen = make_snapshot(waiting=[make_job(1, gpus=8)], running=[run])
    places = (Place(1, run.allocations),)
    gone = replace(seen, waiting=())
    plan, dropped = carried_out(gone, Plan(places, (), preempts=(Preempt(run.job.id, 1, "it gains"),)), seen)
    assert not plan.preempts
    assert dropped[run.job.id] == "no job needs its GPUs any more"
    plan, _ = carried_out(gone, Plan(places, (), preempts=(Preempt(run.job.id, None, "over"),)), seen)
    assert [(one.job_id, one.for_job_id, one.detail) for one in plan.preempts] == [(run.job.id, None, "over")]


def test_a_waiting_job_reads_the_reason_of_the_target_unless_a_newer_one_holds() -> None:
    busy = make_running(make_share(1, range(8)))
    later = make_job(2, eligible_at=NOW + 60, requeued_at=NOW)
    world = make_snapshot(waiting=[make_job(1), later], running=[busy])
    told = tuple(Hold(n, HoldReason.POLICY, "its share comes next round", {}, (), 9) for n in (1, 2))
    plan, _ = carried_out(world, Plan((), told))
    assert [(hold.job_id, hold.reason, hold.position) for hold in plan.holds] == [
        (1, HoldReason.POLICY, 1),
        (2, HoldReason.BACK_OFF, 2),
    ]


def test_notes_of_jobs_that_are_still_there_are_kept() -> None:
    plan, _ = carried_out(
        make_snapshot(waiting=[make_job(1)]), Plan((), (), notes=(Note(1, {"a": 1.0}), Note(2, {"b": 1.0})))
    )
    assert plan.notes == (Note(1, {"a": 1.0}),)


def test_a_dry_run_solves_nothing_and_sees_what_the_target_leaves() -> None:
    world = make_snapshot(waiting=[make_job(1, gpus=8)])
    target = target_of(world, Plan((Place(1, (make_share(1, range(8), cpus=1),)),), ()))
    assert forecast(world, CycleConfig(policy="fifo"), make_job(2), target).starts_now is False
    assert forecast(make_snapshot(), FIFO, make_job(2), target).starts_now


def test_shadow_tells_where_the_jobs_of_a_plan_are_by_now() -> None:
    world = make_snapshot(
        waiting=[make_job(3)],
        running=[
            make_running(make_share(1, (0,)), attempt_id=1, job=make_job(1)),
            make_running(make_share(1, (1,)), attempt_id=2, job=make_job(2)),
        ],
    )
    plan = Plan(tuple(Place(n, (make_share(1, (0,)),)) for n in (1, 2, 3, 4)), ())
    assert agreement(world, plan) == {"same": 1, "elsewhere": 1, "waiting": 1, "gone": 1}


@settings(max_examples=examples(100))
@given(snapshots(), snapshots(), st.sampled_from(["fifo", "srtf", "las", "drf", "tetris"]))
def test_whatever_happened_since_the_solve_the_plan_is_valid(seen: Snapshot, now: Snapshot, policy: str) -> None:
    """The two worlds share ids of jobs and nodes, and nothing else."""
    config = CycleConfig(policy=policy)
    carried_out(now, decide(seen, config), seen)


@settings(max_examples=examples(100))
@given(snapshots(), st.sampled_from(["fifo", "srtf", "drf"]))
def test_in_an_unchanged_world_the_whole_target_is_carried_out(world: Snapshot, policy: str) -> None:
    plan = decide(world, CycleConfig(policy=policy))
    found, dropped = carried_out(world, plan)
    assert not dropped
    assert set(plan.places) <= set(found.places)
    assert {one.job_id for one in plan.preempts} <= {one.job_id for one in found.preempts}
    assert apply(world, found).now == world.now
