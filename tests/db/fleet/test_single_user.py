"""Nodes that run all jobs as one account: whose jobs they take, by default and by an operator's setting."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.fleet.render import node_document
from muster.dispatch.snapshot.snapshot import planner_snapshot
from muster.fleet.models import Node
from scheduler.model import Snapshot
from scheduler.model.lifecycle import HoldReason, JobState
from tests.db.agent_calls import Agent, a100, inventory
from tests.db.stories import World, cycle, now_of, submit
from tests.factories import make_tenant, make_user, make_vc

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def set_node(world: World, **fields: object) -> None:
    Node.objects.filter(pk=world.nodes[0].pk).update(**fields)


def neighbour_of(world: World) -> World:
    """Another tenant with a virtual cluster in the same pool."""
    tenant = make_tenant()
    vc = make_vc(tenant, world.pool, quotas={"A100": 4})
    return World(world.pool, tenant, make_user(tenant=tenant), vc, world.nodes)


def states_after_a_cycle(*worlds: World) -> list[JobState]:
    jobs = [submit(world) for world in worlds]
    cycle(worlds[0])
    return [JobState(now_of(job).state) for job in jobs]


def test_the_agent_says_that_its_node_is_single_user_and_that_it_is_so_no_longer(agent: Agent, world: World) -> None:
    for single_user in (True, False):
        before = now_of(world.nodes[0]).version
        assert agent.register(inventory=inventory(a100(0), single_user=single_user)).status_code == 200
        assert node_document(world.user, Node.objects.get())["single_user"] is single_user
        assert now_of(world.nodes[0]).version > before


def test_by_default_it_takes_the_jobs_of_the_only_tenant_of_its_pool(world: World) -> None:
    set_node(world, single_user=True)
    assert states_after_a_cycle(world) == [JobState.ACTIVE]


def test_where_several_tenants_are_it_takes_no_jobs_and_the_job_says_why(world: World) -> None:
    neighbour = neighbour_of(world)
    set_node(world, single_user=True)
    job = submit(neighbour)
    cycle(neighbour)
    job = now_of(job)
    assert (job.state, job.hold_reason) == (JobState.QUEUED, HoldReason.SINGLE_USER)
    assert job.hold["helps"][0].startswith(f"an operator gives {world.nodes[0].name} to this tenant")
    assert states_after_a_cycle(world) == [JobState.QUEUED]


def test_an_operator_gives_it_to_one_tenant(world: World) -> None:
    neighbour = neighbour_of(world)
    set_node(world, single_user=True, single_user_tenant=world.tenant)
    assert states_after_a_cycle(world, neighbour) == [JobState.ACTIVE, JobState.QUEUED]


def test_an_operator_lets_tenants_share_it(world: World) -> None:
    neighbour = neighbour_of(world)
    set_node(world, single_user=True, single_user_shared=True)
    assert states_after_a_cycle(world, neighbour) == [JobState.ACTIVE, JobState.ACTIVE]


def test_a_job_that_was_decided_on_before_the_node_became_single_user_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    neighbour_of(world)
    job = submit(world)

    def snapshot_before_the_change(*words: Any, **options: Any) -> Snapshot:
        snapshot = planner_snapshot(*words, **options)
        set_node(world, single_user=True)
        return snapshot

    monkeypatch.setattr("muster.dispatch.cycles.planner_snapshot", snapshot_before_the_change)
    cycle(world)
    assert now_of(job).state == JobState.QUEUED
