"""Strikes of a node: their causes, how long they count, and where jobs go meanwhile. Time passes by UPDATE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from muster.common.clock import database_now
from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.dispatch.cycles import replay, stored_snapshot
from muster.dispatch.models import Cycle
from muster.dispatch.reaper import reap
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.events.models import AuditEntry, Event
from muster.fleet.leases import tick
from muster.fleet.models import Gpu, Node, NodeLease, Pool, Strike, StrikeReason, Tick
from muster.fleet.strikes import forgive_strikes, strikes_of
from muster.jobs.attempt.attempts import lose_allocations
from muster.jobs.models import Attempt
from muster.jobs.services import cancel_job
from nodeagent.protocol.messages import HealthEvent
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent, inventory
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    start,
    submit,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

DAY_S = 86_400
ONCE = {"retry": {"max": 0, "on": ["infrastructure"]}}


@pytest.fixture
def world() -> World:
    return make_world(nodes=2)


def node_of(attempt: Attempt, rank: int = 0) -> Node:
    return ranks(attempt)[rank].node


def fail_launch(world: World, reason: Reason = Reason.LAUNCH_FAILED, **spec: Any) -> Attempt:
    """A job that its node could not start."""
    attempt = place(world, **ONCE, **spec)
    allocation = claim(ranks(attempt)[0])
    end(allocation, reason, detail="cannot start: No space left on device", started=False)
    return attempt


def strike(
    node: Node, *, age_s: float = 0, number: int = 1, reason: StrikeReason = StrikeReason.LAUNCH_FAILED
) -> Strike:
    """A strike of that age."""
    row = Strike.objects.create(
        node=node, reason=reason, job_id=number, attempt_id=number, incident=f"{age_s} {number}"
    )
    let_pass(age_s, row, "at")
    return row


def counted(node: Node) -> float:
    return next(seen.strikes for seen in pool_snapshot(node.pool, seed=1).nodes if seen.id == node.pk)


def told() -> list[tuple[int, str]]:
    return list(Strike.objects.order_by("pk").values_list("node_id", "reason"))


@pytest.mark.parametrize("reason", list(StrikeReason))
def test_every_reason_is_documented(reason: StrikeReason) -> None:
    assert f"\n| `{reason}` |" in (Path(__file__).parents[3] / "docs" / "operator" / "strikes.md").read_text()


class TestBlame:
    @pytest.mark.parametrize("reason", [Reason.LAUNCH_FAILED, Reason.NEVER_STARTED])
    def test_a_launch_that_the_agent_reports_as_failed_strikes_its_node(self, reason: Reason, world: World) -> None:
        attempt = fail_launch(world, reason)
        (row,) = Strike.objects.all()
        assert (row.node, row.gpu, row.reason) == (node_of(attempt), None, reason.value)
        assert (row.job_id, row.attempt_id) == (attempt.job_id, attempt.pk)
        assert row.detail == "cannot start: No space left on device"
        assert Event.objects.filter(kind="node.struck", node_id=row.node_id).count() == 1

    @pytest.mark.parametrize(
        "reason",
        [
            Reason.EXIT_NONZERO,
            Reason.KILLED_BY_SIGNAL,
            Reason.COMMAND_NOT_FOUND,
            Reason.CODE_UNAVAILABLE,
            Reason.TIME_LIMIT,
            Reason.AGENT_STOPPED,
            Reason.UNKNOWN,
            Reason.DISK_EXCEEDED,
            Reason.COMPLETED,
        ],
    )
    def test_what_a_job_may_have_done_itself_strikes_nobody(self, reason: Reason, world: World) -> None:
        end(ranks(start(world, **ONCE))[0], reason)
        assert told() == []

    def test_a_cancelled_job_that_never_started_strikes_nobody(self, world: World) -> None:
        attempt = place(world)
        allocation = claim(ranks(attempt)[0])
        cancel_job(user=world.user, job=attempt.job)
        end(allocation, Reason.NEVER_STARTED, started=False)
        assert told() == []

    def test_of_a_gang_the_rank_that_failed_first_strikes(self, world: World) -> None:
        attempt = place(world, nodes=2, gpus=4, **ONCE)
        first, second = (claim(one) for one in ranks(attempt))
        end(second, Reason.LAUNCH_FAILED, started=False)
        end(first, Reason.LAUNCH_FAILED, started=False)
        assert told() == [(second.node_id, "launch_failed")]

    def test_a_launch_that_fails_on_a_full_disk_strikes_nobody(self, world: World) -> None:
        Node.objects.update(disk_full_at=DatabaseNow())
        fail_launch(world)
        assert told() == []

    def test_the_same_end_told_twice_strikes_once(self, world: World) -> None:
        attempt = fail_launch(world)
        end(ranks(attempt)[0], Reason.LAUNCH_FAILED, started=False)
        assert len(told()) == 1

    def test_a_job_that_fails_to_start_everywhere_strikes_one_node(self, world: World) -> None:
        job = submit(world, retry={"max": 3, "on": ["infrastructure"]})
        nodes = []
        for _ in range(3):
            let_pass(DAY_S, job, "eligible_at")
            cycle(world)
            allocation = claim(ranks(live_attempt(job))[0])
            nodes.append(allocation.node_id)
            end(allocation, Reason.LAUNCH_FAILED, started=False)
        assert len(set(nodes)) == 2
        assert {node_id for node_id, _ in told()} == {nodes[0]}

    def test_nodes_that_do_not_claim_in_time_are_struck(self, world: World) -> None:
        the_platform_has_answered_for_a_day()
        attempt = place(world, nodes=2, gpus=4)
        claim(ranks(attempt)[0])
        let_pass(100, attempt, "placed_at")
        reap(world.pool)
        assert told() == [(node_of(attempt, 1).pk, "not_claimed")]

    def test_a_node_that_vanished_is_struck_once_for_all_its_jobs(self, world: World) -> None:
        the_platform_has_answered_for_a_day()
        attempts = [start(world, gpus=2, on_disconnect="stop") for _ in range(2)]
        node = node_of(attempts[0])
        assert node == node_of(attempts[1])
        vanish(node)
        assert [now_of(attempt).state for attempt in attempts] == ["lost", "lost"]
        assert told() == [(node.pk, "node_lost")]
        assert Strike.objects.get().attempt_id in {attempt.pk for attempt in attempts}

    def test_the_next_silence_is_another_strike(self, world: World) -> None:
        the_platform_has_answered_for_a_day()
        for _ in range(2):
            Node.objects.filter(pk=world.nodes[1].pk).update(admin="cordoned")
            Node.objects.update(health="ready")
            NodeLease.objects.update(seen_at=timezone.now())
            vanish(node_of(start(world)))
        assert [reason for _, reason in told()] == ["node_lost", "node_lost"]

    def test_a_strike_is_written_with_what_it_is_for_or_not_at_all(self, world: World) -> None:
        attempt = start(world)
        with transaction.atomic():
            lose_allocations(
                attempt_id=attempt.pk,
                node_id=node_of(attempt).pk,
                reason=Reason.NODE_LOST,
                detail="",
                actor="platform",
            )
            assert (len(told()), now_of(attempt).state) == (1, "lost")
            transaction.set_rollback(True)
        assert (told(), now_of(attempt).state) == ([], "running")

    def test_an_incident_counts_once_whoever_inserts_it(self, world: World) -> None:
        row = strike(world.nodes[0])
        with pytest.raises(IntegrityError), transaction.atomic():
            Strike.objects.create(node=row.node, reason=row.reason, job_id=9, attempt_id=9, incident=row.incident)


@pytest.mark.django_db(transaction=True)
class TestAgents:
    def test_a_reboot_under_a_job_strikes(self, agent: Agent, world: World) -> None:
        attempts = [start(world, gpus=2) for _ in range(2)]
        assert {node_of(attempt).pk for attempt in attempts} == {world.nodes[0].pk}
        agent.boot_id = "boot-2"
        assert agent.register(inventory=inventory()).status_code == 200
        assert told() == [(world.nodes[0].pk, "node_rebooted")]

    def test_a_reboot_of_an_empty_node_strikes_nobody(self, agent: Agent) -> None:
        agent.boot_id = "boot-2"
        assert agent.register(inventory=inventory()).status_code == 200
        assert told() == []

    @pytest.mark.parametrize(("kind", "reason"), [("gpu_lost", "gpu_lost"), ("ecc", "gpu_ecc")])
    def test_a_gpu_that_fails_under_a_job_strikes(self, kind: str, reason: str, agent: Agent, world: World) -> None:
        attempt = start(world)
        gpu = ranks(attempt)[0].claims.get().gpu
        for _ in range(2):  # an agent may say it again
            agent.sync(health=(HealthEvent(kind, gpu.uuid, "it broke"),))
        (row,) = Strike.objects.all()
        assert (row.node, row.gpu, row.reason, row.detail) == (world.nodes[0], gpu, reason, "it broke")
        assert (row.job_id, row.attempt_id) == (attempt.job_id, attempt.pk)

    def test_two_gpus_under_one_job_are_two_strikes(self, agent: Agent, world: World) -> None:
        uuids = ranks(start(world, gpus=2))[0].claims.values_list("gpu__uuid", flat=True)
        agent.sync(health=tuple(HealthEvent("gpu_lost", uuid) for uuid in uuids))
        assert len(told()) == 2

    def test_a_gpu_that_fails_under_nobody_strikes_nobody(self, agent: Agent, world: World) -> None:
        agent.sync(health=(HealthEvent("gpu_lost", f"GPU-{world.nodes[0].name}-0"),))
        assert Gpu.objects.filter(healthy=False).count() == 1
        assert told() == []

    @pytest.mark.parametrize("kind", ["xid", "throttle", "other"])
    def test_an_event_that_the_job_may_have_caused_strikes_nobody(self, kind: str, agent: Agent, world: World) -> None:
        gpu = ranks(start(world))[0].claims.get().gpu
        agent.sync(health=(HealthEvent(kind, gpu.uuid, "Xid 13", 13),))
        assert told() == []

    def test_a_node_cannot_blame_the_gpu_of_another(self, agent: Agent, world: World) -> None:
        Node.objects.filter(pk=world.nodes[0].pk).update(admin="cordoned")
        gpu = ranks(start(world))[0].claims.get().gpu
        assert gpu.node == world.nodes[1]
        agent.sync(health=(HealthEvent("gpu_lost", gpu.uuid),))
        assert (told(), now_of(gpu).healthy) == ([], True)


class TestCount:
    def test_a_strike_counts_half_after_each_half_life(self, world: World) -> None:
        node = world.nodes[0]
        for number, age_s in enumerate([0, DAY_S, DAY_S, 3 * DAY_S]):
            strike(node, age_s=age_s, number=number)
        assert counted(node) == pytest.approx(1 + 0.5 + 0.5 + 0.125, abs=0.002)
        assert counted(world.nodes[1]) == 0

    def test_the_half_life_is_the_pools(self, world: World) -> None:
        strike(world.nodes[0], age_s=DAY_S)
        Pool.objects.update(strike_half_life_s=DAY_S / 2)
        assert counted(now_of(world.nodes[0])) == pytest.approx(0.25, abs=0.002)

    def test_an_old_strike_comes_to_nothing(self, world: World) -> None:
        strike(world.nodes[0], age_s=10 * DAY_S + 1)
        assert counted(world.nodes[0]) == 0

    def test_a_strike_of_a_moment_that_comes_counts_whole(self, world: World) -> None:
        strike(world.nodes[0], age_s=-60)
        assert counted(world.nodes[0]) == 1

    def test_each_node_is_counted_in_its_own_pool(self, world: World) -> None:
        other = make_world(strike_half_life_s=DAY_S / 2)
        nodes = [world.nodes[0], other.nodes[0]]
        for node in nodes:
            strike(node, age_s=DAY_S)
        found = strikes_of([node.pk for node in nodes], now=database_now())
        assert [found[node.pk] for node in nodes] == [pytest.approx(0.5, abs=0.002), pytest.approx(0.25, abs=0.002)]

    def test_however_many_nodes_there_are_it_is_one_query(self, world: World) -> None:
        def queries() -> int:
            with CaptureQueriesContext(
                connection,
            ) as seen:
                pool_snapshot(world.pool, seed=1)
            assert sum("sum(power(" in one["sql"] for one in seen.captured_queries) == 1
            return len(seen)

        first, *others = [*world.nodes, *make_world(nodes=5).nodes]
        strike(first)
        few = queries()
        for node in others:
            Node.objects.filter(pk=node.pk).update(pool=world.pool)
            strike(node)
        assert queries() == few
        assert [seen.strikes for seen in pool_snapshot(world.pool, seed=1).nodes] == [1.0] * 7

    @pytest.mark.parametrize("half_life_s", [0, -1, 366 * DAY_S])
    def test_a_half_life_must_be_one(self, half_life_s: float, world: World) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            Pool.objects.update(strike_half_life_s=half_life_s)


class TestPlaces:
    def test_after_one_launch_failure_the_next_job_goes_elsewhere(self, world: World) -> None:
        bad, good = world.nodes
        assert node_of(fail_launch(world)) == bad
        assert node_of(place(world)) == good

    def test_after_many_jobs_avoid_the_node_until_they_have_decayed(self, world: World) -> None:
        bad, good = world.nodes
        Node.objects.filter(pk=good.pk).update(admin="cordoned")
        for _ in range(4):
            assert node_of(fail_launch(world)) == bad
        start(world)
        Node.objects.filter(pk=good.pk).update(admin="active")
        # With three GPUs left, the bad node would be the tighter fit, which comes before the number of strikes.
        elsewhere = place(world, gpus=3)
        assert node_of(elsewhere) == good
        end(claim(ranks(elsewhere)[0]))
        for row in Strike.objects.all():
            let_pass(2 * DAY_S, row, "at")
        assert counted(bad) == pytest.approx(1, abs=0.01)
        assert node_of(place(world, gpus=3)) == bad

    def test_a_node_with_many_strikes_is_still_the_last_choice(self, world: World) -> None:
        bad, good = world.nodes
        for number in range(4):
            strike(bad, number=number)
        assert node_of(place(world, gpus=4)) == good
        assert node_of(place(world, gpus=4)) == bad

    def test_a_stored_cycle_is_replayed_with_the_strikes_of_its_time(self, world: World) -> None:
        bad, good = world.nodes
        strike(bad, age_s=DAY_S)
        assert node_of(place(world)) == good
        stored = Cycle.objects.order_by("pk").last()
        assert stored is not None
        forgive_strikes(node=bad, reason="new disk", actor="olga")
        assert [node.strikes for node in stored_snapshot(stored).nodes] == [0.5, 0.0]
        for plan in replay(stored):
            assert [share.node_id for one in plan.places for share in one.allocations] == [good.pk]

    def test_a_strike_makes_no_plan_stale(self, world: World) -> None:
        before = [node.version for node in world.nodes]
        fail_launch(world)
        assert [now_of(node).version for node in world.nodes] == before


class TestForgive:
    def test_forgiven_strikes_no_longer_count_and_stay_on_record(self, world: World) -> None:
        node, other = world.nodes
        for number in range(3):
            strike(node, number=number)
        strike(other)
        forgive_strikes(node=node, reason="new disk", actor="olga")
        assert (counted(node), counted(other)) == (0, 1)
        assert Strike.objects.filter(node=node, forgiven_at__isnull=False).count() == 3
        entry = AuditEntry.objects.get(object_type="node", action="forgive")
        assert (entry.actor, entry.object_id) == ("olga", node.name)
        assert (entry.before, entry.after) == ({"strikes": 3, "counted": 3.0}, {"strikes": 0, "reason": "new disk"})
        assert Event.objects.filter(kind="node.forgiven", node_id=node.pk).exists()

    def test_what_comes_after_counts_again(self, world: World) -> None:
        node = node_of(fail_launch(world))
        forgive_strikes(node=node, reason="new disk", actor="olga")
        assert node_of(fail_launch(world)) == node
        assert counted(node) == 1

    def test_a_node_without_strikes_has_none_to_forgive(self, world: World) -> None:
        with pytest.raises(Conflict):
            forgive_strikes(node=world.nodes[0], reason="new disk", actor="olga")

    def test_it_takes_a_reason(self, world: World) -> None:
        row = strike(world.nodes[0])
        with pytest.raises(Invalid):
            forgive_strikes(node=row.node, reason=" ", actor="olga")
        assert now_of(row).forgiven_at is None


def the_platform_has_answered_for_a_day() -> None:
    for name in ("web", "reaper"):
        tick(name)
        let_pass(DAY_S, Tick.objects.get(name=name), "answering_since")


def vanish(node: Node) -> None:
    """The node is silent until the fence of what runs there has passed."""
    let_pass(1000, NodeLease.objects.get(pk=node.pk), "seen_at")
    for _ in range(2):
        reap(node.pool)
