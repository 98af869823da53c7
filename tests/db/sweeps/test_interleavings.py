"""Two transactions at once: the second finds the budget taken, or the sweep cancelled."""

from __future__ import annotations

import pytest
from django.db import transaction

from muster.dispatch.apply.apply import apply_unit
from muster.dispatch.apply.plan_units import Unit
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.groups.services import cancel_group
from muster.jobs.models import Job, JobGroup
from muster.sweeps.controller import look_at_sweep
from scheduler.engine.cycle import decide
from scheduler.model.lifecycle import GroupState, JobState
from tests.db.stories import Other, make_world
from tests.db.sweeps.test_budget import members, sweep

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def test_a_plan_that_comes_second_finds_the_budget_taken() -> None:
    world = make_world()
    group = sweep(world, members=2, parallel=1)
    snapshots = []
    for member in (1, 2):
        with transaction.atomic():
            Job.objects.filter(group=group).exclude(member=member).update(paused=True)
            snapshots.append(pool_snapshot(world.pool, seed=0))
            transaction.set_rollback(True)
    config = config_of(world.pool)
    (first,), (second,) = (decide(snapshot, config).places for snapshot in snapshots)
    with transaction.atomic():
        assert apply_unit(world.pool, Unit((first,)), config, snapshots[0]).refusals == []
        other = Other(lambda: apply_unit(world.pool, Unit((second,)), config, snapshots[1])).until_it_waits()
    (refusal,) = other.result().refusals
    assert refusal.reason == f"sweep {group.pk} runs as many members as it may"
    assert members(group, JobState.ACTIVE) == [1]


def test_a_look_beside_a_cancellation_leaves_the_sweep_cancelled() -> None:
    world = make_world()
    group = sweep(world)
    with transaction.atomic():
        cancel_group(user=world.user, group=group)
        other = Other(lambda: look_at_sweep(group.pk)).until_it_waits()
    other.result()
    assert JobGroup.objects.get(pk=group.pk).state == GroupState.CANCELLED
    assert len(members(group, JobState.CANCELLED)) == 6
