"""While more than half of a pool is silent no node is given up, however beats and looks fall. Time passes by UPDATE."""

from __future__ import annotations

import random

import pytest
from django.utils import timezone

from muster.dispatch.reaper import reap
from muster.events.models import Event, Outbox
from muster.fleet.leases import renew, tick
from muster.fleet.models import Node, Tick
from tests.db.stories import World, claim, let_answer, let_pass, make_world, now_of, place, ranks, silent, start, states

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

DAY_S = 86_400
PAST_THE_FENCE_S = 700


@pytest.fixture(autouse=True)
def _the_platform_has_answered_for_a_day(db: None) -> None:
    let_answer(DAY_S)


def healths(world: World) -> list[str]:
    return [now_of(node).health for node in world.nodes]


def told_of_the_hold() -> list[str]:
    kinds = Event.objects.filter(kind__startswith="pool.mass_silence").order_by("pk")
    return list(kinds.values_list("kind", flat=True))


def test_nothing_ends_and_operators_are_told_once(settings: object) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]  # type: ignore[attr-defined]
    world = make_world(nodes=4)
    for node in world.nodes[:3]:
        silent(node, 60)
    reap(world.pool)
    reap(world.pool)
    assert healths(world) == ["suspect", "suspect", "suspect", "ready"]
    assert told_of_the_hold() == ["pool.mass_silence"]
    assert Outbox.objects.count() == 1
    assert now_of(world.pool).silent_since is not None


def test_half_of_a_pool_may_go() -> None:
    world = make_world(nodes=4)
    for node in world.nodes[:2]:
        silent(node, 60)
    reap(world.pool)
    assert healths(world) == ["down", "down", "ready", "ready"]


def test_a_small_pool_may_go_whole() -> None:
    world = make_world(nodes=3)
    for node in world.nodes:
        silent(node, 60)
    reap(world.pool)
    assert healths(world) == ["down", "down", "down"]


def test_who_is_on_the_way_counts_with_the_first_that_would_go() -> None:
    world = make_world(nodes=7)
    for passed in (0, 2, 4, 6, 8, 10):
        for node, seconds in zip(world.nodes, (26, 28, 31, 33), strict=False):
            silent(node, seconds + passed)
        reap(world.pool)
    assert healths(world) == ["suspect"] * 4 + ["ready"] * 3
    assert told_of_the_hold() == ["pool.mass_silence"]


