"""Training metrics of jobs: kept in bounded room, read from logs, told to owners, and acted on if asked."""

from __future__ import annotations

import math
import time
from datetime import timedelta
from typing import Any
from zlib import crc32

import pytest
from django.utils import timezone

from muster.events.models import Event
from muster.jobs.attempt.ending import end_for_good
from muster.jobs.models import Attempt, Job
from muster.logs.store import Chunk, append
from muster.monitoring import loglines, services
from muster.monitoring.models import FailureRate, JobAdvice, LogPlace, Series
from muster.monitoring.selectors import checkpoint_advice, losses_of
from muster.monitoring.store import curve_of, keep_points, told_points
from nodeagent.protocol.messages import MAX_REPORTED_NAMES, EndReason, MetricPoint, ReportedMetrics
from scheduler.diagnosis.training.curve import MAX_POINTS
from scheduler.model.reasons import Reason
from tests.db.agent_calls import Agent
from tests.db.stories import World, end, make_world, ranks, start, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(db: None) -> World:
    return make_world()


def losses(attempt: Attempt, *values: float, first: int = 1) -> None:
    keep_points({attempt.pk: [("loss", float(step), value) for step, value in enumerate(values, start=first)]})


def points(attempt: Attempt, name: str = "loss") -> list[tuple[float, float]]:
    return curve_of(Series.objects.get(attempt=attempt, name=name)).points()


class TestKept:
    def test_points_are_kept_by_name_and_step(self, world: World, django_assert_num_queries: Any) -> None:
        attempt = start(world)
        with django_assert_num_queries(0):
            keep_points({attempt.pk: []})
        losses(attempt, 3.0, 2.0)
        losses(attempt, 1.0, first=3)
        assert points(attempt) == [(1, 3.0), (2, 2.0), (3, 1.0)]
        row = Series.objects.get()
        assert (row.last_step, row.last_value, row.from_log) == (3, 1.0, False)

    def test_what_is_not_finite_is_kept_as_it_is(self, world: World) -> None:
        attempt = start(world)
        losses(attempt, 1.0, math.nan, math.inf)
        row = Series.objects.get()
        assert math.isnan(row.values[1])
        assert (row.odd_run, row.last_value) == (2, math.inf)

    def test_room_is_bounded_by_points_and_by_names(self, world: World) -> None:
        attempt = start(world)
        losses(attempt, *(1.0 for _ in range(5 * MAX_POINTS)))
        assert len(points(attempt)) <= MAX_POINTS + 1
        for turn in range(3):
            keep_points({attempt.pk: [(f"name{turn}_{number}", 1.0, 1.0) for number in range(100)]})
        assert Series.objects.count() == MAX_REPORTED_NAMES

    def test_what_an_agent_tells_is_read_with_care(self) -> None:
        told = [
            MetricPoint("loss", 1.0, 2.0),
            MetricPoint("loss", None, 3.0, "nan"),
            MetricPoint("loss", None, 3.0, "whatever"),
            MetricPoint("a name", 1.0),
            MetricPoint("x" * 65, 1.0),
            MetricPoint("<script>", 1.0),
            MetricPoint("acc", 1.0, -5.0),
        ]
        found = told_points(told)
        assert [(name, step) for name, step, _ in found] == [("loss", 2.0), ("loss", 3.0), ("acc", None)]
        assert len(told_points([MetricPoint("loss", 1.0)] * 10_000)) == 500

    def test_old_ones_are_forgotten(self, world: World) -> None:
        losses(start(world), 1.0)
        assert services.forget_old_series(older_than=timedelta(days=1)) == 0
        Series.objects.update(at=timezone.now() - timedelta(days=2))
        assert services.forget_old_series(older_than=timedelta(days=1)) == 1


