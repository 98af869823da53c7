"""The reaper's acts on silent nodes and attempts without reports. Time passes by UPDATE."""

from __future__ import annotations

import pytest
from django.utils import timezone

from muster.agents.launch import launch_spec
from muster.dispatch.reaper import reap
from muster.events.models import Event, Outbox
from muster.fleet.leases import renew, tick
from muster.fleet.models import Node, NodeLease, Pool, Strike, Tick
from muster.jobs.models import Attempt
from muster.jobs.services import cancel_job
from scheduler.model.lifecycle import HoldReason
from scheduler.model.reasons import Reason
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    held,
    let_answer,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    run,
    silent,
    start,
    states,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]

DAY_S = 86_400
# stop_after + grace + margin of a pool and a job with the default settings
FENCE_S = 600 + 30 + 30


@pytest.fixture(autouse=True)
def _the_platform_has_answered_for_a_day(db: None) -> None:
    let_answer(DAY_S)


@pytest.fixture
def world() -> World:
    return make_world(nodes=3)


def stop_after(world: World, seconds: float) -> None:
    """An operator edits the pool."""
    Pool.objects.filter(pk=world.pool.pk).update(stop_after_s=seconds)


def lowered(world: World) -> tuple[float | None, float | None]:
    """From how much the pool's `stop_after_s` was lowered, and how long ago."""
    pool = now_of(world.pool)
    return pool.lowered_from_s, pool.lowered_at and (timezone.now() - pool.lowered_at).total_seconds()


def node_of(attempt: Attempt, rank: int = 0) -> Node:
    return ranks(attempt)[rank].node


def replace_state(node: Node, ago_s: float, *, state_id: str = "second") -> None:
    """The node's agent has had this state folder for so long, and is heard."""
    Node.objects.filter(pk=node.pk).update(state_id=state_id, state_since=timezone.now())
    let_pass(ago_s, now_of(node), "state_since")
    NodeLease.objects.filter(pk=node.pk).update(seen_at=timezone.now())


def health(node: Node) -> str:
    return now_of(node).health


def fence_in_s(attempt: Attempt) -> float:
    return (now_of(attempt).fence_at - timezone.now()).total_seconds()


class TestHealth:
    def test_a_node_that_is_heard_stays_ready(self, world: World) -> None:
        silent(world.nodes[0], 10)
        reap(world.pool)
        assert health(world.nodes[0]) == "ready"

    def test_a_silent_node_is_suspect_first_and_then_down(self, world: World) -> None:
        node = world.nodes[0]
        silent(node, 20)
        reap(world.pool)
        assert health(node) == "suspect"
        silent(node, 31)
        reap(world.pool)
        assert health(node) == "down"
        assert NodeLease.objects.get(pk=node.pk).state == "expired"
        assert [kind for kind in Event.objects.order_by("pk").values_list("kind", flat=True) if "node." in kind] == [
            "node.suspect",
            "node.down",
        ]

    def test_a_node_that_was_silent_for_long_is_down_at_once(self, world: World) -> None:
        silent(world.nodes[0], 1000)
        reap(world.pool)
        assert health(world.nodes[0]) == "down"

    def test_nothing_new_is_placed_on_a_node_that_is_not_ready(self, world: World) -> None:
        for node in world.nodes:
            silent(node, 20)
        reap(world.pool)
        with pytest.raises(Attempt.DoesNotExist):
            place(world)

    @pytest.mark.parametrize("seconds", [20, 100])
    def test_a_beat_makes_it_ready_again(self, world: World, seconds: float) -> None:
        node = world.nodes[0]
        silent(node, seconds)
        reap(world.pool)
        renew(node=now_of(node), epoch=1, seq=1)
        reap(world.pool)
        assert health(node) == "ready"

    def test_a_node_that_never_registered_is_not_judged(self, world: World) -> None:
        node = world.nodes[0]
        Node.objects.filter(pk=node.pk).update(health="pending")
        silent(node, 1000)
        reap(world.pool)
        assert health(node) == "pending"

    def test_operators_are_told_of_a_node_that_is_down_once(self, world: World, settings: object) -> None:
        settings.OPERATORS_MAIL = ["ops@example.org"]  # type: ignore[attr-defined]
        silent(world.nodes[0], 100)
        reap(world.pool)
        reap(world.pool)
        assert [row.payload["subject"] for row in Outbox.objects.all()] == [f"Node {world.nodes[0].name} is down"]


