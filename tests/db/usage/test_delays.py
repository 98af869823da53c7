"""Waits of jobs before they started, by delay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from muster.events.models import Event
from muster.jobs.models import Attempt, Job
from muster.tenants.models import VirtualCluster
from muster.usage.delays import DelayBy, DelayRow, Delays, JobWait, delays, sum_starts, waits_of
from muster.usage.models import StartDelay
from muster.usage.periods import Period
from muster.usage.scope import Asked, Scope
from scheduler.model.delays import Delay
from scheduler.model.lifecycle import AttemptState, HoldReason, JobState
from tests.factories import make_attempt, make_job, make_node, make_request, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)  # a Monday
WEEK = Period(NOON - timedelta(hours=12), NOON + timedelta(days=7))
TOMORROW = WEEK.start + timedelta(days=1)


@pytest.fixture
def vc() -> VirtualCluster:
    """A virtual cluster."""
    return make_vc()


def test_a_wait_belongs_to_the_delay_of_its_reason_or_to_the_one_that_a_decision_told(vc: VirtualCluster) -> None:
    told(
        make_job(vc),
        *((0, "submitted"), (1, HoldReason.DEPENDENCY), (2, HoldReason.QUOTA), (4, HoldReason.CAP)),
        *((7, HoldReason.FRAGMENTED), (12, HoldReason.NO_FREE_GPUS), (18, HoldReason.BEHIND_HEAD)),
        *((25, HoldReason.BEHIND_HEAD, Delay.CAPACITY), (33, HoldReason.BEHIND_HEAD, Delay.FAIR_SHARE), (42, "placed")),
    )
    (row,) = rows_of(vc)
    minutes = {"not_eligible_s": 1, "fair_share_s": 5 + 9, "apart_s": 5, "capacity_s": 6 + 8, "order_s": 7}
    assert row.mean == Delays(other_s=60.0, **{name: 60.0 * value for name, value in minutes.items()})
    assert row.mean.fragmentation_s == 60.0 * (5 + 6 + 8 + 7)


def test_means_are_of_the_starts_of_a_day_and_each_attempt_is_a_start(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (0, HoldReason.NO_FREE_GPUS), (20, "placed"))
    # Its first attempt runs for ten minutes, is preempted, and goes on the next day.
    late = 24 * 60
    told(
        make_job(vc),
        *((0, "submitted"), (10, "placed"), (20, "queued"), (20, HoldReason.POLICY), (late, "placed")),
    )
    first, second = rows_of(vc)
    assert first == day(WEEK.start, Delays(capacity_s=600.0, other_s=300.0), starts=2)
    assert second == day(TOMORROW, Delays(order_s=(late - 20) * 60.0), starts=1)
    assert [row.starts for row in rows_of(vc, DelayBy.WEEK)] == [3]


def test_jobs_that_wait_still_and_those_of_other_virtual_clusters_do_not_count(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (0, HoldReason.QUOTA))
    told(make_job(make_vc(vc.tenant)), (0, "submitted"), (0, HoldReason.QUOTA), (5, "placed"))
    assert rows_of(vc) == []


def test_a_wait_up_to_now_counts_in_the_last_bucket(vc: VirtualCluster) -> None:
    now = Period(WEEK.start, NOON + timedelta(days=1))
    told(make_job(vc), (0, "submitted"), (10, HoldReason.QUOTA))
    # Its first attempt was preempted: only what it waits since then has not ended.
    job = make_job(vc)
    told(job, (0, "submitted"), (60, "placed"), (24 * 60 - 50, "queued"), (24 * 60 - 30, HoldReason.FRAGMENTED))
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED)
    first, second = rows_of(vc, period=now, waiting=True)
    assert first == day(WEEK.start, Delays(other_s=3600.0), starts=1)
    mean = Delays(fair_share_s=(24 * 60 - 10) * 30.0, apart_s=30 * 30.0, other_s=(10 + 20) * 30.0)
    assert second == day(TOMORROW, mean, starts=0, waiting=2)
    assert [row.waiting for row in rows_of(vc, DelayBy.WEEK, period=now, waiting=True)] == [2]


def test_starts_outside_of_the_period_do_not_count(vc: VirtualCluster) -> None:
    told(make_job(vc), (0, "submitted"), (10, "placed"), (20, "queued"), (20, HoldReason.QUOTA), (50, "placed"))
    later = Period(NOON + timedelta(minutes=30), WEEK.end)
    assert rows_of(vc, DelayBy.WEEK, period=later) == [
        DelayRow({DelayBy.WEEK: WEEK.start}, 1, 0, Delays(fair_share_s=1800.0))
    ]


def test_a_release_goes_on_with_the_reason_of_before_and_a_pause_while_it_runs_is_no_wait(vc: VirtualCluster) -> None:
    job = make_job(vc)
    told(job, (0, "submitted"), (0, HoldReason.NO_FREE_GPUS), (10, HoldReason.HELD))
    tell(job, 30, "job.released", reason="no_free_gpus", delay="order")
    told(job, (60, "placed"))
    tell(job, 70, "job.paused", reason="group", state="active")
    tell(job, 90, "job.queued", reason="paused")
    tell(job, 90, "job.paused", reason="group", state="queued")
    told(job, (100, "placed"))
    waits = waits_of(job, WEEK.end)
    assert [wait.delays for wait in waits] == [
        Delays(capacity_s=600.0, not_eligible_s=1200.0, order_s=1800.0),
        Delays(not_eligible_s=600.0),
    ]
    assert waits[1] == JobWait(2, at(90), at(100), waits[1].delays)
    (row,) = rows_of(vc)
    assert (row.starts, row.mean.not_eligible_s) == (2, 900.0)


def test_delays_are_told_apart_by_tenant_and_size_in_their_order(vc: VirtualCluster) -> None:
    for gpus, minutes in ((16, 40), (1, 10), (0, 20), (4, 30)):
        job = make_job(vc)
        told(job, (0, "submitted"), (0, HoldReason.NO_FREE_GPUS), (minutes, "placed"))
        Job.objects.filter(pk=job.pk).update(request=make_request(gpus=min(gpus, 8), nodes=max(1, gpus // 8)))
    by = [DelayBy.TENANT, DelayBy.SIZE]
    total, rows = delays(WEEK, Scope(None, Asked(tenant=vc.tenant.name)), by)
    found = [(row.values[DelayBy.TENANT], row.values[DelayBy.SIZE], row.starts, row.mean.capacity_s) for row in rows]
    name = vc.tenant.name
    assert found == [(name, "1", 2, 900.0), (name, "2-4", 1, 1800.0), (name, ">8", 1, 2400.0)]
    assert (total.starts, total.mean.capacity_s) == (4, 1500.0)


def rows_of(
    vc: VirtualCluster, by: DelayBy = DelayBy.DAY, *, period: Period = WEEK, waiting: bool = False
) -> list[DelayRow]:
    """The rows of a virtual cluster, which are the same before and after the starts have been summed up."""
    scope = Scope(None, Asked(vc=vc.name))
    _, from_events = delays(period, scope, [by], waiting=waiting)
    starts = Event.objects.filter(kind="attempt.placed").count()
    while sum_starts():
        pass
    assert StartDelay.objects.count() == starts
    _, rows = delays(period, scope, [by], waiting=waiting)
    assert rows == from_events
    return rows


def day(begins: datetime, mean: Delays, *, starts: int, waiting: int = 0) -> DelayRow:
    return DelayRow({DelayBy.DAY: begins}, starts, waiting, mean)


def told(job: Job, *events: tuple[float, HoldReason | str] | tuple[float, HoldReason, Delay]) -> None:
    """Record events of the job, at minutes after noon."""
    for minutes, what, *delay in events:
        if what == "placed":
            number = job.attempt_count = job.attempts.count()
            attempt = make_attempt(job, [make_node(job.pool)], state=AttemptState.PREEMPTED)
            Attempt.objects.filter(pk=attempt.pk).update(placed_at=at(minutes))
            tell(job, minutes, "attempt.placed", attempt=number + 1)
        elif isinstance(what, HoldReason):
            tell(job, minutes, "job.held", reason=str(what), **({"delay": str(*delay)} if delay else {}))
        else:
            tell(job, minutes, f"job.{what}")


def tell(job: Job, minutes: float, kind: str, **data: object) -> None:
    Event.objects.create(at=at(minutes), kind=kind, actor="scheduler", job_id=job.pk, data=data)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)
