"""The record of expected run times: how right they were for jobs that have ended, by week, and how right owners are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection

from muster.jobs.attempt.history import NO_RUN, STOPPED, TOOK_SQL, user_s_of
from muster.predictions.models import Kind, PredictorModel
from muster.usage.scope import Scope
from scheduler.model.reasons import Reason
from scheduler.predict.runtimes import Source
from scheduler.predict.scores import coverage, pinball

MAX_RUNS = 50_000
"""The newest runs that are judged; more would keep a web process for long."""
NO_RUNS = "no job that you may see has ended yet"
_UNKNOWN = sorted({*STOPPED, *NO_RUN} - {Reason.TIME_LIMIT})
"""Ends of which the run time is not known; at the limit it is the limit, above which nothing is estimated."""
_LEVELS = (0.1, 0.5, 0.9)
_MIN_S = 1.0  # a shorter run counts as so long, for its logarithm
_FACTOR = 2.0
_PREDICTED = frozenset({Source.MODEL, Source.HISTORY})
"""Estimates of the platform's own; others come from the owner, the limit or a sweep."""


@dataclass(frozen=True, slots=True)
class RunTimeWeek:
    """Expected run times of the jobs that ended in a week; None: no job gives the figure."""

    begins: date
    jobs: int
    coverage80: float
    median_ratio: float
    pinball: float


@dataclass(frozen=True, slots=True)
class OwnersRecord:
    """The run times of an owner's jobs over those that the owner expected."""

    owner: str
    jobs: int
    median_ratio: float
    within_2x: float


@dataclass(frozen=True, slots=True)
class RunTimeRecord:
    """The record by week, the oldest first, and by owner, the one with the most jobs first."""

    weeks: list[RunTimeWeek] = field(default_factory=list)
    owners: list[OwnersRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Run:
    owner: str
    ended_at: datetime
    took_s: float
    quantiles_s: tuple[float, ...] | None
    user_s: float | None


def run_time_record(scope: Scope, since: datetime) -> RunTimeRecord:
    """The record of the jobs in scope that have ended since."""
    runs = list(_runs(scope, since))
    by_week: defaultdict[date, list[_Run]] = defaultdict(list)
    by_owner: defaultdict[str, list[_Run]] = defaultdict(list)
    for run in runs:
        if run.quantiles_s is not None:
            by_week[_monday_of(run.ended_at)].append(run)
        if run.user_s is not None:
            by_owner[run.owner].append(run)
    owners = [_owner(owner, of_owner) for owner, of_owner in by_owner.items()]
    return RunTimeRecord(
        [_week(begins, by_week[begins]) for begins in sorted(by_week)],
        sorted(owners, key=lambda one: (-one.jobs, one.owner)),
    )


def active_model() -> PredictorModel | None:
    """The model of run times in use, without its trees."""
    return PredictorModel.objects.filter(kind=Kind.RUN_TIME, pool=None, active=True).defer("data").first()


def first_week(now: datetime, weeks: int) -> datetime:
    """The beginning of the first of this number of weeks, of which the present one is the last; UTC."""
    first = _monday_of(now) - timedelta(weeks=weeks - 1)
    return datetime(first.year, first.month, first.day, tzinfo=UTC)


def _monday_of(moment: datetime) -> date:
    at = moment.astimezone(UTC)
    return at.date() - timedelta(days=at.weekday())


def _runs(scope: Scope, since: datetime) -> Sequence[_Run]:
    condition = f"AND {scope.sql}" if scope.sql else ""
    statement = f"""
        SELECT owner.username, job.ended_at, {TOOK_SQL}, job.expected_p10_s, job.expected_s, job.expected_p90_s,
            job.expected_source, job.spec->>'expected'
        FROM jobs_job job JOIN accounts_user owner ON owner.id = job.owner_id
        WHERE job.ended_at >= %(since)s AND job.ran_s > 0 AND job.reason <> ALL (%(unknown)s) {condition}
        ORDER BY job.ended_at DESC LIMIT {MAX_RUNS}
    """
    with connection.cursor() as cursor:
        parameters: Any = scope.parameters | {"since": since, "unknown": _UNKNOWN}
        cursor.execute(statement, parameters)
        rows = cursor.fetchall()
    return [
        _Run(
            owner,
            ended_at,
            max(took_s, _MIN_S),
            tuple(max(one, _MIN_S) for one in numbers) if source in _PREDICTED and None not in numbers else None,
            user_s_of(expected),
        )
        for owner, ended_at, took_s, *numbers, source, expected in rows
        if took_s is not None
    ]


def _week(begins: date, runs: Sequence[_Run]) -> RunTimeWeek:
    took_s = np.array([run.took_s for run in runs])
    quantiles_s = np.array([run.quantiles_s for run in runs])
    low_s, median_s, high_s = quantiles_s.T
    losses = [
        pinball(np.log(took_s), np.log(predicted_s), level)
        for predicted_s, level in zip((low_s, median_s, high_s), _LEVELS, strict=True)
    ]
    return RunTimeWeek(
        begins,
        len(runs),
        coverage(took_s, high_s, low_s),
        float(np.median(took_s / median_s)),
        float(np.mean(losses)),
    )


def _owner(owner: str, runs: Sequence[_Run]) -> OwnersRecord:
    ratios = np.array([run.took_s / max(run.user_s or 0.0, _MIN_S) for run in runs])
    near = (ratios >= 1 / _FACTOR) & (ratios <= _FACTOR)
    return OwnersRecord(owner, len(runs), float(np.median(ratios)), float(near.mean()))
