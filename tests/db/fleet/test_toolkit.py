"""A node whose NVIDIA Container Toolkit lets containers out: no new job starts there, and members can read why."""

from __future__ import annotations

from typing import Any

import pytest

from muster.api.fleet.render import node_document, pool_list
from muster.fleet.models import Node, Pool
from scheduler.model.lifecycle import HoldReason, JobState
from tests.db.agent_calls import Agent, a100, inventory
from tests.db.stories import World, cycle, now_of, states, submit

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


def register(agent: Agent, toolkit_version: str, *runtimes: str) -> None:
    told = inventory(a100(0), runtimes=runtimes or ("docker",), toolkit_version=toolkit_version, driver_version="570.1")
    assert agent.register(inventory=told).status_code == 200


def document(world: World) -> dict[str, Any]:
    return node_document(world.user, Node.objects.get())


def test_nothing_starts_there_until_it_is_updated(agent: Agent, world: World) -> None:
    register(agent, "1.17.7")
    job = submit(world, image="torch:2")
    cycle(world)
    job = now_of(job)
    assert (job.state, job.hold_reason) == (JobState.QUEUED, HoldReason.NO_FREE_GPUS)
    node = document(world)
    assert "1.17.7" in node["barred"]
    assert "CVE-2025-23266" in node["barred"]
    assert (node["driver_version"], node["toolkit_version"]) == ("570.1", "1.17.7")
    assert (node["admin"], node["health"]) == ("active", "ready")
    assert pool_list(Pool.objects.all())[0]["gpus"] == [{"type": "A100", "total": 1, "used": 0, "free": 0}]

    before = now_of(world.nodes[0]).version
    register(agent, "1.17.8")
    assert now_of(world.nodes[0]).version > before
    assert document(world)["barred"] is None
    cycle(world)
    assert states(job)[0] == JobState.ACTIVE


def test_what_runs_there_goes_on(agent: Agent, world: World) -> None:
    register(agent, "1.17.8")
    job = submit(world, image="torch:2")
    cycle(world)
    register(agent, "1.16.0")
    cycle(world)
    assert states(job)[0] == JobState.ACTIVE


def test_plain_processes_do_not_go_through_it(agent: Agent, world: World) -> None:
    register(agent, "1.13.5", "process")
    assert document(world)["barred"] is None
    job = submit(world)
    cycle(world)
    assert states(job)[0] == JobState.ACTIVE


def test_a_node_of_both_runtimes_offers_no_containers(agent: Agent, world: World) -> None:
    register(agent, "1.13.5", "process", "docker")
    node = document(world)
    assert (node["barred"], node["runtimes"]) == (None, ["process"])
    assert "CVE-2025-23266" in node["no_containers"]
    job = submit(world)
    cycle(world)
    assert states(job)[0] == JobState.ACTIVE