class TestTheSilenceOfThePlatform:
    def test_no_lease_ends_while_the_web_process_is_out(self, world: World) -> None:
        let_pass(60, Tick.objects.get(name="web"), "at")
        silent(world.nodes[0], 60)
        reap(world.pool)
        assert health(world.nodes[0]) == "ready"

    def test_no_lease_ends_before_the_web_process_has_ever_answered(self, world: World) -> None:
        Tick.objects.filter(name="web").delete()
        silent(world.nodes[0], 60)
        reap(world.pool)
        assert health(world.nodes[0]) == "ready"

    @pytest.mark.parametrize("part", ["web", "reaper"])
    def test_after_a_gap_every_node_gets_a_full_period(self, world: World, part: str) -> None:
        let_pass(300, Tick.objects.get(name=part), "at")
        tick(part)
        silent(world.nodes[0], 300)
        reap(world.pool)
        assert health(world.nodes[0]) == "ready"
        let_pass(20, Tick.objects.get(name=part), "answering_since")
        reap(world.pool)
        assert health(world.nodes[0]) == "suspect"
        let_pass(20, Tick.objects.get(name=part), "answering_since")
        reap(world.pool)
        assert health(world.nodes[0]) == "down"

    def test_after_the_clock_was_set_back_nodes_are_judged_as_before(self, world: World) -> None:
        five_hours = -5 * 3600
        for part in ("web", "reaper"):
            for field in ("at", "answering_since"):
                let_pass(five_hours, Tick.objects.get(name=part), field)
            tick(part)
            let_pass(60, Tick.objects.get(name=part), "answering_since")
        silent(world.nodes[0], 60)
        reap(world.pool)
        assert health(world.nodes[0]) == "down"

    def test_a_short_pause_is_no_gap(self, world: World) -> None:
        let_pass(8, Tick.objects.get(name="web"), "at")
        tick("web")
        silent(world.nodes[0], 60)
        reap(world.pool)
        assert health(world.nodes[0]) == "down"

    def test_attempts_that_could_not_be_claimed_meanwhile_get_a_full_period_too(self, world: World) -> None:
        attempt = place(world)
        let_pass(300, attempt, "placed_at")
        let_pass(300, Tick.objects.get(name="web"), "at")
        reap(world.pool)
        assert states(attempt.job)[:2] == ("active", "placed")
        tick("web")
        reap(world.pool)
        assert states(attempt.job)[:2] == ("active", "placed")
        let_pass(61, Tick.objects.get(name="web"), "answering_since")
        reap(world.pool)
        assert now_of(attempt).reason == "not_claimed"


