"""Views of two planners of one pool, and their power over each other's jobs."""

from __future__ import annotations

from dataclasses import replace

from scheduler.admission.borrow import Borrow
from scheduler.admission.quota import Quota
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.model import Reservation, Snapshot
from scheduler.model.invariants import Code, check
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import Note, Plan
from scheduler.model.planners import Scope, own_part, seen_by
from tests.unit.scheduler.factories import make_job, make_node, make_running, make_share, make_snapshot, make_vc

FIRST, SECOND = Scope(frozenset({1})), Scope(frozenset({1}), rest=True)


def pool(**changes: object) -> Snapshot:
    """Node 1 has eight A100. A job of virtual cluster 2 runs on two; job 1 of cluster 1 and job 2 of cluster 2 wait."""
    whole = make_snapshot(
        nodes=(make_node(1),),
        waiting=(make_job(1, vc_id=1, gpus=2), make_job(2, vc_id=2, gpus=2)),
        running=(
            make_running(make_share(1, (0, 1)), vc_id=2, policy_state={"level": 1.0}, expected_s=1e6, remaining_s=1e6),
        ),
        vcs=(make_vc(1), make_vc(2, name="audio")),
    )
    return replace(whole, **changes)


def test_each_virtual_cluster_is_in_one_scope() -> None:
    assert [(FIRST.has(vc_id), SECOND.has(vc_id)) for vc_id in (1, 2, 3)] == [
        (True, False),
        (False, True),
        (False, True),
    ]


def test_a_planner_sees_the_whole_pool_and_its_own_queue() -> None:
    whole = pool()
    seen = seen_by(whole, FIRST)
    assert [job.id for job in seen.waiting] == [1]
    assert (seen.nodes, seen.vcs, seen.tenants) == (whole.nodes, whole.vcs, whole.tenants)
    (run,) = seen.running
    assert (run.foreign, run.reclaimable, run.job.preemptible) == (True, True, False)
    assert run.job.policy_state == {}
    assert run.allocations == whole.running[0].allocations
    assert seen_by(whole, SECOND).running == whole.running
    assert seen_by(whole, Scope(frozenset(), rest=True)) == whole


def test_reserved_gpus_of_other_planners_are_not_free() -> None:
    kept = Reservation(2, (make_share(1, (2, 3, 4)),), until=1e12)
    whole = pool(reservations=(kept,), waiting=(make_job(1, vc_id=1, gpus=4), make_job(2, vc_id=2)))
    seen = seen_by(whole, FIRST)
    assert seen.reservations == (replace(kept, foreign=True),)
    assert decide(seen, CycleConfig()).places == ()
    assert decide(seen, CycleConfig()).drops == ()
    assert seen_by(whole, SECOND).reservations == (kept,)


def test_reserved_cpus_of_other_planners_are_not_free() -> None:
    kept = Reservation(2, (make_share(1, (2,), cpus=60),), until=1e12)
    whole = pool(reservations=(kept,), waiting=(make_job(1, vc_id=1, gpus=1, cpus=8), make_job(2, vc_id=2)))
    assert decide(seen_by(whole, FIRST), CycleConfig()).places == ()
    free = pool(waiting=whole.waiting)
    assert [place.job_id for place in decide(seen_by(free, FIRST), CycleConfig()).places] == [1]


def test_notes_on_foreign_jobs_are_left_out() -> None:
    seen = seen_by(pool(), FIRST)
    plan = Plan((), (), notes=(Note(1, {"level": 2.0}), Note(1001, {"level": 0.0})))
    assert seen.running[0].job_id == 1001
    assert own_part(seen, plan).notes == plan.notes[:1]
    assert own_part(pool(), plan) is plan


def test_a_policy_that_preempts_does_not_preempt_foreign_jobs() -> None:
    """Under shortest remaining time first, the running job would make room for the waiting one."""
    config = CycleConfig(policy="srtf", admission="borrow")
    whole = pool(waiting=(make_job(1, vc_id=1, gpus=8, expected_s=1.0, remaining_s=1.0),))
    assert [one.job_id for one in decide(whole, config).preempts] == [whole.running[0].job_id]
    assert decide(seen_by(whole, FIRST), config).preempts == ()


def test_a_job_that_may_reclaim_gpus_preempts_a_foreign_job() -> None:
    config = CycleConfig(policy="fifo", admission="borrow")
    whole = pool(
        waiting=(make_job(1, vc_id=1, gpus=8),),
        running=(make_running(make_share(1, (0, 1)), vc_id=2, job_class=JobClass.OPPORTUNISTIC),),
    )
    seen = seen_by(whole, FIRST)
    plan = decide(seen, config)
    assert [one.job_id for one in plan.preempts] == [whole.running[0].job_id]
    assert check(seen, plan, Borrow()) == ()
    assert {one.code for one in check(seen, plan, Quota())} == {Code.FOREIGN_VICTIM}


def test_a_foreign_job_that_may_not_be_stopped_is_not_reclaimed() -> None:
    whole = pool(
        waiting=(make_job(1, vc_id=1, gpus=8),),
        running=(make_running(make_share(1, (0, 1)), vc_id=2, job_class=JobClass.OPPORTUNISTIC, preemptible=False),),
    )
    assert decide(seen_by(whole, FIRST), CycleConfig(admission="borrow")).preempts == ()
