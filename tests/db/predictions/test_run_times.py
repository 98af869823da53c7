"""The record of expected run times, from jobs that have ended."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from muster.accounts.models import User
from muster.jobs.models import Job
from muster.predictions.run_times import OwnersRecord, first_week, run_time_record
from muster.tenants.models import VirtualCluster
from muster.usage.scope import Asked, Scope, scope_of
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from tests.factories import make_job, make_user, make_vc

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture
def vc() -> VirtualCluster:
    return make_vc()


def ended(
    vc: VirtualCluster, took_s: float, *, days: float = 0, user: str = "", owner: User | None = None, **fields: Any
) -> Job:
    """A job that was expected to take 100 s, or 10 s to 1,000 s with 80 %."""
    expected = {"expected_p10_s": 10.0, "expected_s": 100.0, "expected_p90_s": 1000.0, "expected_source": "model"}
    fields = {**expected, "reason": Reason.COMPLETED, **fields}
    at = MONDAY + timedelta(days=days)
    job = make_job(vc, owner, state=JobState.SUCCEEDED, ran_s=took_s, attempt_count=1, ended_at=at, **fields)
    if user:
        Job.objects.filter(pk=job.pk).update(spec=job.spec | {"expected": user})
    return job


def test_each_week_has_the_coverage_the_median_ratio_and_the_loss_of_its_jobs(vc: VirtualCluster) -> None:
    for took_s in (50, 200, 2000, 5):
        ended(vc, took_s)
    ended(vc, 100, days=7)
    first, second = run_time_record(Scope(), MONDAY).weeks
    assert (first.begins, first.jobs, first.coverage80, first.median_ratio) == (date(2026, 11, 16), 4, 0.5, 1.25)
    assert (second.begins, second.jobs, second.coverage80, second.median_ratio) == (date(2026, 11, 23), 1, 1.0, 1.0)
    # ln(10) above p10 and below p90, each at a tenth, and no loss of the median.
    assert second.pinball == pytest.approx(2 * 0.1 * math.log(10) / 3)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"reason": Reason.CANCELLED_BY_USER}, id="stopped, so that the run time is not known"),
        pytest.param({"reason": Reason.STOPPED_EARLY}, id="stopped by its sweep"),
        pytest.param({"expected_source": "user"}, id="expected by its owner"),
        pytest.param({"expected_p90_s": None}, id="without an interval"),
        pytest.param({"days": -0.1}, id="ended before"),
    ],
)
def test_a_run_that_says_nothing_of_predictions_is_not_judged(vc: VirtualCluster, fields: dict[str, Any]) -> None:
    ended(vc, 100, **fields)
    assert run_time_record(Scope(), MONDAY).weeks == []


def test_owners_estimates_are_held_against_what_their_jobs_took(vc: VirtualCluster) -> None:
    ada, bob = make_user("ada", tenant=vc.tenant), make_user("bob", tenant=vc.tenant)
    for took_s in (60, 1800, 3600):
        ended(vc, took_s, owner=ada, user="1h", expected_source="user")
    ended(vc, 7200, owner=bob, user="30m")
    ended(vc, 7200, owner=bob)
    everyone = [OwnersRecord("ada", 3, 0.5, pytest.approx(2 / 3)), OwnersRecord("bob", 1, 4.0, 0.0)]
    assert run_time_record(Scope(), MONDAY).owners == everyone
    assert run_time_record(scope_of(bob, Asked()), MONDAY).owners == everyone[1:]


def test_the_present_week_is_the_last_of_those_that_are_asked_for() -> None:
    assert first_week(MONDAY + timedelta(days=6, hours=23), 1) == MONDAY
    assert first_week(MONDAY + timedelta(days=6, hours=23), 3) == MONDAY - timedelta(days=14)
