"""Checks of GPUs between jobs: whom they are asked for, what comes of them, and what they give back."""

from __future__ import annotations

from typing import Any

import pytest

from muster.agents.health import take_check_results, take_health_events
from muster.agents.services import beat_answer
from muster.common.errors import Conflict
from muster.dispatch.reaper import reap
from muster.events.models import AuditEntry, Event
from muster.fleet.checks import ask_for_checks, begin_checks
from muster.fleet.models import Gpu, GpuCheck, Node, NodeLease, Pool
from muster.fleet.services import cordon_node, drain_node, move_jobs_off, repair_gpus, resume_node
from muster.jobs.attempt.blackholes import _cordon
from nodeagent.protocol.messages import CheckOutcome, CheckResult, HealthEvent
from scheduler.diagnosis.blackholes import Judgement, Opinion
from scheduler.diagnosis.checks import FIRST_PAUSE_S, IDLE_S, RELAPSE_S, UNANSWERED_AFTER_S
from scheduler.model.reasons import Reason
from tests.db.stories import World, end, let_pass, make_world, now_of, place, ranks, start

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


@pytest.fixture
def world() -> World:
    return make_world(nodes=2, gpus=2, check_release=2)


@pytest.fixture
def gpu(world: World) -> Gpu:
    """The first GPU of the first node."""
    return Gpu.objects.get(node=world.nodes[0], index=0)


def wanted(node: Node) -> dict[str, int]:
    """The checks that a beat asks of the node's agent."""
    return {one.gpu_uuid: one.number for one in beat_answer(now_of(node)).checks}


def tell(gpu: Gpu, outcome: CheckOutcome = CheckOutcome.PASSED, **fields: Any) -> None:
    """The agent answers the check that is wanted of it."""
    number = wanted(gpu.node).get(gpu.uuid, 0)
    result = CheckResult(number, gpu.uuid, outcome, how="matmul", duration_s=8.0, tflops=312.5, gb_s=1900.0)
    take_check_results(gpu.node, [CheckResult(**{**vars(result), **fields})])


def make_due(gpu: Gpu) -> None:
    row, _ = GpuCheck.objects.get_or_create(gpu=gpu)
    GpuCheck.objects.filter(pk=row.pk).update(due_at=row.due_at or "2026-01-01T00:00:00Z")
    let_pass(400 * 86_400, GpuCheck.objects.get(pk=row.pk), "due_at")


def check(gpu: Gpu, outcome: CheckOutcome = CheckOutcome.PASSED, **fields: Any) -> None:
    """The next check of the GPU becomes due, is asked for, and is answered."""
    make_due(gpu)
    reap(gpu.node.pool)
    assert gpu.uuid in wanted(gpu.node)
    tell(gpu, outcome, **fields)


def fail(gpu: Gpu, kind: str = "check_failed", xid: int | None = None) -> None:
    take_health_events(gpu.node, [HealthEvent(kind, gpu.uuid, "as told", xid)])
    assert now_of(gpu).health != "ok"


