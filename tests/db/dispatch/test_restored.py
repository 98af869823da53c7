"""Placing of jobs after a restore from a backup."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import F

from muster.accounts.services import create_user
from muster.common.clock import database_now
from muster.dispatch.reaper import reap
from muster.dispatch.restore_pause import lost_jobs
from muster.events.models import Event, Outbox, Restore
from muster.fleet.gone import declare_gone
from muster.fleet.leases import Unauthorized, node_of_credential
from muster.fleet.models import Node, NodeLease
from muster.fleet.services import create_node
from muster.jobs.models import Job
from scheduler.model.lifecycle import LeaseState, NodeHealth
from tests.db.stories import World, cycle, let_answer, let_pass, make_world, now_of, planned_places, submit

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

TIMERS = {"stop_after_s": 60, "max_grace_s": 40, "fence_margin_s": 10}
FENCE_S = 110


@pytest.fixture
def world() -> World:
    let_answer(86_400)
    return make_world(nodes=2, **TIMERS)


def restore(**fields: Any) -> Restore:
    """The database is that of a backup, as `settle` leaves it."""
    NodeLease.objects.update(state=LeaseState.VOID, epoch=F("epoch") + 1000)
    Node.objects.update(must_report=True)
    moment = database_now()
    return Restore.objects.create(
        **{"backup_at": moment, "nodes_known": True, "last_job": 10**9, "last_uid": 80_000, **fields}
    )


def report(*nodes: Node) -> None:
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(must_report=False)


def is_placed(world: World, job: Job) -> bool:
    reap(world.pool)
    cycle(world)
    return bool(now_of(job).state == "active")


def test_no_job_is_placed_before_each_node_has_reported(world: World) -> None:
    restored = restore()
    job = submit(world)
    report(world.nodes[0])
    assert not is_placed(world, job)
    hold = now_of(job).hold
    assert hold["reason"] == "maintenance"
    assert hold["detail"].startswith("the platform was restored from a backup of")
    assert f"node {world.nodes[1].name} until" in hold["detail"]
    report(world.nodes[1])
    assert is_placed(world, job)
    assert now_of(restored).resumed_at is not None
    assert Event.objects.filter(kind="platform.placement_resumed").count() == 1


def test_the_invariants_refuse_a_place_that_was_planned_before(world: World) -> None:
    submit(world)
    places, _ = planned_places(world)
    assert places
    restore()
    assert planned_places(world)[0] == []


def test_a_node_that_stays_away_is_waited_for_until_its_fence(world: World) -> None:
    restored = restore()
    report(world.nodes[0])
    job = submit(world)
    let_pass(FENCE_S - 5, restored, "at")
    assert not is_placed(world, job)
    let_pass(10, restored, "at")
    assert is_placed(world, job)
    assert job.attempts.get().allocations.get().node_id == world.nodes[0].pk


def test_a_node_that_comes_back_after_its_fence_gets_no_job_before_it_has_reported(world: World) -> None:
    restored = restore()
    let_pass(FENCE_S + 1, restored, "at")
    job = submit(world)
    assert not is_placed(world, job)
    assert now_of(restored).resumed_at is not None
    report(world.nodes[1])
    assert is_placed(world, job)
    assert job.attempts.get().allocations.get().node_id == world.nodes[1].pk


def test_an_agent_that_has_registered_and_fell_silent_is_waited_for_from_its_last_beat(world: World) -> None:
    restored = restore()
    report(world.nodes[0])
    let_pass(FENCE_S + 1, restored, "at")
    NodeLease.objects.filter(pk=world.nodes[1].pk).update(state=LeaseState.RENEWED)
    job = submit(world)
    assert not is_placed(world, job)
    let_pass(FENCE_S + 1, NodeLease.objects.get(pk=world.nodes[1].pk), "seen_at")
    assert is_placed(world, job)


def test_nodes_that_may_have_joined_after_the_backup_are_waited_for(world: World) -> None:
    restored = restore(nodes_known=False)
    report(*world.nodes)
    job = submit(world)
    assert not is_placed(world, job)
    assert "nodes that joined after the backup until" in now_of(job).hold["detail"]
    let_pass(FENCE_S + 1, restored, "at")
    assert is_placed(world, job)


def test_a_node_that_is_declared_gone_is_not_waited_for(world: World) -> None:
    restore()
    report(world.nodes[0])
    Node.objects.filter(pk=world.nodes[1].pk).update(health=NodeHealth.DOWN)
    let_pass(100, NodeLease.objects.get(pk=world.nodes[1].pk), "seen_at")
    declare_gone(node=now_of(world.nodes[1]), reason="it is switched off", actor="otto")
    assert is_placed(world, submit(world))


def test_a_node_that_is_added_after_a_restore_must_report_first(world: World) -> None:
    before, _ = create_node(pool=world.pool, name="before", actor="otto")
    restore()
    after, _ = create_node(pool=world.pool, name="after", actor="otto")
    assert (before.must_report, after.must_report) == (False, True)


def test_operators_are_mailed_what_is_lost(world: World, settings: Any) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    unknown = [{"node": "n1", "job": 77, "attempt": 5, "allocation": 6}]
    job = submit(world)
    restored = restore(unknown=unknown, last_job=job.pk + 1000)
    report(*world.nodes)
    reap(world.pool)
    body = Outbox.objects.get(payload__subject="Jobs are placed again after the restore").payload["body"]
    assert body == lost_jobs(restored)
    assert f"a job with an id from {job.pk + 1} to {job.pk + 1000} was submitted later" in body
    assert "Still ran on node n1, and was stopped: job 77, attempt 5, allocation 6." in body


def test_a_uid_that_may_have_been_given_since_is_not_given_again(world: World, settings: Any) -> None:
    settings.UID_RANGE = range(70_000, 100_000)
    restore(last_uid=81_234)
    user = create_user(username="new", password="a long enough password", actor="otto")
    assert user.uid == 81_235


def test_an_agent_that_the_backup_does_not_know_is_told_so(world: World) -> None:
    restore()
    with pytest.raises(Unauthorized, match=r"restored from a backup of .*: a node that joined after it must be added"):
        node_of_credential("of an agent that joined later")
