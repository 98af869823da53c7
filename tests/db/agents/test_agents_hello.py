"""Registrations in two steps: which of them is the newest, whatever order they come in."""

from __future__ import annotations

from muster.fleet.models import Node
from nodeagent.protocol.messages import HelloResponse
from tests.db.agent_calls import Agent
from tests.db.stories import World, now_of
from tests.factories import make_node


def nonce(agent: Agent) -> str:
    answer = agent.hello()
    assert answer.status_code == 200, answer.text
    return HelloResponse.from_dict(answer.json()).nonce


def test_a_nonce_is_good_for_one_registration(agent: Agent) -> None:
    given = nonce(agent)
    assert agent.register(nonce=given).status_code == 200
    assert agent.register(nonce=given).status_code == 412
    assert agent.beat().status_code == 200
    assert agent.register(nonce=nonce(agent)).status_code == 200


def test_a_registration_of_an_earlier_boot_that_comes_late_is_refused_though_nobody_has_heard_of_it(
    agent: Agent, world: World
) -> None:
    late = nonce(agent)
    assert agent.register(nonce=nonce(agent), boot_id="boot-3").status_code == 200
    assert agent.register(nonce=late, boot_id="boot-2").status_code == 412
    assert now_of(world.nodes[0]).boot_id == "boot-3"
    assert agent.beat().status_code == 200


def test_a_hello_that_comes_late_costs_the_next_registration_another_try(agent: Agent) -> None:
    mine = nonce(agent)
    nonce(agent)
    assert agent.register(nonce=mine).status_code == 412
    assert agent.register(nonce=nonce(agent)).status_code == 200


def test_a_nonce_of_another_node_is_of_no_use(agent: Agent, world: World) -> None:
    nonce(agent)
    other = make_node(world.pool)
    Node.objects.filter(pk=other.pk).update(nonce="of-another")
    assert agent.register(nonce="of-another").status_code == 412


def test_without_a_nonce_nothing_is_registered(agent: Agent) -> None:
    assert agent.register(nonce="").status_code == 412
    mine = nonce(agent)
    assert agent.register(nonce="").status_code == 412
    assert agent.register(nonce=mine).status_code == 200


def test_a_boot_that_comes_back_with_a_new_nonce_is_alive(agent: Agent, world: World) -> None:
    first = agent.boot_id
    for boot_id in ("boot-2", first):
        assert agent.register(nonce=nonce(agent), boot_id=boot_id).status_code == 200
    assert now_of(world.nodes[0]).boot_id == first


def test_a_hello_is_refused_like_a_registration(agent: Agent) -> None:
    mine = nonce(agent)
    assert agent.hello(secret="of no node").status_code == 401
    assert agent.hello(credential="another-credential-that-is-long-enough").status_code == 401
    assert agent.register(nonce=mine).status_code == 200
