"""Agents after a restore of the platform from a backup: they register again, and say first what they have."""

from __future__ import annotations

import pytest
from django.db.models import F

from muster.common.clock import database_now
from muster.events.models import Event, Restore
from muster.fleet.models import Node, NodeLease, Strike
from muster.jobs.models import Allocation
from nodeagent.protocol.messages import REGISTER_FIRST, Action, AllocationReport, Observed
from scheduler.model.lifecycle import LeaseState
from tests.db.agent_calls import Agent, a100, inventory
from tests.db.stories import World, now_of, ranks, start, states

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def restore() -> None:
    NodeLease.objects.update(state=LeaseState.VOID, epoch=F("epoch") + 1000)
    Node.objects.update(must_report=True)
    Restore.objects.create(backup_at=database_now(), nodes_known=True, last_job=10**9, last_uid=80_000)


def seen(allocation: Allocation, observed: Observed = Observed.RUNNING) -> AllocationReport:
    return AllocationReport(allocation.pk, allocation.attempt_id, observed)


def register(agent: Agent, world: World) -> None:
    gpus = [a100(gpu.index, gpu.uuid) for gpu in world.nodes[0].gpus.order_by("index")]
    assert agent.register(inventory=inventory(*gpus)).status_code == 200


def test_an_epoch_of_before_is_told_to_register_and_not_that_it_is_superseded(agent: Agent, world: World) -> None:
    restore()
    for answer in (agent.beat(), agent.sync()):
        assert answer.status_code == REGISTER_FIRST
        assert "has to register again" in answer.json()["detail"]
    before = agent.epoch
    register(agent, world)
    assert agent.epoch > before + 1000
    assert agent.beat().status_code == 200
    assert agent.beat(epoch=before).status_code == 409


def test_what_an_agent_reports_goes_on_and_its_node_may_have_jobs(agent: Agent, world: World) -> None:
    attempt = start(world)
    restore()
    register(agent, world)
    assert agent.sync(allocations=(seen(ranks(attempt)[0]),)).status_code == 200
    assert states(attempt.job) == ("active", "running", ["active"])
    assert not now_of(world.nodes[0]).must_report
    assert [wish.action for wish in agent.desired()] == [Action.RUN]


def test_what_an_agent_no_longer_has_is_lost_and_never_given_to_it_again(agent: Agent, world: World) -> None:
    attempt = start(world)
    restore()
    register(agent, world)
    assert agent.desired() == ()
    job = now_of(attempt.job)
    assert states(job) == ("queued", "lost", ["released"])
    assert (job.reason, job.avoid_nodes) == ("unknown", [])
    assert "ended on node" in job.reason_detail
    assert not Strike.objects.exists()
    assert agent.claim(ranks(attempt)[0]).status == 409


def test_a_node_gets_no_job_while_its_agent_runs_one_that_is_unknown(agent: Agent, world: World) -> None:
    node = world.nodes[0]
    restore()
    register(agent, world)
    unknown = AllocationReport(4001, 3001, Observed.RUNNING, job_id=2001)
    for _ in range(2):
        agent.sync(allocations=(unknown,))
        assert now_of(node).must_report
    listed = {"node": node.name, "allocation": 4001, "attempt": 3001, "job": 2001}
    assert Restore.objects.get().unknown == [listed]
    assert [event.data["allocations"] for event in Event.objects.filter(kind="node.runs_unknown_jobs")] == [[listed]]
    agent.sync(allocations=(AllocationReport(4001, 3001, Observed.EXITED),))
    assert not now_of(node).must_report


def test_another_attempt_under_a_known_number_is_unknown(agent: Agent, world: World) -> None:
    allocation = ranks(start(world))[0]
    restore()
    register(agent, world)
    agent.sync(allocations=(AllocationReport(allocation.pk, allocation.attempt_id + 1, Observed.RUNNING),))
    assert now_of(world.nodes[0]).must_report
    assert now_of(allocation).state == "released"
