"""Predictions as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from muster.common.clock import moment, rounded
from muster.predictions.models import PredictorModel
from muster.predictions.waits.calibration import Bin, Figures, Miss, Waits, by_week, figures, reliability
from muster.predictions.waits.drift import Drift
from muster.predictions.waits.outlook import Start
from muster_client.answers.forecast import (
    WaitCalibration,
    WaitFigures,
    WaitForecast,
    WaitMiss,
    WaitReliability,
    WaitWeek,
    When,
)
from scheduler.predict.waits import forecast as waits
from scheduler.predict.waits.forecast import WaitSource


def wait_forecast(forecast: waits.WaitForecast | None) -> WaitForecast | None:
    """The document of a forecast."""
    if forecast is None:
        return None
    return {
        "quick": round(forecast.quick, 3),
        "p10_s": round(forecast.p10_s, 1),
        "p50_s": round(forecast.p50_s, 1),
        "p90_s": round(forecast.p90_s, 1),
        "source": forecast.source.value,
        "says": in_words(forecast),
    }


def in_words(forecast: waits.WaitForecast) -> str:
    """`likely within 10 minutes (83 %)`, or `in about 2 h (p50), within 6 h with 90 %`."""
    return forecast.says or f"in about {_about(forecast.p50_s)} (p50), within {_about(forecast.p90_s)} with 90 %"


def when_document(start: Start, now: datetime) -> When:
    """The document of a start."""
    until, since, forecast = start.started_at or now, start.eligible_at, start.now.forecast
    return {
        "wait": wait_forecast(forecast),
        "wait_unknown": start.now.unknown,
        "submitted": wait_forecast(start.submitted),
        "eligible_at": moment(since),
        "starts_p50_at": moment(start.by(forecast.p50_s)) if forecast is not None else None,
        "starts_p90_at": moment(start.by(forecast.p90_s)) if forecast is not None else None,
        "started_at": moment(start.started_at),
        "waited_s": None if since is None else round(max(0.0, (until - since).total_seconds()), 1),
    }


def calibration_document(
    pool: str, waits: Waits, *, unknown: str, worst: Sequence[Miss], drift: Drift, model: PredictorModel | None
) -> WaitCalibration:
    """The document of a pool's forecasts, held against its waits; `unknown` is told where no wait is judged."""
    some = len(waits.judged.jobs) > 0
    return {
        "pool": pool,
        "unknown": "" if some else unknown,
        "weeks": [wait_week(begins, figures(week)) for begins, week in by_week(waits)] if some else [],
        "total": wait_figures(figures(waits)) if some else None,
        "reliability": reliability_rows(reliability(waits)),
        "worst": misses(worst),
        "drift": {"alarm": drift.alarm, "says": drift.says},
        "trained_at": moment(model.trained_at) if model is not None else None,
        "rows": model.rows if model is not None else 0,
    }


def wait_week(begins: datetime, found: Figures) -> WaitWeek:
    """The row of a week."""
    return {**wait_figures(found), "begins": begins.date().isoformat()}


def wait_figures(found: Figures) -> WaitFigures:
    """The scores of waits; null where no job gives one."""
    return {
        "jobs": found.jobs,
        "quick_expected": _score(found.quick_expected),
        "quick_real": _score(found.quick_real),
        "balanced_accuracy": _score(found.balanced_accuracy),
        "p90_coverage": _score(found.p90_coverage),
        "two_sided_coverage": _score(found.two_sided_coverage),
        "pinball": {
            "model": _score(found.pinball[WaitSource.MODEL]),
            "forward": _score(found.pinball[WaitSource.FORWARD]),
            "combined": _score(found.pinball[WaitSource.COMBINED]),
        },
    }


def reliability_rows(bins: Sequence[Bin]) -> list[WaitReliability]:
    """The rows of the tenths that have jobs."""
    return [
        {
            "begins": one.low,
            "ends": one.high,
            "expected": round(one.expected, 4),
            "real": round(one.real, 4),
            "jobs": one.jobs,
        }
        for one in bins
    ]


def misses(found: Sequence[Miss]) -> list[WaitMiss]:
    """The rows of jobs that waited longer than their p90."""
    return [
        {
            "id": one.job.pk,
            "name": one.job.name,
            "expected_p90_s": round(one.expected_p90_s, 1),
            "waited_s": round(one.waited_s, 1),
            "submitted_at": moment(one.job.submitted_at),
        }
        for one in found
    ]


def _score(value: float) -> float | None:
    return None if math.isnan(value) else rounded(value, 4)


def _about(seconds: float) -> str:
    """A time span in one unit, with a tenth of it where it is below ten."""
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 0.95 * unit_s:
            count = seconds / unit_s
            return f"{count:.1f} {unit}".replace(".0 ", " ") if count < 9.95 else f"{count:.0f} {unit}"
    return f"{seconds:.0f} s"
