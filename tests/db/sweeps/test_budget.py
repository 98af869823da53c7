"""A sweep's budget: never more active members than it says, whatever happens at once."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dispatch.apply.apply import apply_units
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.models import Job, JobGroup, Reservation
from muster.sweeps.services import submit_sweep
from scheduler.engine.cycle import decide
from scheduler.model.lifecycle import HoldReason, JobState
from scheduler.model.reasons import Reason
from tests.db.stories import World, cycle, end, live_attempt, make_world, ranks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_committed", "sound")]


@pytest.fixture
def world() -> World:
    return make_world(gpus=8)


def sweep(world: World, *, members: int = 6, parallel: int = 2, **changes: Any) -> JobGroup:
    """A random sweep of jobs for one GPU."""
    asked = {
        "method": "random",
        "metric": "loss",
        "params": {"lr": {"log": [1e-5, 0.1]}},
        "members": members,
        "parallel": parallel,
        **changes.pop("sweep", {}),
    }
    data = {"command": "true", "gpus": 1, "vc": world.vc.name, "sweep": asked, **changes}
    return submit_sweep(user=world.user, data=data)[0]


def members(group: JobGroup, state: JobState) -> list[int]:
    """The numbers of the members in this state."""
    found = Job.objects.filter(group=group, state=state).order_by("member").values_list("member", flat=True)
    return [number for number in found if number is not None]


def job(group: JobGroup, member: int) -> Job:
    return Job.objects.get(group=group, member=member)


def test_as_many_members_start_as_the_budget_has_room_for(world: World) -> None:
    group = sweep(world)
    cycle(world)
    assert members(group, JobState.ACTIVE) == [1, 2]
    cycle(world)
    assert members(group, JobState.ACTIVE) == [1, 2]
    (rank,) = ranks(live_attempt(job(group, 2)))
    end(rank, Reason.NOT_CLAIMED, started=False)
    # It waits for its next try, and meanwhile another member has its place.
    cycle(world)
    assert members(group, JobState.ACTIVE) == [1, 3]
    assert job(group, 4).hold_reason == HoldReason.GROUP


def test_a_snapshot_has_the_work_of_members_that_are_not_in_it(world: World) -> None:
    group = sweep(world, expected="100s", checkpoint={})
    snapshot = pool_snapshot(world.pool, seed=0)
    assert [one.group_id for one in snapshot.waiting] == [group.pk] * 2
    (found,) = snapshot.groups
    assert (found.id, found.tenant_id, found.done_gpu_s, found.to_come_gpu_s) == (group.pk, world.tenant.pk, 0, 400)
    Job.objects.filter(pk=job(group, 6).pk).update(expected_s=None)
    over = {"state": JobState.CANCELLED, "ended_at": group.submitted_at, "attained_gpu_s": 7}
    Job.objects.filter(group=group, member=1).update(**over)
    (found,) = pool_snapshot(world.pool, seed=0).groups
    assert (found.done_gpu_s, found.to_come_gpu_s) == (7, None)


def test_two_plans_at_once_do_not_start_more_than_the_budget(world: World) -> None:
    group = sweep(world, parallel=2)
    config, snapshot = config_of(world.pool), pool_snapshot(world.pool, seed=0)
    first = decide(snapshot, config)
    Job.objects.filter(group=group, member__lte=2).update(paused=True)
    second_seen = pool_snapshot(world.pool, seed=0)
    second = decide(second_seen, config)
    Job.objects.filter(group=group).update(paused=False)
    for seen, plan in ((snapshot, first), (second_seen, second)):
        units = [Unit((place,), ()) for place in plan.places]
        applied = apply_units(world.pool, units, config, seen)
    assert members(group, JobState.ACTIVE) == [1, 2]
    assert [refusal.reason for refusal in applied.refusals] == [f"sweep {group.pk} runs as many members as it may"] * 2


def test_a_paused_member_does_not_start(world: World) -> None:
    group = sweep(world, parallel=6)
    snapshot, config = pool_snapshot(world.pool, seed=0), config_of(world.pool)
    plan = decide(snapshot, config)
    Job.objects.filter(group=group, member=3).update(paused=True)
    applied = apply_units(world.pool, [Unit((place,), ()) for place in plan.places], config, snapshot)
    assert members(group, JobState.ACTIVE) == [1, 2, 4, 5, 6]
    assert [refusal.reason for refusal in applied.refusals] == [f"sweep {group.pk} has paused the job"]
    assert [one.id for one in pool_snapshot(world.pool, seed=0).waiting] == []
    assert not Reservation.objects.exists()