class TestUnreachable:
    def test_an_attempt_on_a_node_that_is_down_is_unreachable_and_keeps_its_gpus(self, world: World) -> None:
        attempt = start(world)
        silent(node_of(attempt), 60)
        reap(world.pool)
        assert states(attempt.job) == ("active", "running", ["active"])
        since = (timezone.now() - now_of(attempt).unreachable_since).total_seconds()
        assert since == pytest.approx(60, abs=10)
        assert fence_in_s(attempt) == pytest.approx(FENCE_S - 60, abs=10)

    def test_the_fence_counts_the_grace_of_the_job(self, world: World) -> None:
        attempt = start(world, checkpoint={"grace": "300s"})
        silent(node_of(attempt), 60)
        reap(world.pool)
        assert fence_in_s(attempt) == pytest.approx(600 + 300 + 30 - 60, abs=10)

    def test_the_fence_keeps_to_what_the_agent_was_told_at_the_launch(self, world: World) -> None:
        Pool.objects.filter(pk=world.pool.pk).update(stop_after_s=7200)
        attempt = start(world, checkpoint={"grace": "300s"})
        Pool.objects.filter(pk=world.pool.pk).update(stop_after_s=600, max_grace_s=60)
        assert launch_spec(node_of(attempt), ranks(attempt)[0]).stop_after_s == 7200
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(1.03 * (7200 + 300) - 60, abs=10)

    def test_it_does_so_after_the_pool_has_forgotten_that_time(self, world: World) -> None:
        stop_after(world, 7200)
        attempt = start(world)
        stop_after(world, 600)
        let_pass(7200 + DAY_S + 60, world.pool, "lowered_at")
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(1.03 * (7200 + 30) - 60, abs=10)

    def test_the_fence_follows_a_pool_that_was_given_more_time(self, world: World) -> None:
        attempt = start(world)
        stop_after(world, 7200)
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(1.03 * (7200 + 30) - 60, abs=10)

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_hours_that_were_granted_and_taken_back_count_for_who_may_go_by_them(self, world: World, when: str) -> None:
        # The agent that starts a job after that has the longer lease on its disk until its next beat is answered.
        attempts = [start(world)] if when == "before" else []
        stop_after(world, 7200)
        stop_after(world, 600)
        attempts += [start(world)] if when == "after" else []
        (attempt,) = attempts
        assert attempt.stop_after_s == 600
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(1.03 * (7200 + 30) - 60, abs=10)

    def test_of_a_node_that_was_heard_later_they_count_from_when_they_were_taken_back(self, world: World) -> None:
        attempt = start(world)
        stop_after(world, 7200)
        stop_after(world, 600)
        let_pass(5000, world.pool, "lowered_at")
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(1.03 * (7200 + 30) - 5000, abs=10)

    def test_once_they_are_over_the_fence_is_as_before(self, world: World) -> None:
        attempt = start(world)
        stop_after(world, 7200)
        stop_after(world, 600)
        let_pass(7200, world.pool, "lowered_at")
        silent(node_of(attempt), 60)
        reap(now_of(world.pool))
        assert fence_in_s(attempt) == pytest.approx(FENCE_S - 60, abs=10)

    def test_a_node_that_comes_back_clears_it(self, world: World) -> None:
        attempt = start(world)
        silent(node_of(attempt), 60)
        reap(world.pool)
        renew(node=now_of(node_of(attempt)), epoch=1, seq=1)
        reap(world.pool)
        attempt = now_of(attempt)
        assert (attempt.state, attempt.unreachable_since, attempt.fence_at) == ("running", None, None)

    def test_a_gang_of_which_one_rank_has_ended_is_marked_for_the_node_that_is_away(self, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        end(first)
        silent(second.node, 60)
        reap(world.pool)
        assert now_of(attempt).unreachable_since is not None

    def test_a_node_on_which_nothing_is_held_any_more_marks_nothing(self, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        end(first)
        silent(first.node, 60)
        reap(world.pool)
        assert now_of(attempt).unreachable_since is None
        assert held(attempt)[0].pk == second.pk


class TestALongerTimeThatIsTakenBack:
    """A trigger remembers it, whichever statement lowers it."""

    def test_nothing_is_remembered_of_a_longer_one(self, world: World) -> None:
        stop_after(world, 7200)
        assert lowered(world) == (None, None)

    def test_the_longest_counts_from_when_the_last_was_lowered(self, world: World) -> None:
        for seconds in (7200, 600, 900, 700):
            stop_after(world, seconds)
        from_s, ago_s = lowered(world)
        assert (from_s, ago_s) == (7200, pytest.approx(0, abs=10))

    def test_what_was_lowered_long_ago_is_forgotten(self, world: World) -> None:
        stop_after(world, 7200)
        stop_after(world, 900)
        let_pass(7200 + DAY_S + 60, world.pool, "lowered_at")
        stop_after(world, 600)
        assert lowered(world)[0] == 900

    def test_an_edit_of_something_else_leaves_it(self, world: World) -> None:
        stop_after(world, 700)
        stop_after(world, 600)
        let_pass(50, world.pool, "lowered_at")
        Pool.objects.filter(pk=world.pool.pk).update(beat_s=4, stop_after_s=600)
        assert lowered(world) == (700, pytest.approx(50, abs=10))


class TestAStateFolderThatIsGone:
    """Allocations claimed out of it are as on a node that is cut off, though the node itself is heard."""

    @pytest.fixture
    def attempt(self, world: World) -> Attempt:
        attempt = place(world)
        claim(ranks(attempt)[0], state_id="first")
        run(ranks(attempt)[0])
        return now_of(attempt)

    def test_the_attempt_is_unreachable_since_the_other_folder_came_and_keeps_its_gpus(
        self, world: World, attempt: Attempt
    ) -> None:
        replace_state(node_of(attempt), 60)
        reap(world.pool)
        reap(world.pool)
        assert states(attempt.job) == ("active", "running", ["active"])
        assert now_of(attempt).unreachable_since == node_of(attempt).state_since
        assert fence_in_s(attempt) == pytest.approx(FENCE_S - 60, abs=10)
        assert health(node_of(attempt)) == "ready"

    def test_past_the_fence_it_is_lost_and_the_job_waits_again(self, world: World, attempt: Attempt) -> None:
        node = node_of(attempt)
        replace_state(node, FENCE_S - 20)
        reap(world.pool)
        assert states(attempt.job) == ("active", "running", ["active"])
        replace_state(node, FENCE_S + 20)
        Attempt.objects.update(fence_at=None)
        reap(world.pool)
        job = now_of(attempt.job)
        assert states(job) == ("queued", "lost", ["released"])
        assert job.reason == "node_lost"
        assert "state folder" in now_of(attempt).reason_detail

    def test_what_is_stopped_meanwhile_is_free_with_the_fence(self, world: World, attempt: Attempt) -> None:
        cancel_job(user=world.user, job=attempt.job)
        replace_state(node_of(attempt), 60)
        reap(world.pool)
        assert states(attempt.job) == ("active", "stopping", ["releasing"])
        Attempt.objects.update(fence_at=None)
        replace_state(node_of(attempt), FENCE_S + 20)
        reap(world.pool)
        assert states(attempt.job)[0] == "cancelled"

    def test_two_that_are_lost_by_it_are_one_incident_of_the_node(self, world: World) -> None:
        Node.objects.exclude(pk=world.nodes[0].pk).update(admin="cordoned")
        for attempt in (place(world), place(world)):
            claim(ranks(attempt)[0], state_id="first")
        replace_state(world.nodes[0], FENCE_S + 20)
        reap(world.pool)
        assert Attempt.objects.filter(state="lost").count() == 2
        assert Strike.objects.filter(node=world.nodes[0]).count() == 1

    def test_a_folder_that_comes_back_clears_it(self, world: World, attempt: Attempt) -> None:
        replace_state(node_of(attempt), 60)
        reap(world.pool)
        replace_state(node_of(attempt), 0, state_id="first")
        reap(world.pool)
        attempt = now_of(attempt)
        assert (attempt.state, attempt.unreachable_since, attempt.fence_at) == ("running", None, None)

    def test_it_is_no_longer_unreachable_because_the_node_went_down_later(self, world: World, attempt: Attempt) -> None:
        replace_state(node_of(attempt), 300)
        reap(world.pool)
        fence_at = now_of(attempt).fence_at
        silent(node_of(attempt), 60)
        reap(world.pool)
        assert (health(node_of(attempt)), now_of(attempt).fence_at) == ("down", fence_at)

    def test_of_a_gang_the_rank_with_the_later_fence_counts(self, world: World) -> None:
        attempt = place(world, nodes=2)
        for allocation in ranks(attempt):
            claim(allocation, state_id="first")
        silent(node_of(attempt, 0), 300)
        replace_state(node_of(attempt, 1), 60)
        reap(world.pool)
        assert fence_in_s(attempt) == pytest.approx(FENCE_S - 60, abs=10)

    def test_a_job_that_outlives_its_agent_waits_for_the_folder(self, world: World) -> None:
        attempt = place(world, on_disconnect="keep")
        claim(ranks(attempt)[0], state_id="first")
        replace_state(node_of(attempt), DAY_S)
        reap(world.pool)
        assert states(attempt.job) == ("active", "starting", ["active"])


class TestFence:
    def test_before_the_fence_nothing_is_freed(self, world: World) -> None:
        attempt = start(world)
        silent(node_of(attempt), FENCE_S - 20)
        reap(world.pool)
        reap(world.pool)
        assert states(attempt.job) == ("active", "running", ["active"])

    def test_past_the_fence_the_attempt_is_lost_and_the_job_waits_again(self, world: World) -> None:
        attempt = start(world)
        lost = node_of(attempt)
        silent(lost, FENCE_S + 20)
        reap(world.pool)
        job = now_of(attempt.job)
        assert states(job) == ("queued", "lost", ["released"])
        assert (job.reason, job.avoid_nodes) == ("node_lost", [lost.pk])
        cycle(world)
        assert node_of(live_attempt(job)).pk != lost.pk

    def test_past_the_fence_the_job_fails_where_its_spec_wants_no_retry(self, world: World) -> None:
        attempt = start(world, retry={"max": 0})
        silent(node_of(attempt), FENCE_S + 20)
        reap(world.pool)
        assert states(attempt.job)[:2] == ("failed", "lost")

    def test_a_gang_is_stopped_past_the_fence_and_waits_for_the_ranks_that_can_be_heard(self, world: World) -> None:
        attempt = start(world, nodes=2)
        silent(node_of(attempt, 0), FENCE_S + 20)
        reap(world.pool)
        assert states(attempt.job) == ("active", "stopping", ["released", "releasing"])
        end(ranks(attempt)[1])
        assert states(attempt.job)[:2] == ("queued", "lost")

    def test_a_second_node_that_goes_silent_later_keeps_its_gpus_until_its_own_fence(self, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = (node_of(attempt, rank) for rank in (0, 1))
        silent(first, 60)
        reap(world.pool)
        # Ten minutes later the second one falls silent: its processes may run until its own agent stops them.
        let_pass(FENCE_S - 70, attempt, "fence_at", "unreachable_since")
        silent(first, FENCE_S - 10)
        silent(second, 40)
        reap(world.pool)
        let_pass(30, attempt, "fence_at", "unreachable_since")
        silent(first, FENCE_S + 20)
        silent(second, 70)
        reap(world.pool)
        assert [one.node_id for one in held(attempt) if one.node_id == second.pk] == [second.pk]

    def test_a_job_that_is_kept_waits_for_its_node_however_long_it_is_away(self, world: World) -> None:
        attempt = start(world, on_disconnect="keep")
        silent(node_of(attempt), DAY_S / 2)
        reap(world.pool)
        assert states(attempt.job) == ("active", "running", ["active"])
        renew(node=now_of(node_of(attempt)), epoch=1, seq=1)
        end(ranks(attempt)[0])
        assert states(attempt.job)[:2] == ("succeeded", "succeeded")

    def test_a_job_that_is_to_be_kept_and_never_started_is_not(self, world: World) -> None:
        attempt = place(world, on_disconnect="keep")
        silent(node_of(attempt), FENCE_S + 20)
        reap(world.pool)
        assert states(attempt.job)[0] == "queued"

    def test_an_attempt_that_was_stopping_ends_as_it_was_to_end(self, world: World) -> None:
        attempt = start(world, nodes=2, retry={"max": 0})
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=2)
        silent(node_of(attempt, 1), FENCE_S + 20)
        reap(world.pool)
        assert states(attempt.job)[:2] == ("failed", "failed")
        assert now_of(attempt.job).reason == "exit_nonzero"


class TestUnclaimed:
    def test_an_attempt_that_nobody_claims_in_time_goes_to_another_node(self, world: World) -> None:
        attempt = place(world)
        let_pass(61, attempt, "placed_at")
        reap(world.pool)
        job = now_of(attempt.job)
        assert states(job) == ("queued", "failed", ["released"])
        assert (job.reason, job.avoid_nodes) == ("not_claimed", [node_of(attempt).pk])
        assert node_of(attempt).name in job.reason_detail
        cycle(world)
        assert now_of(job).hold_reason == HoldReason.BACK_OFF

    def test_a_gang_of_which_one_rank_is_not_claimed_is_stopped_and_blames_that_node(self, world: World) -> None:
        attempt = place(world, nodes=2)
        claim(ranks(attempt)[0])
        let_pass(61, attempt, "placed_at")
        reap(world.pool)
        assert states(attempt.job) == ("active", "stopping", ["releasing", "released"])
        end(ranks(attempt)[0])
        assert now_of(attempt.job).avoid_nodes == [node_of(attempt, 1).pk]

    def test_an_attempt_that_was_claimed_may_start_as_slowly_as_it_likes(self, world: World) -> None:
        attempt = place(world)
        claim(ranks(attempt)[0])
        let_pass(DAY_S, attempt, "placed_at")
        reap(world.pool)
        assert states(attempt.job)[:2] == ("active", "starting")

    def test_an_attempt_on_a_node_that_went_down_unclaimed_does_not_wait_for_the_fence(self, world: World) -> None:
        attempt = place(world)
        silent(node_of(attempt), 61)
        let_pass(61, attempt, "placed_at")
        reap(world.pool)
        assert now_of(attempt).reason == "not_claimed"
        assert states(attempt.job)[0] == "queued"


class TestTimeLimit:
    def test_a_job_far_past_its_limit_is_stopped(self, world: World) -> None:
        attempt = start(world, time="10m", checkpoint={"grace": "2m"})
        let_pass(600 + 120 + 61, attempt, "running_at")
        reap(world.pool)
        assert states(attempt.job) == ("active", "stopping", ["releasing"])
        end(ranks(attempt)[0])
        assert (now_of(attempt.job).state, now_of(attempt.job).reason) == ("failed", "time_limit")

    def test_the_agent_has_a_minute_after_the_grace_to_do_so_itself(self, world: World) -> None:
        attempt = start(world, time="10m", checkpoint={"grace": "2m"})
        let_pass(600 + 120 + 50, attempt, "running_at")
        reap(world.pool)
        assert states(attempt.job)[:2] == ("active", "running")

    def test_a_job_without_a_limit_runs_on(self, world: World) -> None:
        attempt = start(world)
        let_pass(30 * DAY_S, attempt, "running_at")
        reap(world.pool)
        assert states(attempt.job)[:2] == ("active", "running")


def test_another_pools_nodes_are_left_alone(world: World) -> None:
    other = make_world()
    silent(other.nodes[0], 1000)
    reap(world.pool)
    assert health(other.nodes[0]) == "ready"
