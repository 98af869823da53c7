"""Exchanges between waiting jobs: their places within a virtual cluster, and never those of other virtual clusters."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, decide
from scheduler.engine.policy import POLICIES
from scheduler.engine.reorder import order_of
from scheduler.engine.state import SchedulerState
from scheduler.model import Job, Snapshot
from scheduler.model.lifecycle import JobClass
from tests.profiles import examples
from tests.unit.scheduler.factories import NOW, make_job, make_node, make_running, make_share, make_snapshot, make_vc


def ids(jobs: list[Job]) -> list[int]:
    return [job.id for job in jobs]


def queue_of(*jobs: Job, policy: str = "fifo") -> list[int]:
    return ids(list(order_of(POLICIES.make(policy, {}), make_snapshot(waiting=jobs))))


def test_ranked_jobs_share_out_the_places_that_they_hold() -> None:
    jobs = [make_job(one, owner_id=2 if one == 2 else 1) for one in (1, 2, 3, 4)]
    ranked = [replace(jobs[0], own_rank=2.0), jobs[1], jobs[2], replace(jobs[3], own_rank=1.0)]
    assert queue_of(*jobs) == [1, 2, 3, 4]
    assert queue_of(*ranked) == [4, 2, 3, 1]


def test_the_latest_bump_goes_first_and_the_others_move_back() -> None:
    jobs = [make_job(1), make_job(2, bumped=1), make_job(3), make_job(4, bumped=2)]
    assert queue_of(*jobs) == [4, 2, 1, 3]


def test_a_bumped_job_starts_first_but_passes_no_other_virtual_cluster() -> None:
    vcs = [make_vc(1), make_vc(2, "speech")]
    jobs = [make_job(1, gpus=4, vc_id=2), make_job(2, gpus=4), make_job(3, gpus=4, bumped=1)]
    plan = decide(make_snapshot(waiting=jobs, vcs=vcs), CycleConfig())
    assert [place.job_id for place in plan.places] == [1, 3]
    assert [(hold.job_id, hold.position) for hold in plan.holds] == [(2, 1)]


def test_a_bump_stays_within_the_class_of_the_job() -> None:
    lent = make_job(3, bumped=1, job_class=JobClass.OPPORTUNISTIC)
    assert queue_of(make_job(1), make_job(2, job_class=JobClass.OPPORTUNISTIC), lent) == [1, 3, 2]


def test_an_exchanged_place_lets_a_job_preempt_no_more_jobs() -> None:
    # Job 2 takes the place of the urgent job 1. By its own priority it may not preempt the job that runs.
    running = make_running(make_share(1, range(8)), priority=5)
    jobs = [make_job(1, gpus=9, priority=9), make_job(2, gpus=8, priority=1, bumped=1)]
    config = CycleConfig(policy="priority", policy_params={"preemptive": True})
    plan = decide(make_snapshot(waiting=jobs, running=[running]), config)
    assert plan.preempts == ()


@pytest.mark.parametrize("bumped", [0, 1])
def test_a_bumped_job_that_runs_is_not_preempted_within_its_virtual_cluster(bumped: int) -> None:
    running = make_running(make_share(1, range(8)), priority=1, bumped=bumped)
    config = CycleConfig(policy="priority", policy_params={"preemptive": True})
    plan = decide(make_snapshot(waiting=[make_job(1, gpus=8, priority=9)], running=[running]), config)
    assert len(plan.preempts) == 1 - bumped


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    jobs = [
        make_job(
            one,
            vc_id=draw(st.integers(1, 3)),
            owner_id=draw(st.integers(1, 2)),
            priority=draw(st.integers(0, 2)),
            submitted_at=NOW - draw(st.integers(0, 5)),
            gpus=draw(st.integers(1, 3)),
            job_class=draw(st.sampled_from(JobClass)),
            remaining_s=draw(st.sampled_from([None, 50.0, 500.0])),
            ran_s=draw(st.sampled_from([0.0, 40.0])),
            bumped=draw(st.sampled_from([0, 0, 1, 2])),
            own_rank=draw(st.sampled_from([None, 1.0, 2.0])),
        )
        for one in range(1, draw(st.integers(0, 10)) + 1)
    ]
    return make_snapshot(nodes=[make_node(gpus=2)], waiting=jobs, vcs=[make_vc(one, f"vc{one}") for one in (1, 2, 3)])


@pytest.mark.parametrize("name", POLICIES.names)
@settings(max_examples=examples(40))
@given(world=worlds())
def test_other_virtual_clusters_keep_their_places(name: str, world: Snapshot) -> None:
    policy = POLICIES.make(name, {})
    before, after = list(policy.order(world)), list(order_of(policy, world))
    assert sorted(ids(after)) == sorted(ids(before))
    assert [(job.vc_id, job.job_class) for job in after] == [(job.vc_id, job.job_class) for job in before]
    moved = {job.vc_id for job in world.waiting if job.bumped or job.own_rank is not None}
    assert all(new.id == old.id for new, old in zip(after, before, strict=True) if new.vc_id not in moved)
    if not hasattr(policy, "group_of"):
        for unit in {(job.vc_id, job.job_class) for job in after}:
            bumps = [job.bumped for job in after if (job.vc_id, job.job_class) == unit]
            assert bumps == sorted(bumps, reverse=True)


@pytest.mark.parametrize("name", ["backfill", "fifo", "las", "priority", "qssf", "sjf", "srsf", "srtf", "tiresias"])
@settings(max_examples=examples(40))
@given(world=worlds())
def test_a_cycle_serves_jobs_in_the_order_that_users_see(name: str, world: Snapshot) -> None:
    policy, state = POLICIES.make(name, {}), SchedulerState(world)
    state.use(ADMISSIONS.make("quota", {}))
    walk, served = state.queue(policy).walk(), list[Job]()
    while (entry := walk.next()) is not None:
        served.append(entry[0])
    assert ids(served) == ids(list(order_of(policy, world)))
    for job in served:
        state.remove_waiting(job.id)
    assert not len(state.queue(policy))
