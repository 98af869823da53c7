"""The model of run times in Postgres: trained, compared, asked by submissions, and corrected by steps."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import LazySettings

from muster.common.models import DatabaseNow
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.attempt.estimates import current_estimate
from muster.jobs.models import Job
from muster.monitoring.models import Series
from muster.predictions.learned import active
from muster.predictions.learned.fitting import is_better
from muster.predictions.learned.progress import follow_progress
from muster.predictions.learned.training import is_due, train_run_times
from muster.predictions.models import Kind, PredictorModel
from scheduler.model.lifecycle import JobState
from scheduler.model.reasons import Reason
from scheduler.predict.runtimes import RunTimeModel
from tests.db.stories import World, let_pass, make_world, now_of, start, submit
from tests.factories import job_fields

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]


@pytest.fixture(autouse=True)
def _own_folder(settings: LazySettings, tmp_path: Path) -> Iterator[None]:
    settings.STATE_FOLDER = tmp_path
    active.forget()
    yield
    active.forget()


@pytest.fixture
def world() -> World:
    return make_world()


def had_runs(world: World, count: int) -> None:
    """Ended jobs of which those with one tag take a minute and the others an hour; a few have times without sense."""
    chance = random.Random(1)
    fields = job_fields(world.vc, world.user, state=JobState.SUCCEEDED, reason=Reason.COMPLETED, attempt_count=1)
    newest = fields["ended_at"]
    jobs = []
    for number in range(count):
        data, seconds = chance.choice([("small", 60.0), ("large", 3600.0)])
        ended_at = newest - timedelta(minutes=count - number)
        took_s = seconds * chance.uniform(0.8, 1.25)
        begun = {"submitted_at": ended_at - timedelta(minutes=5), "ended_at": ended_at}
        odd = {40: {"ran_s": 1e-9}, 41: {"ran_s": 3e9}, 42: {"submitted_at": ended_at + timedelta(days=2)}}
        jobs.append(
            Job(
                **fields
                | {"tags": {"data": data}, "name": f"job-{number}", "ran_s": took_s}
                | begun
                | odd.get(number, {})
            )
        )
    Job.objects.bulk_create(jobs)


def test_a_model_is_trained_in_a_child_and_asked_by_submissions(world: World) -> None:
    fitted_before = "lightgbm" in sys.modules  # by another test of this process
    assert not train_run_times()  # nothing has ended
    had_runs(world, 120)
    assert train_run_times()
    row = PredictorModel.objects.get(kind=Kind.RUN_TIME)
    assert (row.active, row.version, row.rows) == (True, 1, 120)
    assert row.scores["pinball_p50"] < row.scores["pinball_rules"]
    assert not train_run_times()  # nothing has ended since
    job = now_of(submit(world, name="job-7", tags={"data": "small"}))
    assert job.expected_source == "model"
    assert 0 < (job.expected_p10_s or 0) <= (job.expected_s or 0) <= (job.expected_p90_s or 0)
    large = now_of(submit(world, name="job-7", tags={"data": "large"}))
    assert 3 * (job.expected_s or 0) < (large.expected_s or 0)
    (seen, _) = pool_snapshot(world.pool, seed=1).waiting
    assert (seen.expected_p10_s, seen.expected_p90_s) == (job.expected_p10_s, job.expected_p90_s)
    assert ("lightgbm" in sys.modules) == fitted_before


def test_a_model_that_is_cut_is_left_out_and_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    had_runs(world, 8)
    PredictorModel.objects.create(kind=Kind.RUN_TIME, version=1, rows=8, data=b"MUSTERPREDICTOR\ncut", active=True)
    with caplog.at_level(logging.ERROR, "muster.predictions.learned.active"):
        sources = [now_of(submit(world, name=name)).expected_source for name in ("job-7", "job-8")]
    assert sources == ["history", "history"]
    assert [record.message.partition(" ")[0] for record in caplog.records] == ["model_left_out"]


def test_training_is_due_once_a_day_or_after_a_tenth_more_runs(world: World) -> None:
    had_runs(world, 30)
    newest = Job.objects.latest("ended_at").ended_at
    assert newest is not None
    model = PredictorModel.objects.create(kind=Kind.RUN_TIME, version=1, rows=1000, data=b"", active=True)
    for minutes, due_now, due_after_a_day in ((10, False, False), (25, False, True)):
        PredictorModel.objects.update(trained_at=newest - timedelta(minutes=minutes) + timedelta(seconds=30))
        model.refresh_from_db()
        assert is_due(model.trained_at) is due_now
        assert is_due(model.trained_at + timedelta(days=1)) is due_after_a_day
    PredictorModel.objects.update(rows=200)
    assert is_due(model.trained_at)


def test_a_model_replaces_only_what_it_beats() -> None:
    model = RunTimeModel((), (), (0.0, 0.0), 0.0, 100)
    won = {"pinball_p50": 0.3, "pinball_rules": 0.4}
    for scores, better in (
        (won, True),
        ({"pinball_p50": 0.4, "pinball_rules": 0.4}, False),
        (won | {"pinball_since": 0.2, "pinball_before": 0.3}, True),
        (won | {"pinball_since": 0.3, "pinball_before": 0.2}, False),
        ({}, False),
    ):
        assert is_better(replace(model, scores=scores)) is better


def test_steps_of_a_total_correct_the_run_time_of_a_running_job(world: World) -> None:
    attempt = start(world, expected="1h")
    let_pass(1000, attempt, "placed_at")
    assert follow_progress() == 0
    Series.objects.create(attempt=attempt, name="total", from_log=False, last_step=1, last_value=2000, at=DatabaseNow())
    loss = Series.objects.create(attempt=attempt, name="loss", from_log=False, last_step=1000, last_value=0.5)
    assert follow_progress() == 1
    job = now_of(attempt.job)
    assert job.expected_source == "progress"
    assert 1800 < (job.expected_s or 0) < 2600  # half of the steps took 1000 s
    assert follow_progress() == 0
    for step in (3000, float("nan"), -5):  # beyond its total, and no step
        Series.objects.filter(pk=loss.pk).update(last_step=step)
        assert follow_progress() == 0
    shown = current_estimate(now_of(job))
    assert shown is not None
    assert shown["source"] == "progress"
