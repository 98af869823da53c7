"""Idle jobs: from what agents measured of emulated GPUs to a warning, its end, and a stop."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from muster.common.errors import Invalid
from muster.events.models import Event
from muster.jobs.models import Attempt, GpuClaim
from muster.monitoring.idle import MAX_LOOK_BACK, look
from muster.monitoring.models import IdleWatch
from muster.samples.levels import roll_up
from muster.samples.models import GpuTenSeconds
from muster.tenants.models import Tenant
from nodeagent.gpu.emulated import EmulatedGpus
from nodeagent.runtime.port import Usage
from scheduler.model.reasons import Reason
from tests.db.stories import World, end, make_world, now_of, place, ranks, start

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BUSY, IDLE = 1.0, 0.0


class Clock:
    """Time that passes a minute at a time, in which the emulated GPUs measure what runs on them."""

    def __init__(self, attempt: Attempt, *others: Attempt) -> None:
        self.now = NOON
        self.attempts = [attempt, *others]
        for one in self.attempts:
            Attempt.objects.filter(pk=one.pk).update(running_at=NOON)

    def minute(self, *cores: float) -> None:
        """A minute in which the processes on each GPU use these numbers of cores, one number a GPU."""
        self.minutes(1, *cores)

    def minutes(self, count: int, *cores: float) -> None:
        for passed in range(1, count + 1):
            for attempt in self.attempts:
                self._measure(attempt, cores)
            self.now += timedelta(minutes=1)
            if passed % 5 == 0 or passed == count:
                self.look()

    def unseen(self, count: int) -> None:
        """Minutes of which no sample came."""
        self.now += timedelta(minutes=count)

    def look(self) -> int:
        settled = self.now + timedelta(seconds=31)
        while roll_up(now=settled):
            pass
        return look(now=settled)

    def _measure(self, attempt: Attempt, cores: Sequence[float]) -> None:
        claims = GpuClaim.objects.filter(allocation__attempt=attempt).order_by("gpu__index")
        held = list(claims.values_list("gpu_id", "allocation_id"))
        driver = EmulatedGpus(["A100"] * len(held), "gpu01")
        usage = {
            gpu.uuid: Usage(processes=1, cpu_fraction=used)
            for gpu, used in zip(driver.inventory(), cores, strict=False)
        }
        for (gpu_id, allocation_id), sample in zip(held, driver.samples(usage), strict=True):
            if sample.uuid in usage:
                GpuTenSeconds.objects.create(
                    gpu_id=gpu_id,
                    allocation_id=allocation_id,
                    at=self.now + timedelta(seconds=20),
                    samples=1,
                    utilization=sample.utilization,
                    utilization_max=sample.utilization,
                )


@pytest.fixture
def world() -> World:
    world = make_world(gpus=8)
    Tenant.objects.update(idle_action="off")
    return world


def told(attempt: Attempt) -> list[str]:
    kinds = ["attempt.idle", "attempt.busy", "attempt.stopping"]
    rows = Event.objects.filter(job_id=attempt.job_id, kind__in=kinds).order_by("pk")
    return [kind.removeprefix("attempt.") for kind in rows.values_list("kind", flat=True)]


def watch_of(attempt: Attempt) -> IdleWatch | None:
    return IdleWatch.objects.filter(attempt=attempt).first()


STOPS = {"below": 5, "for": "20m", "action": "stop"}
WARNS = {"below": 5, "for": "20m", "action": "warn"}


class TestWarnings:
    def test_a_job_that_was_busy_once_and_is_idle_now_is_told_once(self, world: World) -> None:
        attempt = start(world, gpus=2, idle=WARNS)
        clock = Clock(attempt)
        clock.minutes(3, BUSY, BUSY)
        clock.minutes(19, IDLE, IDLE)
        assert told(attempt) == []
        clock.minutes(5, IDLE, IDLE)
        assert told(attempt) == ["idle"]
        (event,) = Event.objects.filter(kind="attempt.idle")
        assert event.data == {
            "attempt": 1,
            "since": "2026-05-01T12:03:00Z",
            "stop_at": None,
            "below": 5.0,
            "by": "job",
            "gpus": 2,
        }
        assert now_of(attempt).state == "running"

    def test_one_that_never_was_busy_counts_after_its_first_ten_minutes(self, world: World) -> None:
        attempt = start(world, idle=WARNS)
        clock = Clock(attempt)
        clock.minutes(29, IDLE)
        assert told(attempt) == []
        clock.minute(IDLE)
        assert told(attempt) == ["idle"]

    def test_a_job_that_works_on_one_of_its_gpus_is_not_idle(self, world: World) -> None:
        attempt = start(world, gpus=2, idle=WARNS)
        Clock(attempt).minutes(60, BUSY, IDLE)
        assert told(attempt) == []

    def test_being_busy_again_takes_the_mark_away_and_is_told(self, world: World) -> None:
        attempt = start(world, idle=STOPS)
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(12, IDLE)
        row = watch_of(attempt)
        assert row is not None
        assert (row.since, row.stop_at) == (NOON + timedelta(minutes=1), NOON + timedelta(minutes=21))
        clock.minute(BUSY)
        row = watch_of(attempt)
        assert row is not None
        assert (row.warned_at, row.since, row.stop_at) == (None, None, None)
        clock.minutes(19, IDLE)
        assert told(attempt) == ["idle", "busy", "idle"]
        assert now_of(attempt).state == "running"

    def test_gaps_are_not_idleness(self, world: World) -> None:
        attempt = start(world, idle=STOPS)
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(9, IDLE)
        clock.unseen(120)
        clock.minutes(9, IDLE)
        assert told(attempt) == []

    def test_a_gpu_of_which_nothing_is_heard_keeps_the_job_from_being_idle(self, world: World) -> None:
        attempt = start(world, gpus=2, idle=STOPS)
        clock = Clock(attempt)
        clock.minute(BUSY, BUSY)
        clock.minutes(60, IDLE)  # the second is not measured
        assert told(attempt) == []

    def test_a_gpu_that_two_jobs_share_says_nothing_of_either(self, world: World) -> None:
        attempt, other = start(world, idle=STOPS), start(world, idle=STOPS)
        mine = GpuClaim.objects.get(allocation__attempt=attempt).gpu_id
        clock = Clock(attempt)
        clock.minute(BUSY)
        partner = ranks(other)[0].pk
        for minute in range(1, 61):
            at = NOON + timedelta(minutes=minute, seconds=20)
            figures: dict[str, Any] = {"samples": 1, "utilization": 0.0, "utilization_max": 0.0}
            GpuTenSeconds.objects.create(gpu_id=mine, allocation_id=partner, at=at, **figures)
            clock.minute(IDLE)
        assert told(attempt) == []

    def test_a_job_without_gpus_is_never_idle(self, world: World) -> None:
        Tenant.objects.update(idle_action="stop", idle_for_s=120)
        attempt = start(world, gpus=0)
        Clock(attempt).minutes(60)
        assert told(attempt) == []
        assert watch_of(attempt) is None


class TestStops:
    def test_it_is_stopped_with_its_grace_and_fails_for_that_without_another_try(self, world: World) -> None:
        attempt = start(
            world, idle=STOPS, checkpoint={"signal": "USR1", "grace": "90s"}, retry={"max": 3, "on": ["anything"]}
        )
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(19, IDLE)
        assert now_of(attempt).state == "running"
        clock.minute(IDLE)
        stopping = now_of(attempt)
        assert (stopping.state, stopping.outcome, stopping.reason) == ("stopping", "failed", "idle")
        assert stopping.reason_detail == (
            "its GPU did less than 5 % since 2026-05-01 12:01 UTC: stopped by its own `idle`"
        )
        assert stopping.job.grace_s == 90
        end(ranks(attempt)[0], Reason.COMPLETED)  # it has saved its work
        job = now_of(attempt.job)
        assert (job.state, job.reason, job.retries_used, job.failure) == ("failed", "idle", 0, None)
        clock.look()
        assert watch_of(attempt) is None

    def test_a_job_that_says_nothing_goes_by_its_tenant(self, world: World) -> None:
        Tenant.objects.update(idle_action="stop", idle_below=50, idle_for_s=1200)
        attempt = start(world, gpus=2)
        clock = Clock(attempt)
        clock.minute(BUSY, BUSY)
        clock.minutes(20, 0.4, 0.1)
        assert now_of(attempt).reason == "idle"
        assert "each of its 2 GPUs did less than 50 %" in now_of(attempt).reason_detail
        assert "its tenant's rule" in now_of(attempt).reason_detail

    def test_a_jobs_own_rule_takes_the_place_of_its_tenants(self, world: World) -> None:
        Tenant.objects.update(idle_action="stop", idle_for_s=1200)
        attempt = start(world, idle={"for": "7d", "action": "warn"})
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(60, IDLE)
        assert told(attempt) == []

    def test_a_tenants_rule_that_binds_holds_for_jobs_that_ask_for_less(self, world: World) -> None:
        Tenant.objects.update(idle_action="stop", idle_for_s=1200, idle_binding=True)
        attempt = start(world, idle={"for": "7d", "action": "warn"})
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(20, IDLE)
        assert now_of(attempt).reason == "idle"

    def test_a_rule_that_comes_later_counts_from_then_on(self, world: World) -> None:
        attempt = start(world, idle=WARNS)
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(60, IDLE)
        assert told(attempt) == ["idle"]
        Tenant.objects.update(idle_action="stop", idle_for_s=7200, idle_binding=True)
        look_back = int(MAX_LOOK_BACK.total_seconds() // 60)
        clock.minutes(60 - look_back - 1, IDLE)
        assert told(attempt) == ["idle"]
        clock.minutes(7, IDLE)
        assert told(attempt) == ["idle", "idle"]  # now it is to be stopped
        row = watch_of(attempt)
        assert row is not None
        assert row.stop_at is not None
        assert now_of(attempt).state == "running"

    def test_two_workers_do_not_tell_it_twice(self, world: World) -> None:
        attempt = start(world, idle=WARNS)
        clock = Clock(attempt)
        clock.minute(BUSY)
        clock.minutes(20, IDLE)
        clock.look()
        clock.look()
        assert told(attempt) == ["idle"]


def test_a_look_takes_the_same_statements_however_many_jobs_run(world: World, django_assert_num_queries: Any) -> None:
    Tenant.objects.update(idle_action="warn", idle_for_s=120)
    clock = Clock(*[start(world) for _ in range(6)])
    clock.minutes(2, BUSY)
    clock.now += timedelta(minutes=1)
    with django_assert_num_queries(9):
        assert look(now=clock.now) == 0


def test_what_only_waits_is_not_watched(world: World) -> None:
    attempt = place(world, idle=STOPS)
    assert look(now=NOON) == 0
    assert watch_of(attempt) is None


@pytest.mark.parametrize(
    ("idle", "field"),
    [
        ({"for": "1m"}, "idle.for"),
        ({"for": "8d"}, "idle.for"),
        ({"below": 0}, "idle.below"),
        ({"below": 101}, "idle.below"),
        ({"action": "kill"}, "idle.action"),
        ({"after": "30m"}, "idle.after"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(world: World, idle: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        start(world, idle=idle)
    assert [error.field for error in refused.value.errors] == [field]


def test_a_job_without_gpus_cannot_ask_for_it(world: World) -> None:
    with pytest.raises(Invalid, match="has none that could be idle"):
        start(world, gpus=0, idle=WARNS)


@pytest.mark.parametrize("fields", [{"idle_below": 0}, {"idle_for_s": 60}, {"idle_action": "kill"}])
def test_a_tenants_rule_is_bounded_by_the_database(world: World, fields: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.update(**fields)
