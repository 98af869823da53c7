"""The life of an attempt, from its claim to what becomes of the job."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from muster.common.clock import database_now
from muster.common.errors import Conflict, NotFound
from muster.jobs.attempt.attempts import lose_allocations, stop_attempt
from muster.jobs.attempt.outcome import JITTER
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.jobs.services import cancel_job, requeue_job
from scheduler.model.lifecycle import AttemptState, HoldReason
from scheduler.model.reasons import Reason
from tests.db.stories import (
    World,
    claim,
    cycle,
    end,
    held,
    kinds,
    let_pass,
    live_attempt,
    make_world,
    now_of,
    place,
    ranks,
    run,
    start,
    states,
    submit,
)
from tests.factories import make_node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sound")]


@pytest.fixture
def world() -> World:
    return make_world(nodes=3)


def lose(attempt: Attempt, rank: int = 0, reason: Reason = Reason.NODE_LOST) -> bool:
    return lose_allocations(
        attempt_id=attempt.pk, node_id=ranks(attempt)[rank].node_id, reason=reason, detail="gone", actor="platform"
    )


def open_claims(job: Job) -> int:
    return GpuClaim.objects.filter(allocation__attempt__job=job, released_at__isnull=True).count()


def eligible_in_s(job: Job) -> float:
    return (now_of(job).eligible_at - database_now()).total_seconds()


class TestClaim:
    def test_the_first_claim_makes_the_attempt_start(self, world: World) -> None:
        attempt = place(world, nodes=2)
        claim(ranks(attempt)[0])
        assert states(attempt.job) == ("active", "starting", ["active", "reserved"])
        assert now_of(attempt).starting_at is not None

    def test_the_same_boot_may_ask_again_and_changes_nothing(self, world: World) -> None:
        attempt = place(world)
        claim(ranks(attempt)[0])
        before = ranks(attempt)[0]
        assert claim(ranks(attempt)[0]).pk == before.pk
        assert ranks(attempt)[0].claimed_at == before.claimed_at
        assert kinds(attempt.job).count("attempt.starting") == 1

    def test_another_boot_of_the_node_is_refused(self, world: World) -> None:
        attempt = place(world)
        claim(ranks(attempt)[0])
        with pytest.raises(Conflict, match="another boot"):
            claim(ranks(attempt)[0], boot_id="boot-2")
        assert ranks(attempt)[0].boot_id == "boot-1"

    def test_an_old_fence_is_refused(self, world: World) -> None:
        attempt = place(world)
        with pytest.raises(Conflict, match="fence"):
            claim(ranks(attempt)[0], fence=attempt.pk - 1)
        assert states(attempt.job) == ("active", "placed", ["reserved"])

    def test_another_nodes_allocation_does_not_exist(self, world: World) -> None:
        allocation = ranks(place(world))[0]
        allocation.node_id = make_node(world.pool).pk
        with pytest.raises(NotFound):
            claim(allocation)

    def test_an_attempt_that_stops_is_claimed_by_nobody(self, world: World) -> None:
        attempt = place(world, nodes=2)
        claim(ranks(attempt)[0])
        cancel_job(user=world.user, job=attempt.job)
        for allocation in ranks(attempt):
            with pytest.raises(Conflict, match="must not start"):
                claim(allocation)

    def test_a_rank_that_is_late_is_claimed_while_others_run_or_have_ended(self, world: World) -> None:
        attempt = place(world, nodes=3)
        first, second, third = ranks(attempt)
        claim(first)
        run(first)
        claim(second)
        end(second)
        claim(third)
        assert states(attempt.job) == ("active", "starting", ["active", "released", "active"])


class TestRunning:
    def test_the_attempt_runs_once_every_rank_does(self, world: World) -> None:
        attempt = place(world, nodes=2)
        first, second = ranks(attempt)
        claim(first)
        claim(second)
        run(first)
        assert states(attempt.job)[1] == "starting"
        assert now_of(attempt.job).started_at is None
        run(second)
        assert states(attempt.job)[1] == "running"
        assert now_of(attempt).running_at is not None
        assert now_of(attempt.job).started_at is not None

    def test_telling_it_again_changes_nothing(self, world: World) -> None:
        attempt = start(world)
        run(ranks(attempt)[0])
        assert now_of(attempt).running_at == attempt.running_at
        assert kinds(attempt.job).count("attempt.running") == 1

    def test_a_rank_that_nobody_claimed_cannot_run(self, world: World) -> None:
        attempt = place(world)
        run(ranks(attempt)[0])
        assert states(attempt.job) == ("active", "placed", ["reserved"])
        assert ranks(attempt)[0].observed == "none"

    def test_a_second_try_keeps_when_the_job_first_started(self, world: World) -> None:
        attempt = start(world)
        first_started = now_of(attempt.job).started_at
        end(ranks(attempt)[0], Reason.UNKNOWN)
        let_pass(60, attempt.job, "eligible_at")
        cycle(world)
        again = live_attempt(attempt.job)
        claim(ranks(again)[0])
        run(ranks(again)[0])
        assert now_of(attempt.job).started_at == first_started


class TestSuccess:
    def test_the_job_succeeds_when_every_rank_has(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=2)
        first, second = ranks(attempt)
        end(first)
        assert states(attempt.job) == ("active", "running", ["released", "active"])
        assert open_claims(attempt.job) == 2
        end(second)
        job = now_of(attempt.job)
        assert states(job) == ("succeeded", "succeeded", ["released", "released"])
        assert (job.exit_code, job.reason, open_claims(job)) == (0, "completed", 0)
        assert job.ended_at is not None

    def test_a_job_too_short_to_be_seen_running_has_run(self, world: World) -> None:
        attempt = place(world)
        claim(ranks(attempt)[0])
        end(ranks(attempt)[0])
        assert states(attempt.job)[:2] == ("succeeded", "succeeded")
        assert now_of(attempt).running_at is not None
        assert now_of(attempt.job).started_at is not None

    def test_the_events_tell_the_whole_way(self, world: World) -> None:
        attempt = start(world)
        end(ranks(attempt)[0])
        assert kinds(attempt.job) == [
            "job.submitted",
            "job.active",
            "attempt.placed",
            "attempt.starting",
            "attempt.running",
            "attempt.succeeded",
            "job.succeeded",
        ]

    def test_attained_service_counts_every_gpu_of_the_gang(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=2)
        let_pass(100, attempt, "placed_at")
        for allocation in ranks(attempt):
            end(allocation)
        assert now_of(attempt.job).attained_gpu_s == pytest.approx(400, abs=40)


class TestFailure:
    def test_the_first_rank_that_fails_stops_the_others_with_its_reason(self, world: World) -> None:
        attempt = start(world, nodes=3)
        first, second, third = ranks(attempt)
        end(second, Reason.EXIT_NONZERO, exit_code=3, detail="no such file")
        assert states(attempt.job) == ("active", "stopping", ["releasing", "released", "releasing"])
        end(first, Reason.KILLED_BY_SIGNAL, exit_code=143)
        end(third, Reason.KILLED_BY_SIGNAL, exit_code=137)
        job, attempt = now_of(attempt.job), now_of(attempt)
        assert states(job)[:2] == ("failed", "failed")
        assert (attempt.reason, attempt.reason_detail, attempt.exit_code) == ("exit_nonzero", "rank 1: no such file", 3)
        assert (job.reason, job.reason_detail, job.exit_code) == ("exit_nonzero", "rank 1: no such file", 3)

    def test_a_rank_that_fails_frees_what_nobody_has_claimed(self, world: World) -> None:
        attempt = place(world, nodes=3)
        claim(ranks(attempt)[0])
        end(ranks(attempt)[0], Reason.COMMAND_NOT_FOUND, exit_code=127, started=False)
        assert states(attempt.job) == ("failed", "failed", ["released"] * 3)
        assert open_claims(attempt.job) == 0

    def test_the_same_end_told_twice_changes_nothing(self, world: World) -> None:
        attempt = start(world, nodes=2)
        first = ranks(attempt)[0]
        end(first, Reason.EXIT_NONZERO, exit_code=3)
        before = kinds(attempt.job), ranks(attempt)[0].ended_at
        end(first, Reason.EXIT_NONZERO, exit_code=4)
        assert (kinds(attempt.job), ranks(attempt)[0].ended_at) == before
        assert ranks(attempt)[0].exit_code == 3

    def test_another_boots_end_is_refused(self, world: World) -> None:
        attempt = start(world)
        with pytest.raises(Conflict, match="another boot"):
            end(ranks(attempt)[0], boot_id="boot-2")
        assert states(attempt.job) == ("active", "running", ["active"])

    def test_an_old_fences_end_is_refused(self, world: World) -> None:
        attempt = start(world)
        with pytest.raises(Conflict, match="fence"):
            end(ranks(attempt)[0], fence=attempt.pk - 1)
        assert states(attempt.job) == ("active", "running", ["active"])

    def test_a_rank_that_nobody_claimed_cannot_have_completed(self, world: World) -> None:
        attempt = place(world)
        with pytest.raises(Conflict, match="never claimed"):
            end(ranks(attempt)[0])
        assert states(attempt.job) == ("active", "placed", ["reserved"])

    def test_a_rank_that_never_started_ends_before_its_claim_was_heard(self, world: World) -> None:
        attempt = place(world, retry={"max": 0})
        end(ranks(attempt)[0], Reason.NEVER_STARTED, started=False)
        assert states(attempt.job) == ("failed", "failed", ["released"])


class TestStop:
    def test_a_cancelled_attempt_that_nobody_claimed_is_over_at_once(self, world: World) -> None:
        attempt = place(world, nodes=2)
        cancel_job(user=world.user, job=attempt.job)
        assert states(attempt.job) == ("cancelled", "cancelled", ["released", "released"])
        assert now_of(attempt.job).reason == "cancelled_by_user"

    def test_a_cancelled_attempt_that_starts_frees_the_rest_and_waits_for_what_was_claimed(self, world: World) -> None:
        attempt = place(world, nodes=2)
        claim(ranks(attempt)[0])
        cancel_job(user=world.user, job=attempt.job)
        assert states(attempt.job) == ("active", "stopping", ["releasing", "released"])
        assert open_claims(attempt.job) == 1
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        assert states(attempt.job) == ("cancelled", "cancelled", ["released", "released"])

    def test_a_cancelled_job_that_runs_keeps_its_gpus_until_its_processes_are_gone(self, world: World) -> None:
        attempt = start(world, nodes=2, gpus=4)
        cancel_job(user=world.user, job=attempt.job)
        assert states(attempt.job) == ("active", "stopping", ["releasing", "releasing"])
        assert open_claims(attempt.job) == 8
        waiting = submit(world, nodes=2, gpus=4)
        cycle(world)
        assert now_of(waiting).hold_reason == HoldReason.NO_FREE_GPUS
        for allocation in ranks(attempt):
            end(allocation, Reason.KILLED_BY_SIGNAL)
        cycle(world)
        assert now_of(waiting).state == "active"

    def test_cancelling_twice_is_fine(self, world: World) -> None:
        attempt = start(world)
        cancel_job(user=world.user, job=attempt.job)
        cancel_job(user=world.user, job=attempt.job)
        assert kinds(attempt.job).count("job.cancel_asked") == 1

    def test_a_job_that_was_failing_when_it_was_cancelled_is_cancelled_and_not_tried_again(self, world: World) -> None:
        attempt = start(world, nodes=2)
        first, second = ranks(attempt)
        end(first, Reason.UNKNOWN)
        cancel_job(user=world.user, job=attempt.job)
        end(second, Reason.KILLED_BY_SIGNAL)
        job = now_of(attempt.job)
        assert (job.state, job.reason) == ("cancelled", "cancelled_by_user")

    def test_a_requeued_job_waits_again_without_charge_or_pause(self, world: World) -> None:
        attempt = start(world)
        requeue_job(user=world.user, job=attempt.job)
        assert states(attempt.job) == ("active", "stopping", ["releasing"])
        end(ranks(attempt)[0], Reason.KILLED_BY_SIGNAL, exit_code=143)
        job = now_of(attempt.job)
        assert states(job)[:2] == ("queued", "preempted")
        assert (job.retries_used, job.avoid_nodes, job.ended_at) == (0, [], None)
        assert eligible_in_s(job) <= 0
        cycle(world)
        assert live_attempt(job).number == 2

    def test_a_stop_of_what_stops_already_keeps_the_first_reason(self, world: World) -> None:
        attempt = start(world)
        requeue_job(user=world.user, job=attempt.job)
        again = stop_attempt(
            attempt_id=attempt.pk, outcome=AttemptState.FAILED, reason=Reason.TIME_LIMIT, actor="platform"
        )
        assert again is None
        assert now_of(attempt).reason == "requeued_by_user"


class TestRetry:
    @pytest.mark.parametrize(
        ("on", "reason", "state"),
        [
            (["infrastructure"], Reason.LAUNCH_FAILED, "queued"),
            (["infrastructure"], Reason.CODE_UNAVAILABLE, "queued"),
            (["infrastructure"], Reason.IMAGE_UNREACHABLE, "queued"),
            (["infrastructure"], Reason.IMAGE_NO_SPACE, "queued"),
            (["infrastructure"], Reason.SPEC_REFUSED, "queued"),
            (["infrastructure", "failed"], Reason.IMAGE_NOT_FOUND, "failed"),
            (["infrastructure", "failed"], Reason.IMAGE_DENIED, "failed"),
            (["infrastructure"], Reason.OUT_OF_MEMORY, "failed"),
            (["infrastructure"], Reason.DISK_EXCEEDED, "failed"),  # it would take as much elsewhere
            (["failed"], Reason.OUT_OF_MEMORY, "failed"),  # it would need as much the next time
            (["anything"], Reason.OUT_OF_MEMORY, "queued"),
            (["anything"], Reason.COMMAND_NOT_FOUND, "queued"),
            (["anything"], Reason.TIME_LIMIT, "queued"),
            (["infrastructure"], Reason.AGENT_STOPPED, "queued"),
            (["infrastructure"], Reason.UNKNOWN, "queued"),
            (["infrastructure"], Reason.EXIT_NONZERO, "failed"),
            (["failed"], Reason.EXIT_NONZERO, "queued"),
            (["failed"], Reason.KILLED_BY_SIGNAL, "queued"),
            (["failed"], Reason.LAUNCH_FAILED, "failed"),
            (["failed", "infrastructure", "node_lost"], Reason.COMMAND_NOT_FOUND, "failed"),
            (["failed", "infrastructure", "node_lost"], Reason.TIME_LIMIT, "failed"),
            ([], Reason.UNKNOWN, "failed"),
        ],
    )
    def test_a_job_is_tried_again_after_the_ends_that_its_spec_names(
        self, world: World, on: list[str], reason: Reason, state: str
    ) -> None:
        attempt = start(world, retry={"max": 1, "on": on})
        end(ranks(attempt)[0], reason)
        assert states(attempt.job)[:2] == (state, "failed")
        assert now_of(attempt.job).reason == reason

    def test_the_budget_is_spent_one_try_at_a_time_with_a_growing_pause(self, world: World) -> None:
        job = submit(world, retry={"max": 2, "on": ["failed"]})
        pauses = []
        for _ in range(3):
            cycle(world)
            attempt = live_attempt(job)
            claim(ranks(attempt)[0])
            end(ranks(attempt)[0], Reason.EXIT_NONZERO)
            if now_of(job).state == "queued":
                pauses.append((now_of(job).eligible_at - now_of(job).requeued_at).total_seconds())
            let_pass(600, job, "eligible_at")
        assert states(job)[:2] == ("failed", "failed")
        assert (now_of(job).attempt_count, now_of(job).retries_used) == (3, 2)
        # Both times are of one statement.
        assert pauses == [pytest.approx(5, rel=JITTER), pytest.approx(10, rel=JITTER)]

    def test_a_job_that_pauses_is_held_for_its_back_off(self, world: World) -> None:
        attempt = start(world)
        end(ranks(attempt)[0], Reason.UNKNOWN)
        cycle(world)
        job = now_of(attempt.job)
        assert job.hold_reason == HoldReason.BACK_OFF
        tries_again_at = datetime.fromisoformat(job.hold["evidence"]["eligible_at"])
        assert abs(tries_again_at - job.eligible_at) < timedelta(seconds=1)

    def test_only_the_node_of_the_root_cause_is_avoided(self, world: World) -> None:
        attempt = start(world, nodes=3)
        first, second, third = ranks(attempt)
        end(second, Reason.LAUNCH_FAILED)
        end(first, Reason.KILLED_BY_SIGNAL)
        end(third, Reason.KILLED_BY_SIGNAL)
        assert now_of(attempt.job).avoid_nodes == [second.node_id]

    def test_the_next_try_goes_to_another_node(self, world: World) -> None:
        attempt = start(world)
        end(ranks(attempt)[0], Reason.LAUNCH_FAILED)
        let_pass(60, attempt.job, "eligible_at")
        cycle(world)
        assert ranks(live_attempt(attempt.job))[0].node_id != ranks(attempt)[0].node_id

    def test_a_job_that_failed_by_itself_blames_no_node(self, world: World) -> None:
        attempt = start(world, retry={"on": ["failed"]})
        end(ranks(attempt)[0], Reason.EXIT_NONZERO)
        assert now_of(attempt.job).avoid_nodes == []


class TestLoss:
    def test_a_lost_node_ends_a_single_attempt_and_queues_the_job_again_at_once(self, world: World) -> None:
        attempt = start(world)
        assert lose(attempt) is True
        job = now_of(attempt.job)
        assert states(job) == ("queued", "lost", ["released"])
        assert (job.retries_used, job.avoid_nodes) == (1, [ranks(attempt)[0].node_id])
        assert eligible_in_s(job) <= 0

    def test_a_lost_node_stops_the_rest_of_its_gang_before_the_job_waits_again(self, world: World) -> None:
        attempt = start(world, nodes=2)
        lose(attempt, rank=0)
        assert states(attempt.job) == ("active", "stopping", ["released", "releasing"])
        end(ranks(attempt)[1], Reason.KILLED_BY_SIGNAL)
        assert states(attempt.job) == ("queued", "lost", ["released", "released"])
        assert now_of(attempt.job).avoid_nodes == [ranks(attempt)[0].node_id]

    def test_losing_the_same_node_twice_changes_nothing(self, world: World) -> None:
        attempt = start(world, nodes=2)
        lose(attempt, rank=0)
        before = kinds(attempt.job)
        assert lose(attempt, rank=0) is False
        assert kinds(attempt.job) == before

    def test_a_job_that_was_being_cancelled_is_cancelled_when_its_node_is_lost(self, world: World) -> None:
        attempt = start(world)
        cancel_job(user=world.user, job=attempt.job)
        lose(attempt)
        assert states(attempt.job) == ("cancelled", "cancelled", ["released"])

    def test_a_node_that_booted_again_ends_its_attempts_for_that_reason(self, world: World) -> None:
        attempt = start(world)
        lose(attempt, reason=Reason.NODE_REBOOTED)
        assert (now_of(attempt).state, now_of(attempt).reason) == ("lost", "node_rebooted")
        assert now_of(attempt.job).state == "queued"

    def test_an_end_that_comes_after_the_loss_changes_nothing(self, world: World) -> None:
        attempt = start(world)
        lose(attempt)
        before = kinds(attempt.job)
        end(ranks(attempt)[0])
        assert (states(attempt.job)[:2], kinds(attempt.job)) == (("queued", "lost"), before)

    def test_an_end_of_the_try_before_does_not_touch_the_next_one(self, world: World) -> None:
        attempt = start(world)
        lose(attempt)
        old = ranks(attempt)[0]
        cycle(world)
        again = live_attempt(attempt.job)
        end(old, Reason.EXIT_NONZERO)
        assert held(again)[0].state == "reserved"
        with pytest.raises(Conflict, match="fence"):
            end(ranks(again)[0], fence=attempt.pk)

    def test_attempts_are_numbered_and_their_fences_grow(self, world: World) -> None:
        attempt = start(world)
        lose(attempt)
        cycle(world)
        again = live_attempt(attempt.job)
        assert (attempt.number, again.number) == (1, 2)
        assert again.pk > attempt.pk
        assert now_of(attempt.job).eligible_at < database_now() + timedelta(seconds=1)


def test_a_requeue_of_a_job_that_stops_already_says_so(world: World) -> None:
    attempt = start(world)
    requeue_job(user=world.user, job=attempt.job)
    with pytest.raises(Conflict, match="stopping already"):
        requeue_job(user=world.user, job=attempt.job)
