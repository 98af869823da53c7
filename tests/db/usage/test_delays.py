"""Waits of jobs before they started, by cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.events.models import Event
from muster.jobs.models import Attempt, Job
from muster.tenants.models import VirtualCluster
from muster.usage.delays import DelayRow, delays_of
from muster.usage.dimensions import By
from muster.usage.periods import Period
from scheduler.model.lifecycle import AttemptState, HoldReason, JobState
from tests.factories import make_attempt, make_job, make_node, make_vc

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)  # a Monday
WEEK = Period(NOON - timedelta(hours=12), NOON + timedelta(days=7))


@pytest.fixture
def vc() -> VirtualCluster:
    """A virtual cluster."""
    return make_vc()


def test_a_wait_belongs_to_the_reason_that_the_job_had_meanwhile(vc: VirtualCluster) -> None:
    told(
        make_job(vc),
        (0, "submitted"),
        (1, HoldReason.QUOTA),
        (6, HoldReason.CAP),
        (11, HoldReason.FRAGMENTED),
        (31, "placed"),
    )
    assert delays_of(vc.pk, WEEK, By.DAY) == [
        DelayRow(WEEK.start, 1, fair_share_s=600.0, fragmentation_s=1200.0, other_s=60.0)
    ]


def test_means_are_of_the_starts_of_a_day_and_each_attempt_is_a_start(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (0, HoldReason.NO_FREE_GPUS), (20, "placed"))
    # Its first attempt runs for ten minutes, is preempted, and goes on the next day.
    late = 24 * 60
    told(
        make_job(vc),
        *((0, "submitted"), (10, "placed"), (20, "queued"), (20, HoldReason.POLICY), (late, "placed")),
    )
    first, second = delays_of(vc.pk, WEEK, By.DAY)
    assert first == DelayRow(WEEK.start, 2, 0.0, 600.0, 300.0)
    assert second == DelayRow(WEEK.start + timedelta(days=1), 1, (late - 20) * 60.0, 0.0, 0.0)
    assert [row.starts for row in delays_of(vc.pk, WEEK, By.WEEK)] == [3]


def test_jobs_that_wait_still_and_those_of_other_virtual_clusters_do_not_count(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (0, HoldReason.QUOTA))
    told(make_job(make_vc(vc.tenant)), (0, "submitted"), (0, HoldReason.QUOTA), (5, "placed"))
    assert delays_of(vc.pk, WEEK, By.DAY) == []


def test_a_wait_up_to_now_counts_in_the_last_bucket(vc: VirtualCluster) -> None:
    now = Period(WEEK.start, NOON + timedelta(days=1))
    told(make_job(vc), (0, "submitted"), (10, HoldReason.QUOTA))
    # Its first attempt was preempted: only what it waits since then has not ended.
    job = make_job(vc)
    told(job, (0, "submitted"), (60, "placed"), (24 * 60 - 50, "queued"), (24 * 60 - 30, HoldReason.FRAGMENTED))
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    first, second = delays_of(vc.pk, now, By.DAY, waiting=True)
    assert first == DelayRow(WEEK.start, 1, 0.0, 0.0, 3600.0)
    tomorrow = WEEK.start + timedelta(days=1)
    assert second == DelayRow(tomorrow, 0, (24 * 60 - 10) * 30.0, 30 * 30.0, (10 + 20) * 30.0, waiting=2)
    assert [row.waiting for row in delays_of(vc.pk, now, By.WEEK, waiting=True)] == [2]


def test_starts_outside_of_the_period_do_not_count(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (10, "placed"), (20, "queued"), (20, HoldReason.QUOTA), (50, "placed"))
    later = Period(NOON + timedelta(minutes=30), WEEK.end)
    assert delays_of(vc.pk, later, By.WEEK) == [DelayRow(WEEK.start, 1, 1800.0, 0.0, 0.0)]


def told(job: Job, *events: tuple[float, HoldReason | str]) -> None:
    """Record events of the job, at minutes after noon."""
    for minutes, what in events:
        at = NOON + timedelta(minutes=minutes)
        if what == "placed":
            job.attempt_count = job.attempts.count()
            attempt = make_attempt(job, [make_node(job.pool)], state=AttemptState.PREEMPTED)
            Attempt.objects.filter(pk=attempt.pk).update(placed_at=at)
        held = isinstance(what, HoldReason)
        kind = "job.held" if held else "attempt.placed" if what == "placed" else f"job.{what}"
        data = {"reason": str(what)} if held else {}
        Event.objects.create(at=at, kind=kind, actor="scheduler", job_id=job.pk, data=data)
