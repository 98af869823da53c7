"""The record of forecasts over a trace."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scheduler.predict.waits import WaitForecast, WaitJob, WaitSource
from scheduler.predict.waits.evaluate import Record, Scored, _last_starts, evaluate
from tests.unit.scheduler.predict.waits.traces import trace


def test_only_jobs_after_the_split_are_forecast_and_nothing_later_changes_a_forecast() -> None:
    jobs = trace(200)
    since, until = jobs[120].eligible_at, jobs[160].eligible_at
    later = [
        job if job.started_at <= until else replace(job, started_at=job.started_at + 1e6, ended_at=job.ended_at + 1e6)
        for job in jobs
    ]
    found, other = (evaluate(these, since=since, until=until, refit_s=86400.0).scored for these in (jobs, later))
    assert [one.job.eligible_at for one in found] == [job.eligible_at for job in jobs[120:160]]
    assert [(one.raw, one.shown, one.baseline) for one in found] == [
        (one.raw, one.shown, one.baseline) for one in other
    ]


def test_too_little_on_one_side_of_the_split_is_an_error() -> None:
    jobs = trace(60)
    for since, says in ((jobs[3].eligible_at, "fewer than 50"), (jobs[-1].eligible_at + 1, "after the split")):
        with pytest.raises(ValueError, match=says):
            evaluate(jobs, since=since)


def test_last_50_of_this_size_knows_the_waits_that_have_ended_alone() -> None:
    jobs = [
        WaitJob(owner=1, gpus=1, eligible_at=0, started_at=100),
        WaitJob(owner=1, gpus=2, eligible_at=10, started_at=15),
        WaitJob(owner=1, gpus=1, eligible_at=50, started_at=60),
        WaitJob(owner=1, gpus=1, eligible_at=200, started_at=200),
    ]
    found = _last_starts(jobs)
    assert found[:3] == [None, None, None]
    assert found[3] is not None
    assert found[3][1] == pytest.approx(55.0)


def _scored(quick: float, quantiles: tuple[float, float, float], wait: float, day: int) -> Scored:
    job = WaitJob(owner=1, gpus=1, eligible_at=86400.0 * day, started_at=86400.0 * day + wait)
    forecast = WaitForecast(quick, *quantiles, WaitSource.MODEL)
    return Scored(job, forecast, forecast, (wait + 50, wait + 100, wait + 200), math.nan if day else wait)


def test_figures_follow_their_definitions() -> None:
    record = Record(
        (
            _scored(0.9, (0, 1, 60), 30, 0),
            _scored(0.8, (0, 1, 60), 90, 1),
            _scored(0.2, (600, 900, 4000), 3600, 2),
            _scored(0.1, (600, 900, 2000), 500, 3),
        )
    )
    found = record.figures()
    assert found["balanced_accuracy"].value == pytest.approx((2 / 3 + 1) / 2)
    assert found["auc"].value == pytest.approx(2 / 3)
    assert found["p90_coverage"].value == 0.75
    assert found["two_sided_coverage"].value == 0.5
    assert found["plan_coverage"].value == 1.0
    assert found["p90_pinball"].value == found["p90_pinball_raw"].value
    assert len(record.part([2]).scored) == 1
    exact = Record(
        tuple(
            replace(one, shown=replace(one.shown, p10_s=one.waited_s, p50_s=one.waited_s, p90_s=one.waited_s))
            for one in record.scored
        )
    )
    assert exact.figures()["log_below_last_50"].value == pytest.approx(1.0)
    assert np.isnan(Record(()).figures()["auc"].value)
