"""Forecasts of waits in a pool, held against what came true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db.models import QuerySet
from numpy.typing import NDArray

from muster.accounts.models import User
from muster.common.statements import Statement
from muster.jobs.models import Job
from muster.jobs.selectors import visible_jobs
from scheduler.predict.scores import balanced_accuracy, coverage, pinball
from scheduler.predict.waits.forecast import LEVELS, LIKELY, QUICK_S, WaitSource

MAX_ROWS = 100_000
"""The newest waits that count."""
WORST = 20
_BINS = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SOURCES = (WaitSource.MODEL, WaitSource.FORWARD, WaitSource.COMBINED)

Floats = NDArray[np.float64]

_NUMBERS = ", ".join(
    f"(forecasts->'{source}'->>{place})::float8" for source in _SOURCES for place in range(1 + len(LEVELS))
)
_ROWS = Statement(f"""
SELECT extract(epoch FROM eligible_at)::float8, extract(epoch FROM COALESCE(over_at, clock_timestamp()))::float8,
    CASE WHEN outcome = 'started' THEN 1 ELSE 0 END, job_id, {_NUMBERS}
FROM predictions_waitrecord
WHERE pool_id = %s AND eligible_at >= %s AND eligible_at <= clock_timestamp() AND forecasts <> '{{}}'
ORDER BY eligible_at DESC LIMIT {MAX_ROWS}
""")


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits that had a forecast, in arrays: epoch times, s, and forecasts as (n, 4) of quick, p10, p50 and p90."""

    jobs: Floats
    eligible_at: Floats
    waited_s: Floats  # until now where the job waits still
    started: NDArray[np.bool_]
    forecasts: dict[WaitSource, Floats]  # NaN: that source had none
    shown: Floats

    def __getitem__(self, rows: NDArray[np.bool_]) -> Waits:
        forecasts = {source: one[rows] for source, one in self.forecasts.items()}
        return Waits(
            self.jobs[rows],
            self.eligible_at[rows],
            self.waited_s[rows],
            self.started[rows],
            forecasts,
            self.shown[rows],
        )

    @property
    def judged(self) -> Waits:
        """Those of which it is known if they were quick: a job that waits is not, after ten minutes."""
        return self[self.started | (self.waited_s > QUICK_S)]


@dataclass(frozen=True, slots=True)
class Figures:
    """Scores of waits; NaN where no job gives one. docs/operator/waits.md defines them."""

    jobs: int
    quick_expected: float
    quick_real: float
    balanced_accuracy: float
    p90_coverage: float
    two_sided_coverage: float
    pinball: dict[WaitSource, float]


@dataclass(frozen=True, slots=True)
class Bin:
    """Waits whose probability of a quick start was between two bounds."""

    low: float
    high: float
    expected: float
    real: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A job that waited longer than its p90."""

    job: Job
    expected_p90_s: float
    waited_s: float


def waits_of(pool_id: int, since: datetime) -> Waits:
    """The waits of the pool that began after this moment and had a forecast."""
    rows = np.array(_ROWS.rows(pool_id, since), dtype=np.float64).reshape(-1, 4 + len(_SOURCES) * (1 + len(LEVELS)))
    forecasts = dict(zip(_SOURCES, np.split(rows[:, 4:], len(_SOURCES), axis=1), strict=True))
    shown = forecasts[WaitSource.COMBINED]
    for source in (WaitSource.MODEL, WaitSource.FORWARD):
        shown = np.where(np.isnan(shown), forecasts[source], shown)
    waited_s = np.maximum(rows[:, 1] - rows[:, 0], 0.0)
    return Waits(rows[:, 3], rows[:, 0], waited_s, rows[:, 2] > 0, forecasts, shown)


def figures(waits: Waits) -> Figures:
    """The scores of these waits."""
    judged = waits.judged
    quick, waited_s = judged.shown[:, 0], judged.waited_s
    # A wait that lasts is above its p90 or not known to be below it.
    known = judged[judged.started | (waited_s > judged.shown[:, 3])]
    late = known[known.shown[:, 0] < LIKELY]
    return Figures(
        len(judged.jobs),
        _mean(quick),
        _mean(waited_s <= QUICK_S),
        balanced_accuracy(waited_s <= QUICK_S, quick >= LIKELY),
        coverage(known.waited_s, known.shown[:, 3]),
        coverage(late.waited_s, late.shown[:, 3], late.shown[:, 1]),
        {source: _pinball(waits[waits.started], source) for source in _SOURCES},
    )


def by_week(waits: Waits) -> Iterator[tuple[datetime, Waits]]:
    """The Monday of each week (UTC) with its waits, the oldest first."""
    # 1970-01-05 was a Monday.
    weeks = np.floor((waits.eligible_at / 86_400 - 4) / 7)
    for week in np.unique(weeks):
        yield _EPOCH + timedelta(days=4 + 7 * float(week)), waits[weeks == week]


def reliability(waits: Waits) -> list[Bin]:
    """Tenths of the probability of a quick start, and the share of quick starts in each."""
    judged = waits.judged
    quick = judged.shown[:, 0]
    places = np.minimum((quick * _BINS).astype(int), _BINS - 1)
    real = judged.waited_s <= QUICK_S
    return [
        Bin(place / _BINS, (place + 1) / _BINS, _mean(quick[own]), _mean(real[own]), int(own.sum()))
        for place in range(_BINS)
        if (own := places == place).any()
    ]


def worst_misses(waits: Waits, user: User) -> list[Miss]:
    """The waits that were longest beyond their p90, in log-minutes, among the jobs that the user may see."""
    p90_s = waits.shown[:, 3]
    beyond = np.log1p(waits.waited_s / 60) - np.log1p(p90_s / 60)
    order = [row for row in np.argsort(-beyond) if beyond[row] > 0]
    visible = _visible(visible_jobs(user), [int(waits.jobs[row]) for row in order])
    seen = [row for row in order if int(waits.jobs[row]) in visible][:WORST]
    jobs = Job.objects.only("name", "submitted_at").in_bulk([int(waits.jobs[row]) for row in seen])
    return [
        Miss(jobs[int(waits.jobs[row])], float(p90_s[row]), float(waits.waited_s[row]))
        for row in seen
        if int(waits.jobs[row]) in jobs
    ]


def _visible(jobs: QuerySet[Job], ids: Sequence[int]) -> set[int]:
    return set(jobs.filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()


def _pinball(started: Waits, source: WaitSource) -> float:
    forecasts = started.forecasts[source]
    known = ~np.isnan(forecasts[:, 0])
    real = np.log1p(started.waited_s[known] / 60)
    losses = [
        pinball(real, np.log1p(forecasts[known, place] / 60), level) for place, level in enumerate(LEVELS, start=1)
    ]
    return sum(losses) / len(losses)


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if len(values) else math.nan
