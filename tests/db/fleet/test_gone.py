"""Effects and limits of an operator's word that a silent node is gone."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from muster.common.errors import Conflict, Invalid
from muster.dispatch.reaper import reap
from muster.events.models import AuditEntry, Event
from muster.fleet.gone import declare_gone
from muster.fleet.leases import renew
from muster.fleet.models import Node, NodeLease, Strike
from muster.fleet.services import cordon_node, drain_node, resume_node, retire_node
from muster.jobs.services import cancel_job
from scheduler.model.reasons import Reason
from tests.db.stories import (
    Other,
    World,
    claim,
    cycle,
    end,
    let_answer,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    silent,
    start,
    states,
)
from tests.factories import make_node, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

WORD = {"reason": "it burnt", "actor": "otto"}


@pytest.fixture(autouse=True)
def _the_platform_has_answered_for_a_day(db: None) -> None:
    let_answer(86_400)


@pytest.fixture
def world() -> World:
    return make_world(nodes=3)


def fall_silent(world: World, node: Node, seconds: float = 60) -> None:
    """The node has not been heard for so long, and the reaper has seen it."""
    silent(node, seconds)
    reap(world.pool)


def test_a_job_that_is_kept_is_lost_and_starts_elsewhere(world: World) -> None:
    attempt = start(world, on_disconnect="keep")
    node = ranks(attempt)[0].node
    fall_silent(world, node, 40_000)
    assert states(attempt.job) == ("active", "running", ["active"])
    declare_gone(node=node, **WORD)
    reap(world.pool)
    job = now_of(attempt.job)
    assert states(job) == ("queued", "lost", ["released"])
    assert (job.reason, job.retries_used, job.avoid_nodes) == ("node_lost", 1, [node.pk])
    assert job.reason_detail == f"node {node.name} was declared gone by otto: it burnt"
    assert Strike.objects.get(node=node).reason == "node_lost"
    cycle(world)
    assert ranks(live_attempt(job))[0].node_id != node.pk


def test_it_keeps_the_retry_rules_of_a_lost_node(world: World) -> None:
    attempt = start(world, retry={"max": 0})
    fall_silent(world, ranks(attempt)[0].node)
    declare_gone(node=ranks(attempt)[0].node, **WORD)
    reap(world.pool)
    assert states(attempt.job)[:2] == ("failed", "lost")


def test_a_job_that_was_cancelled_there_ends(world: World) -> None:
    attempt = start(world, on_disconnect="keep")
    node = ranks(attempt)[0].node
    fall_silent(world, node, 40_000)
    cancel_job(user=world.user, job=now_of(attempt.job))
    reap(world.pool)
    assert states(attempt.job) == ("active", "stopping", ["releasing"])
    declare_gone(node=node, **WORD)
    reap(world.pool)
    assert states(attempt.job) == ("cancelled", "cancelled", ["released"])
    retire_node(node=node, reason="burnt", actor="otto")
    assert now_of(node).admin == "retired"


def test_of_a_gang_the_ranks_that_can_be_heard_are_stopped_and_waited_for(world: World) -> None:
    attempt = start(world, nodes=2)
    first, second = ranks(attempt)
    fall_silent(world, first.node)
    declare_gone(node=first.node, **WORD)
    reap(world.pool)
    assert states(attempt.job) == ("active", "stopping", ["released", "releasing"])
    end(second)
    assert states(attempt.job)[:2] == ("queued", "lost")


def test_what_was_never_claimed_is_let_go_too(world: World) -> None:
    attempt = place(world)
    node = ranks(attempt)[0].node
    fall_silent(world, node, 20)
    declare_gone(node=node, **WORD)
    reap(world.pool)
    assert states(attempt.job) == ("queued", "lost", ["released"])


def test_who_why_and_what_was_let_go_is_on_record(world: World) -> None:
    over, attempt = start(world), None
    node = ranks(over)[0].node
    end(ranks(over)[0])
    while attempt is None or ranks(attempt)[0].node_id != node.pk:
        attempt = start(world)
    fall_silent(world, node)
    declare_gone(node=node, **WORD)
    entry = AuditEntry.objects.get(action="declare_gone")
    assert (entry.actor, entry.object_type, entry.object_id) == ("otto", "node", node.name)
    assert entry.before == {"admin": "active", "health": "down", "reason": ""}
    assert entry.after is not None
    heard_at, let_go = entry.after.pop("heard_at"), entry.after.pop("let_go")
    assert heard_at == NodeLease.objects.get(pk=node.pk).seen_at.isoformat()
    assert {"job": attempt.job_id, "attempt": 1, "rank": 0} in let_go
    assert over.job_id not in {one["job"] for one in let_go}
    assert entry.after == {"admin": "cordoned", "health": "down", "reason": "declared gone: it burnt"}
    event = Event.objects.get(kind="node.declared_gone")
    assert (event.actor, event.node_id) == ("otto", node.pk)
    assert event.data == {"node": node.name, "reason": "it burnt", "allocations": len(let_go)}


@pytest.mark.parametrize("admin", ["active", "cordoned", "draining"])
def test_the_node_is_cordoned_whatever_it_was(world: World, admin: str) -> None:
    node = world.nodes[0]
    if admin != "active":
        act = {"cordoned": cordon_node, "draining": drain_node}[admin]
        act(node=node, reason="fans", actor="olga")
    fall_silent(world, node, 20)
    declare_gone(node=node, **WORD)
    row = now_of(node)
    assert (row.admin, row.health, row.reason) == ("cordoned", "down", "declared gone: it burnt")
    assert (row.moves_jobs_off, NodeLease.objects.get(pk=node.pk).state) == (False, "expired")


def test_a_node_that_is_heard_is_not_gone(world: World) -> None:
    attempt = start(world)
    node = ranks(attempt)[0].node
    with pytest.raises(Conflict, match=rf"{node.name} was heard \d+ s ago: it is not gone"):
        declare_gone(node=node, **WORD)
    silent(node, 60)  # as if the reaper had been out
    with pytest.raises(Conflict, match="was heard 60 s ago"):
        declare_gone(node=node, **WORD)
    reap(world.pool)
    NodeLease.objects.filter(pk=node.pk).update(seen_at=timezone.now())  # it is on its way to be ready
    with pytest.raises(Conflict, match="was heard 0 s ago"):
        declare_gone(node=now_of(node), **WORD)
    assert states(attempt.job) == ("active", "running", ["active"])
    assert not AuditEntry.objects.filter(action="declare_gone").exists()


@pytest.mark.parametrize(
    ("fields", "says"), [({"health": "pending"}, "has ever spoken"), ({"admin": "retired"}, "is r")]
)
def test_a_node_that_has_never_spoken_or_is_retired_is_not_either(
    world: World, fields: dict[str, str], says: str
) -> None:
    node = world.nodes[0]
    silent(node, 60)
    Node.objects.filter(pk=node.pk).update(**{"health": "down", **fields})
    with pytest.raises(Conflict, match=says):
        declare_gone(node=node, **WORD)


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "x" * 501])
def test_a_reason_is_required(world: World, reason: str) -> None:
    fall_silent(world, world.nodes[0])
    with pytest.raises(Invalid):
        declare_gone(node=world.nodes[0], reason=reason, actor="otto")


def test_the_longest_reason_fits(world: World) -> None:
    fall_silent(world, world.nodes[0])
    declare_gone(node=world.nodes[0], reason="x" * 500, actor="otto")
    assert len(now_of(world.nodes[0]).reason) == 500


def test_a_node_that_is_heard_again_before_the_reaper_looks_has_lost_it_all_the_same(world: World) -> None:
    attempt = start(world)
    node = ranks(attempt)[0].node
    fall_silent(world, node)
    declare_gone(node=node, **WORD)
    renew(node=now_of(node), epoch=1, seq=1)
    reap(world.pool)
    assert states(attempt.job) == ("queued", "lost", ["released"])
    assert (now_of(node).health, now_of(node).admin) == ("ready", "cordoned")


def test_after_it_was_resumed_it_takes_jobs_and_keeps_them() -> None:
    world = make_world(nodes=1)
    (node,) = world.nodes
    fall_silent(world, node)
    declare_gone(node=node, **WORD)
    reap(world.pool)
    renew(node=now_of(node), epoch=1, seq=1)
    resume_node(node=now_of(node), reason="only the cable", actor="otto")
    attempt = start(world)
    reap(world.pool)
    assert states(attempt.job) == ("active", "running", ["active"])
    assert (now_of(node).gone_at, now_of(node).gone_why) == (None, "")


def test_it_is_not_resumed_before_what_lay_there_is_let_go(world: World) -> None:
    attempt = start(world, on_disconnect="keep")
    node = ranks(attempt)[0].node
    fall_silent(world, node)
    declare_gone(node=node, **WORD)
    renew(node=now_of(node), epoch=1, seq=1)
    with pytest.raises(Conflict, match="what lay there is not let go yet"):
        resume_node(node=now_of(node), reason="only the cable", actor="otto")
    assert (now_of(node).admin, now_of(node).gone_at is None) == ("cordoned", False)
    reap(world.pool)
    assert states(attempt.job) == ("queued", "lost", ["released"])
    resume_node(node=now_of(node), reason="only the cable", actor="otto")
    assert now_of(node).admin == "active"


def test_a_late_claim_and_a_late_end_change_nothing(world: World) -> None:
    waits, runs = place(world), start(world)
    for attempt in (waits, runs):
        node = ranks(attempt)[0].node
        if now_of(node).health == "ready":
            fall_silent(world, node)
            declare_gone(node=node, **WORD)
    reap(world.pool)
    with pytest.raises(Conflict):
        claim(ranks(waits)[0])
    end(ranks(runs)[0], Reason.COMPLETED)
    assert [states(one.job)[:2] for one in (waits, runs)] == [("queued", "lost")] * 2


def test_silent_nodes_are_declared_gone_with_a_reason_and_one_that_is_heard_is_not(client: Client) -> None:
    client.force_login(make_user("olga", operator=True))
    away, heard = make_node(health="down"), make_node()
    silent(away, 60)
    url = reverse("admin:fleet_node_changelist")
    data = {"action": "declare_gone", "_selected_action": [away.pk, heard.pk]}
    asked = client.post(url, data)
    assert "Declare gone" in asked.content.decode()
    assert "run nothing any more" in " ".join(asked.content.decode().split())
    answer = client.post(url, {**data, "apply": "1", "reason": "it burnt"}, follow=True)
    assert f"{away.name}: declare gone is done." in answer.content.decode()
    assert f"node {heard.name} was heard" in answer.content.decode()
    assert Node.objects.get(pk=away.pk).gone_why == "olga: it burnt"
    assert Node.objects.get(pk=heard.pk).gone_at is None


class TestWhileMoreThanHalfOfThePoolIsSilent:
    @pytest.fixture
    def held(self) -> World:
        world = make_world(nodes=5)
        for node in world.nodes[:3]:
            silent(node, 60)
        reap(world.pool)
        return world

    def healths(self, world: World) -> list[str]:
        return [now_of(node).health for node in world.nodes]

    def test_it_is_of_the_named_nodes_alone(self, held: World) -> None:
        assert self.healths(held) == ["suspect", "suspect", "suspect", "ready", "ready"]
        declare_gone(node=held.nodes[0], **WORD)
        for _ in range(2):
            reap(held.pool)
        assert self.healths(held) == ["down", "suspect", "suspect", "ready", "ready"]
        assert now_of(held.pool).silent_since is not None

    def test_the_last_word_ends_the_hold(self, held: World) -> None:
        for node in held.nodes[:3]:
            declare_gone(node=node, **WORD)
        reap(held.pool)
        assert now_of(held.pool).silent_since is None
        assert Event.objects.filter(kind="pool.mass_silence_over").count() == 1
        # What is silent after that is one node of two.
        fall_silent(held, held.nodes[3])
        assert self.healths(held)[3:] == ["down", "ready"]


@pytest.mark.django_db(transaction=True)
def test_a_beat_and_the_word_take_turns() -> None:
    world = make_world(nodes=1)
    (node,) = world.nodes
    fall_silent(world, node)

    def beat() -> None:
        renew(node=now_of(node), epoch=1, seq=1)

    with transaction.atomic():
        declare_gone(node=node, **WORD)
        other = Other(beat).until_it_waits()
    other.result()
    assert (now_of(node).admin, now_of(node).health) == ("cordoned", "ready")