@pytest.mark.django_db(transaction=True)
class TestFromAgents:
    def test_a_sync_brings_what_jobs_report_and_the_end_the_rest(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        (allocation,) = ranks(attempt)
        told = (MetricPoint("loss", 2.0, 1.0), MetricPoint("loss", None, 2.0, "nan"))
        report = ReportedMetrics(allocation.pk, attempt.pk, told)
        assert agent.sync(reported=(report,)).status_code == 200
        assert [step for step, _ in points(attempt)] == [1, 2]
        assert agent.sync(reported=(report,)).status_code == 200
        assert [step for step, _ in points(attempt)] == [1, 2], "a message that comes twice changes nothing"
        last = (MetricPoint("loss", 0.5, 3.0),)
        assert agent.end(allocation, reason=EndReason.COMPLETED, exit_code=0, points=last).status == 200
        assert points(attempt)[-1] == (3, 0.5)

    def test_nobody_speaks_for_another_job(self, agent: Agent, world: World) -> None:
        attempt = start(world)
        (allocation,) = ranks(attempt)
        told = (MetricPoint("loss", 2.0, 1.0),)
        wrong = (
            ReportedMetrics(allocation.pk, attempt.pk + 1, told),
            ReportedMetrics(allocation.pk + 1, attempt.pk, told),
        )
        assert agent.sync(reported=wrong).status_code == 200
        assert not Series.objects.exists()


def told(job: Job) -> list[dict[str, Any]]:
    return list(Event.objects.filter(job_id=job.pk, kind="job.advice").order_by("pk").values_list("data", flat=True))


class TestAdvice:
    def test_losses_that_are_no_numbers_are_told_once(self, world: World) -> None:
        attempt = start(world)
        losses(attempt, 1.0, math.nan, math.nan)
        services.look_at_losses()
        assert told(attempt.job) == []
        losses(attempt, math.nan, first=4)
        assert services.look_at_losses() == 1
        (event,) = told(attempt.job)
        assert (event["advice"], event["attempt"], event["step"]) == ("nan", 1, 4)
        losses(attempt, math.nan, first=5)
        services.look_at_losses()
        assert len(told(attempt.job)) == 1
        assert services.look_at_losses() == 0, "what has not changed is not looked at"
        assert attempt.job.state == "active"

    def test_a_job_that_asked_for_it_is_stopped_and_not_tried_again(self, world: World) -> None:
        attempt = start(world, stop_on=["nan"], retry={"max": 3, "on": ["anything"]})
        losses(attempt, math.nan, math.nan, math.nan)
        services.look_at_losses()
        attempt.refresh_from_db()
        assert (attempt.state, attempt.reason) == ("stopping", "loss_diverged")
        (allocation,) = ranks(attempt)
        end(allocation, reason=Reason.KILLED_BY_SIGNAL, exit_code=143)
        job = Job.objects.get(pk=attempt.job_id)
        assert (job.state, job.reason) == ("failed", "loss_diverged")
        assert job.failure is not None
        assert (job.failure["class"], job.failure["retry"]) == ("model_diverged", "no")

    def test_the_curve_of_a_job_is_that_of_all_its_attempts(self, world: World) -> None:
        attempt = start(world)
        losses(attempt, 3.0, 2.0, 1.0)
        (allocation,) = ranks(attempt)
        end(allocation, reason=Reason.AGENT_STOPPED, exit_code=1)
        Job.objects.filter(pk=attempt.job_id).update(eligible_at=timezone.now())
        again = start_again(world, attempt.job)
        losses(again, 1.5, 1.0, first=2)
        keep_points({again.pk: [("total", None, 10.0)]})
        (curve, odd_run, total) = losses_of([attempt.job_id])[attempt.job_id]
        assert (curve, odd_run, total) == ([(1, 3.0), (2, 1.5), (3, 1.0)], 0, 10.0)


def start_again(world: World, job: Job) -> Attempt:
    from tests.db.stories import claim, cycle, live_attempt, run

    cycle(world)
    attempt = live_attempt(job)
    for allocation in ranks(attempt):
        claim(allocation)
        run(allocation)
    attempt.refresh_from_db()
    return attempt


class TestEndForGood:
    def test_a_job_that_waits_has_failed_at_once(self, world: World) -> None:
        job = submit(world)
        assert end_for_good(job_id=job.pk, reason=Reason.LOG_RULE, detail="why", actor="rule x")
        job.refresh_from_db()
        assert (job.state, job.reason, job.reason_detail) == ("failed", "log_rule", "why")
        assert not end_for_good(job_id=job.pk, reason=Reason.LOG_RULE, detail="why", actor="rule x")

    def test_one_that_stops_already_is_not_queued_again(self, world: World) -> None:
        attempt = start(world, nodes=1)
        Attempt.objects.filter(pk=attempt.pk).update(
            state="stopping", outcome="preempted", reason="preempted", stopping_at=timezone.now()
        )
        (allocation,) = ranks(attempt)
        assert end_for_good(job_id=attempt.job_id, reason=Reason.LOG_RULE, detail="why", actor="rule x")
        end(allocation, reason=Reason.KILLED_BY_SIGNAL, exit_code=143)
        job = Job.objects.get(pk=attempt.job_id)
        assert (job.state, job.reason) == ("failed", "log_rule")

    def test_what_its_owner_cancels_is_cancelled(self, world: World) -> None:
        attempt = start(world)
        Job.objects.filter(pk=attempt.job_id).update(desired="stop")
        assert not end_for_good(job_id=attempt.job_id, reason=Reason.LOG_RULE, detail="why", actor="rule x")


def print_to_log(attempt: Attempt, text: bytes) -> None:
    (allocation,) = ranks(attempt)
    log = getattr(allocation, "log_file", None)
    size = 0 if log is None else log.size
    for begin in range(0, len(text), 60_000):
        piece = text[begin : begin + 60_000]
        size = append(allocation, Chunk(size, piece, crc32(piece)))


def look() -> int:
    return loglines.read_logs(until=time.monotonic() + 60)


class TestFromLogs:
    def test_losses_are_read_once(self, world: World) -> None:
        attempt = start(world)
        print_to_log(attempt, b"hello\nstep 1/100 loss 3.0\nstep 2/100 loss 2.0\nstep 3/100 lo")
        assert look() == 1
        assert points(attempt) == [(1, 3.0), (2, 2.0)]
        assert Series.objects.get(name="total").last_value == 100
        print_to_log(attempt, b"ss 1.0\n")
        assert look() == 1
        assert points(attempt) == [(1, 3.0), (2, 2.0), (3, 1.0)]
        assert look() == 0
        assert Series.objects.get(name="loss").from_log

    def test_steps_of_epochs_go_on_over_looks(self, world: World) -> None:
        attempt = start(world)
        print_to_log(attempt, b"step 1 loss 4\nstep 2 loss 3\n")
        look()
        print_to_log(attempt, b"step 1 loss 2\nstep 2 loss 1\n")
        look()
        assert points(attempt) == [(1, 4.0), (2, 3.0), (3, 2.0), (4, 1.0)]

    def test_a_job_that_reports_is_not_read(self, world: World) -> None:
        attempt = start(world)
        print_to_log(attempt, b"step 1 loss 3.0\n")
        look()
        losses(attempt, 7.0, first=9)
        assert points(attempt) == [(9, 7.0)], "what it says itself counts"
        print_to_log(attempt, b"step 2 loss 3.0\n")
        assert look() == 0

    def test_of_a_flood_the_newest_is_read(self, world: World) -> None:
        attempt = start(world)
        flood = b"".join(b"step %d loss 1.0\n" % step for step in range(1, 50_001))
        print_to_log(attempt, flood)
        assert look() == 1
        assert points(attempt)[-1] == (50_000, 1.0)
        assert LogPlace.objects.get().offset == len(flood)
        assert look() == 0

    @pytest.mark.parametrize("flood", [b"x" * 500_000, bytes(range(256)) * 2000, b"loss: nan " * 40_000])
    def test_what_has_no_lines_is_passed_over(self, world: World, flood: bytes) -> None:
        attempt = start(world)
        print_to_log(attempt, flood)
        look()
        print_to_log(attempt, b"\nloss: 5\n")
        look()
        assert points(attempt)[-1][1] == 5.0


class TestCheckpoints:
    def test_by_what_the_job_says_and_what_the_pool_has_seen(self, world: World) -> None:
        attempt = start(world)
        assert checkpoint_advice(attempt.job) is None
        keep_points({attempt.pk: [("checkpoint_s", None, value) for value in (50.0, 60.0, 400.0)]})
        FailureRate.objects.create(pool=world.pool, failures=3, node_hours=15_000.0)
        found = checkpoint_advice(attempt.job)
        assert found is not None
        assert (found.measured, found.measurements, found.failures, found.node_hours) == ("reported", 3, 3, 15_000.0)
        assert found.interval.cost_s == 60.0
        assert found.interval.mtbf_s == pytest.approx(3600 * 20_000 / 4)
        assert found.interval.young_s == pytest.approx(math.sqrt(2 * 60.0 * 3600 * 5000))

    def test_by_how_long_it_took_to_go(self, world: World) -> None:
        attempt = start(world, checkpoint={"signal": "USR1", "grace": "60s"})
        now = timezone.now()
        Attempt.objects.filter(pk=attempt.pk).update(
            state="preempted", running_at=now, stopping_at=now, ended_at=now + timedelta(seconds=20)
        )
        job = Job.objects.get(pk=attempt.job_id)
        found = checkpoint_advice(job)
        assert found is not None
        assert (found.measured, found.interval.cost_s) == ("stops", 20.0)
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=now + timedelta(seconds=61))
        assert checkpoint_advice(job) is None, "it was killed: what it saved is unknown"

    def test_failures_and_hours_are_counted_by_pool(self, world: World) -> None:
        attempt = start(world)
        Attempt.objects.filter(pk=attempt.pk).update(running_at=timezone.now() - timedelta(hours=10))
        services.count_failures()
        rate = FailureRate.objects.get(pool=world.pool)
        assert (rate.failures, rate.node_hours) == (0, pytest.approx(10, rel=0.01))
        Attempt.objects.filter(pk=attempt.pk).update(reason="node_lost")
        services.count_failures()
        assert FailureRate.objects.get(pool=world.pool).failures == 1


def test_advice_of_a_job_is_unique_in_the_database(world: World) -> None:
    attempt = start(world)
    fields = {"job": attempt.job, "attempt": attempt, "kind": "nan", "text": "x", "step": 1.0}
    JobAdvice.objects.create(**fields)
    _, is_new = JobAdvice.objects.get_or_create(job=attempt.job, kind="nan", defaults=fields)
    assert not is_new
