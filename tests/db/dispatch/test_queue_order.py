"""A cycle's treatment of held, ordered and bumped jobs, and the order that it stores."""

from __future__ import annotations

import pytest

from muster.accounts.models import User
from muster.dispatch.apply.apply import apply_units
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.groups.services import hold_group, release_group
from muster.jobs.models import Job, QueueOrder
from muster.jobs.queue import bump_job, hold_job, positions, release_job, reorder_jobs
from muster.sweeps.services import submit_sweep
from scheduler.engine.cycle import decide
from scheduler.model.lifecycle import HoldReason, JobState
from tests.db.stories import World, cycle, make_world, submit
from tests.factories import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world() -> World:
    return make_world(gpus=4)


@pytest.fixture
def operator() -> User:
    return make_user("oscar", operator=True)


def active() -> list[int]:
    return list(Job.objects.filter(state=JobState.ACTIVE).order_by("pk").values_list("pk", flat=True))


def stored(world: World) -> list[int]:
    return QueueOrder.objects.get(vc=world.vc).job_ids


def test_a_cycle_stores_the_order_in_which_jobs_wait(world: World) -> None:
    jobs = [submit(world, gpus=4) for _ in range(3)]
    cycle(world)
    assert active() == [jobs[0].pk]
    assert stored(world) == [jobs[1].pk, jobs[2].pk]
    assert positions(Job.objects.all()) == {jobs[1].pk: 1, jobs[2].pk: 2}


def test_a_held_job_blocks_no_other_and_starts_once_it_is_released(world: World) -> None:
    first, second = (submit(world, gpus=4) for _ in range(2))
    hold_job(user=world.user, job=first)
    cycle(world)
    assert active() == [second.pk]
    first.refresh_from_db()
    assert first.hold_reason == HoldReason.HELD
    assert pool_snapshot(world.pool, seed=0).waiting == ()
    release_job(user=world.user, job=first)
    cycle(world)
    first.refresh_from_db()
    assert (first.state, first.hold_reason) == (JobState.QUEUED, HoldReason.NO_FREE_GPUS)


def test_a_job_that_is_held_after_the_decision_does_not_start(world: World) -> None:
    job = submit(world, gpus=1)
    config = config_of(world.pool, None)
    plan = decide(pool_snapshot(world.pool, seed=0), config)
    hold_job(user=world.user, job=job)
    applied = apply_units(world.pool, [Unit(plan.places, ())], config)
    assert [refusal.reason for refusal in applied.refusals] == ["the job is held back until it is released"]


def test_the_next_cycle_follows_the_order_of_the_owner_and_the_bump(world: World, operator: User) -> None:
    jobs = [submit(world, gpus=2) for _ in range(4)]
    reorder_jobs(user=world.user, vc=world.vc, job_ids=[jobs[3].pk, jobs[0].pk])
    bump_job(user=operator, job=jobs[2])
    shown = QueueOrder.objects.get(vc=world.vc).job_ids
    assert shown == [jobs[2].pk, jobs[3].pk, jobs[1].pk, jobs[0].pk]
    cycle(world)
    assert active() == [jobs[2].pk, jobs[3].pk]
    assert stored(world) == [jobs[1].pk, jobs[0].pk]


def test_held_members_of_a_sweep_give_their_turns_to_others(world: World) -> None:
    asked = {"method": "grid", "metric": "loss", "params": {"lr": [0.1, 0.2, 0.3]}, "parallel": 1}
    group, _ = submit_sweep(user=world.user, data={"command": "true", "gpus": 1, "vc": world.vc.name, "sweep": asked})
    first = Job.objects.get(group=group, member=1)
    hold_job(user=world.user, job=first)
    cycle(world)
    assert active() == [Job.objects.get(group=group, member=2).pk]
    assert hold_group(user=world.user, group=group) == 1
    assert not Job.objects.filter(group=group, state=JobState.QUEUED, held=False).exists()
    assert release_group(user=world.user, group=group) == 2
    assert Job.objects.get(group=group, member=3).hold_reason == HoldReason.GROUP
