"""Waits: the rows behind the events, the forecasts from them, the model that they train, and the record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from muster.arrays.services import submit_array
from muster.jobs.models import Job
from muster.jobs.queue import hold_job, release_job
from muster.jobs.services import cancel_job
from muster.predictions.models import Kind, PredictorModel, WaitCalibration, WaitOutcome, WaitRecord
from muster.predictions.versions import store_model
from muster.predictions.waits import calibration, records
from muster.predictions.waits.drift import MIN_JUDGED, drift_of
from muster.predictions.waits.fitting import Row, fit
from muster.predictions.waits.outlook import NO_STARTS, outlook_of_draft, start_of
from muster.predictions.waits.queues import queue_of
from muster.predictions.waits.training import train_waits
from scheduler.predict.waits.features import NAMES, VERSION
from scheduler.predict.waits.forecast import WaitSource
from scheduler.predict.waits.model import WaitModel, train
from tests.db.stories import World, cycle, make_world, place, submit
from tests.factories import job_fields, make_tenant, make_user, make_vc

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("settled_at_once")]

FORECASTS = {"model": [0.9, 10.0, 60.0, 600.0]}


@pytest.fixture
def busy() -> World:
    """A world of four GPUs, all of them taken, whose events so far have been read."""
    world = make_world()
    records.read_events()
    place(world, gpus=4)
    records.read_events()
    return world


@pytest.fixture(scope="module")
def model() -> WaitModel:
    """A small model of waits that grow with the number of waiting jobs."""
    chance = np.random.default_rng(1)
    rows = chance.uniform(0, 1, (400, len(NAMES)))
    at = list(NAMES).index("waiting")
    rows[:, at] = chance.integers(0, 50, 400)
    waited_s = rows[:, at] * 60 * chance.uniform(0.5, 2, 400)
    found = train(rows, waited_s, np.ones(400, dtype=bool))
    assert found is not None
    return found


def in_use(world: World, model: WaitModel) -> PredictorModel:
    data = model.to_bytes()
    return store_model(kind=Kind.WAIT, pool_id=world.pool.pk, rows=400, scores={}, data=data, active=True)


def past(world: World, **fields: Any) -> WaitRecord:
    """The row of a job that started some hours ago after a wait."""
    waited_s = fields.pop("waited_s", 30.0)
    now = timezone.now() - timedelta(hours=fields.pop("hours_ago", 2))
    job = Job.objects.create(**job_fields(world.vc, world.user), submitted_at=now)
    return WaitRecord.objects.create(
        **{
            "job": job,
            "pool": world.pool,
            "version": VERSION,
            "features": [0.0] * len(NAMES),
            "forecasts": FORECASTS,
            "eligible_at": now,
            "outcome": WaitOutcome.STARTED,
            "over_at": now + timedelta(seconds=waited_s),
            **fields,
        }
    )


def test_a_submission_gets_a_row_with_the_features_of_its_queue(busy: World) -> None:
    job = submit(busy)
    records.read_events()
    row = WaitRecord.objects.get(pk=job.pk)
    assert (row.outcome, row.eligible_at, len(row.features)) == ("waits", job.eligible_at, len(NAMES))
    assert row.forecasts == {}


def test_a_row_of_a_job_that_starts_has_its_wait_and_one_of_a_cancelled_job_is_censored() -> None:
    world = make_world(gpus=1)
    records.read_events()
    first, second = submit(world), submit(world)
    cycle(world)
    records.read_events()
    cancel_job(user=world.user, job=second)
    records.read_events()
    started, left = (WaitRecord.objects.get(pk=job.pk) for job in (first, second))
    placed_at = first.attempts.get().placed_at
    assert (started.outcome, left.outcome) == (WaitOutcome.STARTED, WaitOutcome.LEFT)
    assert abs((started.over_at - placed_at).total_seconds()) < 1
    assert start_of(Job.objects.get(pk=first.pk)).started_at == placed_at


def test_a_held_jobs_wait_counts_from_its_release(busy: World) -> None:
    job = submit(busy, hold=True)
    records.read_events()
    assert WaitRecord.objects.get(pk=job.pk).eligible_at is None
    assert start_of(Job.objects.select_related("vc").get(pk=job.pk)).eligible_at is None
    release_job(user=busy.user, job=job)
    records.read_events()
    row = WaitRecord.objects.get(pk=job.pk)
    assert row.eligible_at is not None
    assert row.eligible_at > job.submitted_at
    hold_job(user=busy.user, job=job)
    assert start_of(Job.objects.select_related("vc").get(pk=job.pk)).eligible_at is None


def test_each_member_of_an_array_gets_a_row_in_a_few_statements(
    busy: World, django_assert_max_num_queries: Any
) -> None:
    array, _ = submit_array(user=busy.user, data={"command": "true", "gpus": 1, "vc": busy.vc.name, "array": "0-199"})
    with django_assert_max_num_queries(20):
        records.read_events()
    assert WaitRecord.objects.filter(job__group=array).count() == 200


def test_the_queue_has_waiting_running_and_started_jobs_in_columns(busy: World) -> None:
    waiting = submit(busy, gpus=2, time="2h")
    state = queue_of(busy.pool.pk, timezone.now()).state
    assert [len(rows) for rows in (state.waiting, state.running, state.started)] == [1, 1, 1]
    row = state.waiting[0]
    assert (state.jobs.gpus[row], state.jobs.limit_s[row], state.jobs.owner[row]) == (2, 7200, waiting.owner_id)
    assert state.gpus[-1] == 4
    assert len(queue_of(busy.pool.pk, timezone.now()).without(waiting.pk).waiting) == 0


def test_a_forecast_of_a_submission_is_stored_shown_and_conditioned_on_the_wait_so_far(
    busy: World, model: WaitModel
) -> None:
    in_use(busy, model)
    job = submit(busy)
    before = start_of(Job.objects.select_related("vc").get(pk=job.pk)).now.forecast
    records.read_events()
    row = WaitRecord.objects.get(pk=job.pk)
    assert before is not None
    assert row.forecasts["model"][0] == pytest.approx(before.quick, abs=0.2)
    WaitRecord.objects.filter(pk=job.pk).update(eligible_at=timezone.now() - timedelta(hours=1))
    start = start_of(Job.objects.select_related("vc").get(pk=job.pk))
    assert start.now.forecast is not None
    assert start.submitted is not None
    assert start.now.forecast.p10_s >= 3600
    assert start.now.forecast.quick == 0
    assert start.submitted.p10_s < 3600


def test_a_wait_that_outlives_its_p90_counts_at_once_and_its_start_counts_no_level_twice(
    busy: World, model: WaitModel
) -> None:
    in_use(busy, model)
    job = submit(busy)
    records.read_events()
    WaitRecord.objects.filter(pk=job.pk).update(
        eligible_at=timezone.now() - timedelta(days=1), due_at=timezone.now() - timedelta(hours=1)
    )
    assert records.count_outlived() == 1
    assert records.count_outlived() == 0
    state = WaitCalibration.objects.get(pool=busy.pool).state
    assert WaitRecord.objects.get(pk=job.pk).counted == {"model": 3}
    cancel_job(user=busy.user, job=job)
    records.read_events()
    assert WaitCalibration.objects.get(pool=busy.pool).state == state


def test_without_a_start_in_the_pool_the_reason_is_told() -> None:
    world = make_world()
    job = submit(world)
    assert outlook_of_draft(job).unknown == NO_STARTS


def test_a_pool_is_trained_on_its_rows_alone_and_not_again_before_new_starts() -> None:
    world = make_world()
    chance = np.random.default_rng(2)
    for number in range(300):
        busy = float(chance.random())
        features = [busy] * len(NAMES)
        past(world, waited_s=3000 * busy, features=features, hours_ago=400 - number)
    assert train_waits() == 1
    first = PredictorModel.objects.get(active=True)
    assert (first.kind, first.pool_id, first.rows) == (Kind.WAIT, world.pool.pk, 300)
    assert first.scores["balanced_accuracy"] > 0.8
    # No start since: it is not trained anew.
    assert train_waits() == 0


def rows_where(waits_s: Callable[[float], float], *, seed: int) -> list[Row]:
    """300 waits, one a minute, that follow from how busy the pool was."""
    busy = np.random.default_rng(seed).random(300)
    return [(60.0 * n, waits_s(float(one)), True, [float(one)] * len(NAMES)) for n, one in enumerate(busy)]


def test_a_model_is_replaced_only_by_one_that_is_better_on_the_newest_waits() -> None:
    rows = rows_where(lambda busy: 3000 * busy, seed=3)
    right = fit(iter(rows))
    wrong = fit(iter(rows_where(lambda busy: 3000 * (1 - busy), seed=4)))
    assert right is not None
    assert wrong is not None
    better = fit(iter(rows), used=wrong.data)
    assert better is not None
    assert better.data is not None
    assert better.scores["loss"] < better.scores["loss_before"]
    # The model in use has seen these waits, and those of the newest tenth too: a new one is no better.
    worse = fit(iter(rows), used=right.data)
    assert worse is not None
    assert worse.data is None


def test_the_record_holds_forecasts_against_waits_by_week_and_links_only_visible_jobs() -> None:
    world = make_world()
    for _ in range(9):
        past(world)
    miss = past(world, waited_s=7200.0)
    waits = calibration.waits_of(world.pool.pk, timezone.now() - timedelta(weeks=1))
    total = calibration.figures(waits)
    assert (total.jobs, total.quick_real, total.p90_coverage) == (10, 0.9, 0.9)
    assert total.quick_expected == pytest.approx(0.9)
    assert np.isnan(total.two_sided_coverage)
    assert not np.isnan(total.pinball[WaitSource.MODEL])
    assert np.isnan(total.pinball[WaitSource.FORWARD])
    assert sum(calibration.figures(week).jobs for _, week in calibration.by_week(waits)) == 10
    assert [(one.jobs, one.real) for one in calibration.reliability(waits)] == [(10, 0.9)]
    found = calibration.worst_misses(waits, world.user)
    assert [(one.job.pk, one.expected_p90_s, round(one.waited_s)) for one in found] == [(miss.job_id, 600.0, 7200)]
    other = make_tenant()
    make_vc(other, world.pool)
    assert calibration.worst_misses(waits, make_user(tenant=other)) == []


def test_operators_are_told_once_when_waits_contradict_the_forecasts(settings: Any) -> None:
    settings.OPERATORS_MAIL = ["ops@example.org"]
    world = make_world()
    for _ in range(MIN_JUDGED - 1):
        past(world, waited_s=7200.0)
    assert not drift_of(world.pool.pk).alarm
    past(world, waited_s=7200.0)
    assert drift_of(world.pool.pk).alarm
    kept = WaitCalibration.objects.create(pool=world.pool)
    records.watch_drift(kept)
    kept.refresh_from_db()
    assert kept.alarm
    records.watch_drift(kept)
    from muster.events.models import Event, Outbox

    assert Event.objects.filter(kind="prediction.drift").count() == 1
    assert Outbox.objects.filter(topic="mail").count() == 1


def test_rows_that_are_old_are_forgotten() -> None:
    world = make_world()
    past(world, hours_ago=24 * 401)
    kept = past(world)
    assert records.forget() == 1
    assert WaitRecord.objects.get() == kept