def restart(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(boot_id="boot-2")
    begin_checks(now_of(node), restarted=True)


def test_a_gpu_that_is_new_is_checked_at_a_time_of_its_own_and_then_regularly(world: World, gpu: Gpu) -> None:
    begin_checks(gpu.node, restarted=False)
    reap(world.pool)
    assert wanted(gpu.node) == {}
    let_pass(IDLE_S + world.pool.check_every_s, GpuCheck.objects.get(gpu=gpu), "due_at")
    reap(world.pool)
    reap(world.pool)
    assert wanted(gpu.node) == {gpu.uuid: 1}
    tell(gpu)
    row = GpuCheck.objects.get(gpu=gpu)
    assert wanted(gpu.node) == {}
    assert (row.result, row.how, row.tflops, row.gb_s, row.streak, row.used_s) == (
        "passed",
        "matmul",
        312.5,
        1900,
        1,
        8,
    )
    assert row.at is not None
    assert row.due_at is not None
    assert (row.due_at - row.at).total_seconds() == world.pool.check_every_s
    check(gpu)
    assert GpuCheck.objects.get(gpu=gpu).streak == 2
    assert Event.objects.filter(kind="gpu.check").count() == 1  # the second tells nothing new


def test_a_gpu_that_a_job_has_or_had_a_moment_ago_is_not_checked(world: World, gpu: Gpu) -> None:
    attempt = start(world)
    assert ranks(attempt)[0].claims.get().gpu == gpu
    for _ in range(2):
        make_due(gpu)
        reap(world.pool)
        assert wanted(gpu.node) == {}
        if attempt.state == "running":
            end(ranks(attempt)[0])
            attempt = now_of(attempt)
    let_pass(IDLE_S + 1, gpu.claims.get(), "released_at", "claimed_at")
    make_due(gpu)
    reap(world.pool)
    assert gpu.uuid in wanted(gpu.node)


def test_a_pool_may_switch_them_off_and_an_operator_may_still_ask(world: World, gpu: Gpu) -> None:
    Pool.objects.update(check_every_s=0)
    make_due(gpu)
    reap(Pool.objects.get())
    assert wanted(gpu.node) == {}
    NodeLease.objects.get_or_create(node=gpu.node)
    assert ask_for_checks(node=gpu.node, actor="olga") == 2
    assert set(wanted(gpu.node).values()) == {1}
    ask_for_checks(node=gpu.node, actor="olga")  # once is enough
    assert set(wanted(gpu.node).values()) == {1}
    tell(gpu)
    assert Event.objects.get(kind="gpu.check").data["asked_by"] == "olga"


def test_who_asks_for_a_node_that_is_full_or_away_is_told(world: World) -> None:
    node = world.nodes[0]
    place(world, gpus=2)
    with pytest.raises(Conflict, match="jobs hold all GPUs"):
        ask_for_checks(node=node, actor="olga")
    Node.objects.filter(pk=node.pk).update(health="down")
    with pytest.raises(Conflict, match="is down"):
        ask_for_checks(node=node, actor="olga")


def test_the_time_of_a_day_is_bounded(world: World, gpu: Gpu) -> None:
    Pool.objects.update(check_s_per_day=10)
    check(gpu, duration_s=7.0)
    check(gpu, duration_s=7.0)
    make_due(gpu)
    reap(Pool.objects.get())
    row = GpuCheck.objects.get(gpu=gpu)
    assert (wanted(gpu.node), row.used_s) == ({}, 14.0)
    assert row.due_at is not None
    assert row.due_at.date() > row.day


def test_a_check_that_nobody_answers_is_given_up(world: World, gpu: Gpu) -> None:
    make_due(gpu)
    reap(world.pool)
    let_pass(UNANSWERED_AFTER_S + 1, GpuCheck.objects.get(gpu=gpu), "asked_at")
    reap(world.pool)
    assert (wanted(gpu.node), GpuCheck.objects.get(gpu=gpu).result) == ({}, "unanswered")


def test_a_result_that_nobody_asked_for_changes_nothing(world: World, gpu: Gpu) -> None:
    make_due(gpu)
    reap(world.pool)
    other = Gpu.objects.get(node=world.nodes[1], index=0)
    for number, uuid in ((7, gpu.uuid), (1, other.uuid), (1, "no such GPU")):
        take_check_results(gpu.node, [CheckResult(number, uuid, CheckOutcome.FAILED)])
    assert wanted(gpu.node) == {gpu.uuid: 1}
    assert not Gpu.objects.exclude(health="ok").exists()


def test_what_an_agent_makes_up_is_kept_within_bounds(world: World, gpu: Gpu) -> None:
    check(gpu, how="h" * 99, detail="\x1b" + "d" * 999, duration_s=-1.0, tflops=1e300, gb_s=-4.0)
    row = GpuCheck.objects.get(gpu=gpu)
    assert (len(row.how), len(row.detail), row.detail[0]) == (20, 500, " ")
    assert (row.duration_s, row.tflops, row.gb_s) == (0, 1e9, 0)


def test_a_failed_check_takes_the_gpu_out_of_service_and_one_that_passes_gives_it_back(world: World, gpu: Gpu) -> None:
    check(gpu, CheckOutcome.FAILED, detail="a product of matrices is wrong")
    assert (now_of(gpu).healthy, now_of(gpu).health_why) == (False, "a check has failed")
    row = GpuCheck.objects.get(gpu=gpu)
    assert row.in_doubt
    assert row.due_at is not None
    assert row.at is not None
    assert (row.due_at - row.at).total_seconds() <= FIRST_PAUSE_S * 2 + 1
    check(gpu)
    assert (now_of(gpu).health, GpuCheck.objects.get(gpu=gpu).in_doubt) == ("ok", False)
    back = Event.objects.get(kind="gpu.given_back").data
    assert (back["was"], back["why"], back["reason"]) == (
        "failure",
        "a check has failed",
        "it has passed a check (matmul)",
    )


def test_a_gpu_that_fails_again_soon_stays_until_an_operator_repairs_it(world: World, gpu: Gpu) -> None:
    fail(gpu)
    check(gpu)
    assert now_of(gpu).health == "ok"
    fail(gpu)
    check(gpu)
    check(gpu)
    assert now_of(gpu).health == "failure"
    repair_gpus(node=gpu.node, reason="a new cable", actor="olga")
    fail(gpu)
    check(gpu)
    assert now_of(gpu).health == "ok"
    let_pass(RELAPSE_S + 60, GpuCheck.objects.get(gpu=gpu), "given_back_at")
    fail(gpu)
    check(gpu)
    assert now_of(gpu).health == "ok"


@pytest.mark.parametrize("needed", [0, 2])
def test_a_warning_that_can_heal_ends_after_as_many_checks_as_the_pool_asks_for(
    needed: int, world: World, gpu: Gpu
) -> None:
    Pool.objects.update(check_release=needed)
    fail(gpu, "throttle")
    check(gpu)
    assert now_of(gpu).health == "warning"
    check(gpu)
    assert now_of(gpu).health == ("ok" if needed else "warning")


def test_checks_that_passed_before_a_report_do_not_count(world: World, gpu: Gpu) -> None:
    check(gpu)
    check(gpu)
    fail(gpu, "throttle")
    check(gpu)
    assert now_of(gpu).health == "warning"


def test_what_needs_a_restart_comes_back_after_one_only(world: World, gpu: Gpu) -> None:
    Node.objects.filter(pk=gpu.node_id).update(boot_id="boot-1")
    fail(gpu, "xid", 48)
    fail(gpu, "check_failed")  # what is worse is remembered
    make_due(gpu)
    reap(world.pool)
    assert wanted(gpu.node) == {}  # a check could not show anything
    NodeLease.objects.get_or_create(node=gpu.node)
    ask_for_checks(node=gpu.node, actor="olga")
    tell(gpu)
    check_row = GpuCheck.objects.get(gpu=gpu)
    assert (now_of(gpu).health, check_row.streak) == ("failure", 1)
    restart(gpu.node)
    check(gpu)
    assert now_of(gpu).health == "failure"
    check(gpu)
    assert now_of(gpu).health == "ok"


def test_what_only_an_operator_can_judge_never_comes_back_by_itself(world: World, gpu: Gpu) -> None:
    fail(gpu, "row_remap_failed")
    restart(gpu.node)
    make_due(gpu)
    reap(world.pool)
    assert wanted(gpu.node) == {}
    ask_for_checks(node=gpu.node, actor="olga")
    tell(gpu)
    assert now_of(gpu).health == "failure"


def test_a_gpu_that_failed_before_anybody_noted_why_is_left_to_operators(world: World, gpu: Gpu) -> None:
    Gpu.objects.filter(pk=gpu.pk).update(health="failure")
    ask_for_checks(node=gpu.node, actor="olga")
    tell(gpu)
    assert now_of(gpu).health == "failure"


def test_after_a_job_that_failed_for_the_nodes_sake_its_gpus_are_checked_soon(world: World, gpu: Gpu) -> None:
    attempt = start(world)
    end(ranks(attempt)[0], Reason.UNKNOWN)
    row = GpuCheck.objects.get(gpu=gpu)
    assert row.in_doubt
    let_pass(FIRST_PAUSE_S + 1, row, "due_at")
    reap(world.pool)  # though it was freed a moment ago
    assert gpu.uuid in wanted(gpu.node)
    tell(gpu)
    assert not GpuCheck.objects.get(gpu=gpu).in_doubt


def test_a_job_that_comes_first_leaves_nothing_known(world: World, gpu: Gpu) -> None:
    check(gpu)
    check(gpu, CheckOutcome.STOPPED)
    row = GpuCheck.objects.get(gpu=gpu)
    assert (row.result, row.streak, row.asked_at) == ("passed", 1, None)


def resumed_because(node: Node) -> str:
    """The reason that the platform gave when it last resumed the node."""
    event = Event.objects.filter(kind="node.active", node_id=node.pk).latest("pk")
    return str(event.data["reason"])


def hole(node: Node) -> None:
    """The node is cordoned because it failed whatever came to it."""
    Node.objects.filter(pk=node.pk).update(admin="active")
    _cordon(now_of(node), Judgement(Opinion.BLACK_HOLE, jobs=(1, 2, 3), well_elsewhere=2, quick_elsewhere=0))


def test_a_node_that_failed_everything_is_resumed_when_all_its_gpus_passed_and_once_only(world: World) -> None:
    node = world.nodes[0]
    hole(node)
    first, second = Gpu.objects.filter(node=node).order_by("index")
    for gpu in (first, second, first):
        check(gpu)
        assert now_of(node).admin == "cordoned"
    check(second)
    assert (now_of(node).admin, now_of(node).black_hole_at) == ("active", None)
    assert resumed_because(node) == "each of its 2 GPUs has passed 2 checks in a row"
    assert now_of(node).reason == ""
    hole(node)
    for gpu in (first, second, first, second):
        check(gpu)
    assert now_of(node).admin == "cordoned"


def test_a_node_that_an_operator_cordoned_is_left_alone(world: World) -> None:
    node = world.nodes[0]
    cordon_node(node=node, reason="a fan", actor="olga")
    for _ in range(2):
        for gpu in Gpu.objects.filter(node=node):
            check(gpu)
    assert now_of(node).admin == "cordoned"


def test_a_pool_that_does_not_say_so_leaves_such_a_node_to_operators(world: World) -> None:
    Pool.objects.update(check_release=0)
    hole(world.nodes[0])
    for _ in range(2):
        for gpu in Gpu.objects.filter(node=world.nodes[0]):
            check(gpu)
    assert now_of(world.nodes[0]).admin == "cordoned"


def give_back_after_restart(*gpus: Gpu) -> None:
    """The machine is restarted, and each of the GPUs passes as many checks as its pool asks for."""
    restart(gpus[0].node)
    for gpu in (*gpus, *gpus):
        check(gpu)


def drained(gpu: Gpu) -> Node:
    """The node, which the platform has drained because the GPU fell off the bus."""
    Node.objects.filter(pk=gpu.node_id).update(boot_id="boot-1")
    fail(gpu, "gpu_lost")
    assert now_of(gpu.node).admin == "draining"
    return now_of(gpu.node)


def test_a_node_that_was_drained_for_a_gpu_is_opened_with_the_last_that_is_given_back(world: World, gpu: Gpu) -> None:
    other = Gpu.objects.get(node=gpu.node, index=1)
    node = drained(gpu)
    fail(other, "xid", 48)
    give_back_after_restart(gpu)
    assert (now_of(gpu).health, now_of(node).admin) == ("ok", "draining")
    give_back_after_restart(other)
    node = now_of(node)
    assert (node.admin, node.drained_for_gpu_at) == ("active", None)
    why = "GPU 1, the last that had failed, works again: it has passed 2 checks in a row (matmul)"
    assert (resumed_because(node), node.reason) == (why, "")
    act = AuditEntry.objects.filter(object_type="node", object_id=node.name).latest("pk")
    assert (act.action, act.actor, act.after["reason"]) == ("active", "platform", why)
    assert Event.objects.filter(kind="node.active", node_id=node.pk, actor="platform").count() == 1


def test_a_node_that_fails_again_within_a_day_stays_drained(world: World, gpu: Gpu) -> None:
    other = Gpu.objects.get(node=gpu.node, index=1)
    drained(gpu)
    give_back_after_restart(gpu)
    node = drained(other)
    give_back_after_restart(other)
    assert (now_of(other).health, now_of(node).admin) == ("ok", "draining")


@pytest.mark.parametrize("when", ["before", "cleared since", "drained again since", "cordoned since"])
def test_a_node_that_a_person_had_to_do_with_stays_drained(world: World, gpu: Gpu, when: str) -> None:
    node = gpu.node
    if when == "before":
        drain_node(node=node, reason="a fan", actor="olga")
    drained(gpu)
    if when == "cleared since":
        move_jobs_off(node=node, reason="a fan", actor="olga")
    elif when == "drained again since":
        resume_node(node=node, reason="a look", actor="olga")
        drain_node(node=node, reason="a fan", actor="olga")
    elif when == "cordoned since":
        cordon_node(node=node, reason="a fan", actor="olga")
    before = now_of(node).admin
    give_back_after_restart(gpu)
    assert now_of(gpu).health == "ok"
    assert (now_of(node).admin, now_of(node).reason) == (before, "a fan")


def test_a_pool_whose_checks_give_nothing_back_leaves_it_drained(world: World, gpu: Gpu) -> None:
    Pool.objects.update(check_release=0)
    node = drained(gpu)
    give_back_after_restart(gpu)
    assert (now_of(gpu).health, now_of(node).admin) == ("failure", "draining")
