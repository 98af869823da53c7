"""Jobs that failed and are kept: what agents tell of them, who may look, and how they end whatever ends that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from muster.accounts.models import ApiToken
from muster.agents.desired import desired_sets
from muster.agents.launch import launch_spec
from muster.agents.services import brings_news, take_news
from muster.common.clock import utc_now
from muster.common.errors import Invalid
from muster.events.models import Event
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import Allocation, Attempt
from muster.jobs.services import cancel_job, requeue_job
from muster.monitoring.idle import look
from muster.shells.services import Wanted, request_shell
from nodeagent.protocol.messages import AllocationReport, EndReason, KeptReport, Observed, SyncRequest
from scheduler.model.lifecycle import AllocationState, AttemptState, Stage
from scheduler.model.reasons import Reason
from tests.db.stories import BOOT, World, claim, end, make_world, now_of, place, ranks, start, submit
from tests.factories import make_token, make_user

pytestmark = pytest.mark.django_db

FAILED = KeptReport(left_s=1500.0, reason=EndReason.EXIT_NONZERO, exit_code=3, detail="exit status 3")


@pytest.fixture
def world() -> World:
    return make_world(nodes=2, gpus=4, shells=True, keep_failed_max_s=1800)


def start_kept(world: World, **spec: Any) -> Attempt:
    return start(world, **{"keep_failed": "30m", "retry": {"max": 3, "on": ["infrastructure"]}, **spec})


def tell(allocation: Allocation, kept: KeptReport | None = FAILED) -> None:
    """The agent of the allocation's node tells what it sees."""
    report = AllocationReport(allocation.pk, allocation.attempt_id, Observed.RUNNING, kept=kept)
    request = SyncRequest(1, 1, BOOT, "", 0, allocations=(report,))
    desired = desired_sets([allocation.node])[allocation.node]
    if brings_news(request, desired):
        take_news(allocation.node, request, desired)


def told(attempt: Attempt) -> list[dict[str, Any]]:
    rows = Event.objects.filter(job_id=attempt.job_id, kind="attempt.kept").order_by("pk")
    return [dict(row.data) for row in rows]