@pytest.mark.parametrize("seed", range(8))
def test_however_beats_and_looks_fall_a_cut_of_more_than_half_ends_nothing(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(4, 9)
    world = make_world(nodes=count, gpus=0)
    cut = draw.randint(count // 2 + 1, count)
    phases = [draw.uniform(0, 5) for _ in range(cut)]
    passed = 20.0
    while passed < 60:
        passed += draw.choice([0.5, 2.0, 9.0])
        for node, phase in zip(world.nodes, phases, strict=False):
            silent(node, passed + phase)
        for node in world.nodes[cut:]:
            silent(node, draw.uniform(0, 5))
        reap(world.pool)
    assert healths(world) == ["suspect"] * cut + ["ready"] * (count - cut)


@pytest.mark.parametrize("seed", range(4))
def test_however_they_fall_a_cut_of_half_ends_that_half(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(4, 9)
    world = make_world(nodes=count, gpus=0)
    cut = count // 2
    phases = [draw.uniform(0, 5) for _ in range(cut)]
    for passed in (26, 28, 30, 32):
        for node, phase in zip(world.nodes, phases, strict=False):
            silent(node, passed + phase)
        reap(world.pool)
    assert healths(world) == ["down"] * cut + ["ready"] * (count - cut)
    assert told_of_the_hold() == []


def test_patience_that_is_no_longer_than_suspicion_lets_nobody_slip_through() -> None:
    world = make_world(nodes=4, suspect_after_s=30)
    for passed in (0, 2, 4):
        for node, seconds in zip(world.nodes, (26, 28, 31), strict=False):
            silent(node, seconds + passed)
        reap(world.pool)
    assert "down" not in healths(world)


def test_those_that_went_down_just_before_count_for_as_long_as_it_lasts() -> None:
    world = make_world(nodes=4)
    silent(world.nodes[0], 40)
    reap(world.pool)
    for node in world.nodes[1:3]:
        silent(node, 40)
    reap(world.pool)
    assert healths(world) == ["down", "suspect", "suspect", "ready"]
    # Two of the three that are live are silent for longer than anybody remembers, and still it is one event.
    let_pass(DAY_S, world.pool, "silent_since")
    let_pass(DAY_S, world.nodes[0], "down_at")
    reap(world.pool)
    assert healths(world) == ["down", "suspect", "suspect", "ready"]


def test_those_that_went_down_long_before_do_not() -> None:
    world = make_world(nodes=6)
    for node in world.nodes[:2]:
        silent(node, 60)
    reap(world.pool)
    for node in world.nodes[:2]:
        let_pass(70, node, "down_at")
    for node in world.nodes[2:4]:
        silent(node, 60)
    reap(world.pool)
    assert healths(world) == ["down"] * 4 + ["ready"] * 2


def test_it_ends_when_nodes_are_heard_again() -> None:
    world = make_world(nodes=5)
    for node in world.nodes[:3]:
        silent(node, 60)
    reap(world.pool)
    assert healths(world)[:3] == ["suspect"] * 3
    renew(node=now_of(world.nodes[0]), epoch=1, seq=1)
    reap(world.pool)
    assert healths(world) == ["ready", "down", "down", "ready", "ready"]
    assert told_of_the_hold() == ["pool.mass_silence", "pool.mass_silence_over"]
    assert now_of(world.pool).silent_since is None


def test_an_outage_of_the_platform_does_not_end_it() -> None:
    world = make_world(nodes=4)
    for node in world.nodes[:3]:
        silent(node, 60)
    reap(world.pool)
    let_pass(300, Tick.objects.get(name="web"), "at")
    tick("web")
    reap(world.pool)
    let_pass(40, Tick.objects.get(name="web"), "answering_since")
    reap(world.pool)
    assert healths(world) == ["suspect", "suspect", "suspect", "ready"]
    assert told_of_the_hold() == ["pool.mass_silence"]


def test_operators_are_not_mailed_again_at_once(settings: object) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]  # type: ignore[attr-defined]
    world = make_world(nodes=4)
    for _ in range(2):
        for node in world.nodes[:3]:
            silent(node, 60)
        reap(world.pool)
        for node in world.nodes[:3]:
            renew(node=now_of(node), epoch=1, seq=1)
        reap(world.pool)
    assert told_of_the_hold() == ["pool.mass_silence", "pool.mass_silence_over"] * 2
    assert Outbox.objects.count() == 1


def test_what_went_down_with_it_keeps_its_gpus_past_the_fence_until_it_ends() -> None:
    world = make_world(nodes=4)
    attempt = start(world)
    first = ranks(attempt)[0].node
    others = [node for node in world.nodes if node.pk != first.pk]
    silent(first, PAST_THE_FENCE_S)
    Node.objects.filter(pk=first.pk).update(health="down", down_at=timezone.now())
    for node in others[:2]:
        silent(node, 60)
    reap(world.pool)
    assert states(attempt.job) == ("active", "running", ["active"])
    for node in others[:2]:
        renew(node=now_of(node), epoch=1, seq=1)
    reap(world.pool)
    assert states(attempt.job)[:2] == ("queued", "lost")


def test_what_was_left_behind_on_a_node_that_is_heard_again_is_let_go_meanwhile() -> None:
    world = make_world(nodes=5)
    attempt = place(world)
    claim(ranks(attempt)[0], state_id="first")
    first = ranks(attempt)[0].node
    others = [node for node in world.nodes if node.pk != first.pk]
    for node in others[:3]:
        silent(node, 60)
    reap(world.pool)
    assert now_of(world.pool).silent_since is not None
    Node.objects.filter(pk=first.pk).update(down_at=timezone.now(), state_id="second", state_since=timezone.now())
    let_pass(PAST_THE_FENCE_S, now_of(first), "state_since")
    reap(world.pool)
    assert now_of(world.pool).silent_since is not None
    assert states(attempt.job)[:2] == ("queued", "lost")


@pytest.mark.parametrize("admin", ["cordoned", "draining", "retired"])
def test_nodes_that_are_out_of_use_and_switched_off_say_nothing(admin: str) -> None:
    world = make_world(nodes=6)
    Node.objects.filter(pk__in=[node.pk for node in world.nodes[:4]]).update(admin=admin)
    for node in world.nodes[:5]:
        silent(node, 60)
    reap(world.pool)
    assert healths(world) == ["down"] * 5 + ["ready"]
    assert told_of_the_hold() == []


def test_a_node_that_is_drained_and_has_a_job_is_not_out_of_use() -> None:
    world = make_world(nodes=4)
    attempts = [start(world, gpus=4) for _ in range(3)]
    busy = {ranks(attempt)[0].node.pk for attempt in attempts}
    Node.objects.filter(pk__in=busy).update(admin="draining")
    for attempt in attempts:
        silent(ranks(attempt)[0].node, 60)
    reap(world.pool)
    assert sorted(healths(world)) == ["ready", "suspect", "suspect", "suspect"]