class TestReports:
    def test_it_is_noted_once_with_how_it_failed_and_until_when(self, world: World) -> None:
        attempt = start_kept(world)
        before = utc_now()
        tell(ranks(attempt)[0])
        tell(ranks(attempt)[0], replace(FAILED, left_s=1490.0))
        attempt = now_of(attempt)
        assert attempt.kept_until is not None
        assert timedelta(0) <= attempt.kept_until - before - timedelta(seconds=1500) < timedelta(seconds=60)
        assert (attempt.state, attempt.reason, attempt.exit_code) == ("running", "exit_nonzero", 3)
        (rank,) = ranks(attempt)
        assert (rank.state, rank.observed, rank.exit_code, rank.end_reason) == ("active", "kept", 3, "exit_nonzero")
        (event,) = told(attempt)
        assert (event["rank"], event["ranks"], event["exit_code"]) == (0, 1, 3)
        assert now_of(attempt.job).state == "active"

    def test_one_that_failed_before_anybody_heard_of_its_start_has_run(self, world: World) -> None:
        attempt = place(world, keep_failed="30m")
        claim(ranks(attempt)[0])
        tell(ranks(attempt)[0], replace(FAILED, signal=11, exit_code=None))
        attempt = now_of(attempt)
        assert (attempt.state, attempt.exit_code) == ("running", 139)
        assert attempt.kept_until is not None

    def test_nonsense_of_an_agent_is_bounded(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0], replace(FAILED, left_s=1e12, detail="x" * 9000))
        assert now_of(attempt).kept_until < utc_now() + timedelta(days=8)
        assert len(now_of(attempt).reason_detail) == 500

    def test_its_owner_may_open_a_shell_in_it(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        make_token(world.user)
        token = ApiToken.objects.get(user=world.user)
        job = now_of(attempt.job)
        shell, _ = request_shell(user=world.user, job=job, wanted=Wanted(), api_token=token, address=None)
        assert shell.allocation == ranks(attempt)[0]

    def test_it_is_not_idle(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        assert look(now=utc_now()) == 0
        assert not hasattr(now_of(attempt), "idle_watch")


class TestEnds:
    def test_when_its_time_is_over_verdict_and_retry_follow_as_usual(self, world: World) -> None:
        attempt = start_kept(world, retry={"max": 1, "on": ["failed"]})
        tell(ranks(attempt)[0])
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=3, detail="exit status 3", tail="ImportError: no x\n")
        attempt = now_of(attempt)
        assert (attempt.state, attempt.reason, attempt.exit_code) == ("failed", "exit_nonzero", 3)
        assert attempt.failure is not None
        job = now_of(attempt.job)
        assert (job.state, job.exit_code) in {("queued", 3), ("failed", 3)}
        assert job.failure == attempt.failure

    def test_who_cancels_it_has_a_cancelled_job_and_an_attempt_that_failed_as_it_did(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        cancel_job(user=world.user, job=attempt.job)
        stopping = now_of(attempt)
        assert (stopping.state, stopping.outcome, stopping.reason) == ("stopping", "failed", "exit_nonzero")
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=3)
        assert now_of(attempt).state == "failed"
        assert now_of(attempt.job).state == "cancelled"

    @pytest.mark.parametrize(
        ("outcome", "reason"),
        [(AttemptState.PREEMPTED, Reason.PREEMPTED), (AttemptState.FAILED, Reason.TIME_LIMIT)],
    )
    def test_what_is_stopped_for_others_or_by_its_limit_ends_as_it_failed(
        self, world: World, outcome: AttemptState, reason: Reason
    ) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        stop_attempt(attempt_id=attempt.pk, outcome=outcome, reason=reason, actor="scheduler")
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=3)
        job = now_of(attempt.job)
        assert (job.state, job.reason, job.exit_code) == ("failed", "exit_nonzero", 3)
        assert (job.retries_used, job.attempt_count) == (0, 1)

    def test_its_owner_may_have_it_run_again_at_once(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        requeue_job(user=world.user, job=attempt.job)
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=3)
        assert now_of(attempt.job).state == "queued"

    def test_a_node_that_is_lost_takes_it_along(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        stop_attempt(attempt_id=attempt.pk, outcome=AttemptState.LOST, reason=Reason.NODE_LOST, actor="platform")
        assert now_of(attempt).reason == "node_lost"


class TestGangs:
    def test_the_others_go_on_until_the_first_that_failed_is_over(self, world: World) -> None:
        attempt = start_kept(world, nodes=2, gpus=4)
        first, second = ranks(attempt)
        tell(second)
        assert [one.state for one in ranks(attempt)] == [AllocationState.ACTIVE] * 2
        assert now_of(attempt).state == "running"
        assert now_of(attempt).reason_detail == "rank 1: exit status 3"
        until = now_of(attempt).kept_until
        tell(first, replace(FAILED, exit_code=9, detail="exit status 9"))
        attempt = now_of(attempt)
        assert (attempt.kept_until, attempt.exit_code) == (until, 3)  # the first is the cause
        end(ranks(attempt)[1], Reason.EXIT_NONZERO, exit_code=3, detail="exit status 3")
        assert [one.state for one in ranks(attempt)] == [AllocationState.RELEASING, AllocationState.RELEASED]
        end(ranks(attempt)[0], Reason.EXIT_NONZERO, exit_code=9, detail="exit status 9")
        attempt = now_of(attempt)
        assert (attempt.state, attempt.exit_code, attempt.reason_detail) == ("failed", 3, "rank 1: exit status 3")


class TestAsking:
    def test_the_agent_is_told_for_how_long(self, world: World) -> None:
        attempt = place(world, keep_failed="10m")
        (rank,) = ranks(attempt)
        assert launch_spec(rank.node, rank).keep_failed_s == 600.0

    def test_the_pools_limit_at_the_start_counts_and_a_trial_is_not_kept(self, world: World) -> None:
        attempt = place(world, keep_failed="10m")
        (rank,) = ranks(attempt)
        rank.node.pool.keep_failed_max_s = 60
        assert launch_spec(rank.node, rank).keep_failed_s == 60.0
        rank.attempt.stage = Stage.SCREENING
        assert launch_spec(rank.node, rank).keep_failed_s == 0.0

    def test_more_than_the_pool_allows_is_refused(self, world: World) -> None:
        with pytest.raises(Invalid) as refused:
            submit(world, keep_failed="31m")
        assert refused.value.errors[0].field == "keep_failed"
        assert "for at most 1800s" in refused.value.errors[0].message

    def test_a_pool_keeps_nothing_unless_an_operator_says_so(self) -> None:
        with pytest.raises(Invalid, match="not at all"):
            submit(make_world(), keep_failed="1m")

    def test_a_job_that_does_not_ask_is_not_kept(self, world: World) -> None:
        (rank,) = ranks(place(world))
        assert launch_spec(rank.node, rank).keep_failed_s == 0.0

    def test_others_may_not_look(self, world: World) -> None:
        attempt = start_kept(world)
        tell(ranks(attempt)[0])
        other = make_user(tenant=world.tenant)
        with pytest.raises(Exception, match="its owner"):
            request_shell(user=other, job=now_of(attempt.job), wanted=Wanted(), api_token=None, address=None)
