"""The record of forecasts over a trace: by models of what was known at the time, and calibrated online.

A model is trained now and then on the jobs submitted before, and each later job is forecast at its eligible time. Its
wait corrects the calibration when it outlives a quantile, or else at its start, and only later forecasts see that.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from scheduler.predict import scores
from scheduler.predict.waits.features import NAMES
from scheduler.predict.waits.forecast import LEVELS, QUICK_S, WaitForecast, WaitSource
from scheduler.predict.waits.model import MIN_ROWS, WaitModel, train
from scheduler.predict.waits.online import Online
from scheduler.predict.waits.replay import rows_of
from scheduler.predict.waits.state import Floats, Ints, WaitJob

DAY_S = 86400.0
BASELINE_STARTS = 50
DRAWS = 300  # of the bootstrap
_JUST_AFTER_S = 1e-3
_UNKNOWN = (math.nan, math.nan, math.nan)
_PLAN = NAMES.index("plan")


@dataclass(frozen=True, slots=True)
class Scored:
    """One job's forecasts and its wait."""

    job: WaitJob
    raw: WaitForecast  # of the model
    shown: WaitForecast  # the same, calibrated
    baseline: tuple[float, float, float] | None  # p10, p50 and p90, s, of the last 50 starts of its size
    planned_s: float  # its start by the plan by limits; NaN: unknown

    @property
    def waited_s(self) -> float:
        """The wait from the eligible time to the start, s."""
        return self.job.started_at - self.job.eligible_at


@dataclass(frozen=True, slots=True)
class Record:
    """The forecasts of a trace, in the order of the eligible times, with their scores."""

    scored: Sequence[Scored]

    def part(self, which: Iterable[int]) -> Record:
        """The forecasts with these numbers alone, such as those of a month."""
        return Record(tuple(self.scored[index] for index in which))

    def figures(self) -> dict[str, scores.Figure]:
        """The scores by name, with intervals by bootstrap over days.

        - `balanced_accuracy` and `auc` of the quick start;
        - `log_below_last_50` and `hours_below_last_50`: by how much the pinball loss of the three quantiles, in
          log-minutes and in hours, is below that of *last 50 of this size*;
        - `p90_coverage` over all jobs, `two_sided_coverage` of p10 to p90 over those without a quick start foretold;
        - `p90_pinball` in log-minutes, and `p90_pinball_raw` without the calibration;
        - `plan_coverage`: the share of the jobs that started by the plan by limits.
        """
        waits = np.array([one.waited_s for one in self.scored])
        shown, raw = (_columns([forecast.quantiles for forecast in both]) for both in self._forecasts())
        base = _columns([one.baseline or _UNKNOWN for one in self.scored])
        plan = np.array([one.planned_s for one in self.scored])
        quick = np.array([one.raw.quick for one in self.scored])
        foretold = np.array([one.raw.is_quick for one in self.scored], dtype=np.bool_)
        days = np.array([one.job.eligible_at // DAY_S for one in self.scored])
        is_quick = waits <= QUICK_S
        every, late = np.arange(len(waits)), np.flatnonzero(~foretold)
        based, planned = np.flatnonzero(~np.isnan(base[:, 0])), np.flatnonzero(~np.isnan(plan))

        def of(rows: Ints, score: Callable[[Ints], float]) -> scores.Figure:
            return scores.figure(lambda drawn: score(rows[drawn]), days[rows], draws=DRAWS)

        def below(scale: Callable[[Floats], Floats]) -> scores.Figure:
            losses, others = (_pinball(scale(waits), scale(columns)) for columns in (shown, base))
            return of(based, lambda rows: _gain(losses[rows], others[rows]))

        logs = _log_minutes(waits)
        return {
            "balanced_accuracy": of(every, lambda rows: scores.balanced_accuracy(is_quick[rows], foretold[rows])),
            "auc": of(every, lambda rows: scores.auc(is_quick[rows], quick[rows])),
            "log_below_last_50": below(_log_minutes),
            "hours_below_last_50": below(lambda values: values / 3600),
            "p90_coverage": of(every, lambda rows: scores.coverage(waits[rows], shown[rows, 2])),
            "two_sided_coverage": of(late, lambda rows: scores.coverage(waits[rows], shown[rows, 2], shown[rows, 0])),
            "p90_pinball": of(every, lambda rows: scores.pinball(logs[rows], _log_minutes(shown[rows, 2]), LEVELS[2])),
            "p90_pinball_raw": of(
                every, lambda rows: scores.pinball(logs[rows], _log_minutes(raw[rows, 2]), LEVELS[2])
            ),
            "plan_coverage": of(planned, lambda rows: scores.coverage(waits[rows], plan[rows])),
        }

    def _forecasts(self) -> tuple[list[WaitForecast], list[WaitForecast]]:
        return [one.shown for one in self.scored], [one.raw for one in self.scored]


def evaluate(
    jobs: Iterable[WaitJob], *, since: float, until: float = math.inf, refit_s: float = math.inf, threads: int = 1
) -> Record:
    """The forecasts of the jobs that became eligible from `since` to before `until`, epoch s, and have started.

    A model is trained at `since`, and again after each `refit_s`, on what is known by then. The jobs may come in any
    order.

    Raises:
        ValueError: too few jobs are known at `since`, or none came later.
        ModelError: LightGBM cannot be loaded.
    """
    ordered = sorted((job for job in jobs if job.eligible_at < until), key=lambda job: job.eligible_at)
    rows, baseline = rows_of(ordered), _last_starts(ordered)
    at = np.array([job.eligible_at for job in ordered])
    later = [index for index in np.flatnonzero(at >= since).tolist() if not math.isnan(ordered[index].started_at)]
    if not later:
        raise ValueError("no job that has started became eligible after the split")
    online, pending, found = Online(), _Pending(), []
    for fit_at, members in groupby(later, key=lambda index: _fit_at(ordered[index], since, refit_s)):
        model = _trained(rows, ordered, fit_at, threads)
        if model is None:
            raise ValueError(f"it is known of fewer than {MIN_ROWS} jobs before the split if they started quickly")
        indices = list(members)
        for index, raw in zip(indices, model.forecasts(rows[indices]), strict=True):
            job = ordered[index]
            online = pending.settled(online, job.eligible_at)
            shown = online.forecasts(raw, None)[WaitSource.MODEL]
            pending.add(job, shown)
            found.append(Scored(job, raw, shown, baseline[index], math.expm1(rows[index, _PLAN])))
    return Record(tuple(found))


def _fit_at(job: WaitJob, since: float, refit_s: float) -> float:
    """The moment of the last training before the job."""
    return since if math.isinf(refit_s) else since + (job.eligible_at - since) // refit_s * refit_s


def _trained(rows: Floats, jobs: Sequence[WaitJob], now: float, threads: int) -> WaitModel | None:
    """The model of what is known at `now`."""
    before = [index for index, job in enumerate(jobs) if job.eligible_at < now and not _has_left(job, now)]
    started = np.array([jobs[index].started_at <= now for index in before], dtype=np.bool_)
    until = [jobs[index].started_at if known else now for index, known in zip(before, started, strict=True)]
    waited_s = np.array(until) - np.array([jobs[index].eligible_at for index in before])
    return train(rows[before], waited_s, started, threads=threads)


def _has_left(job: WaitJob, now: float) -> bool:
    """True if the job has left the queue without a start."""
    return math.isnan(job.started_at) and job.ended_at <= now


class _Pending:
    """Forecasts that wait for what corrects the calibration, in the order of the moments at which that is known."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, int]] = []
        self._jobs: list[tuple[WaitJob, WaitForecast, int]] = []

    def add(self, job: WaitJob, shown: WaitForecast) -> None:
        """Await the job's start, or the moment when it outlives its first quantile."""
        self._jobs.append((job, shown, 0))
        self._push(len(self._jobs) - 1)

    def settled(self, online: Online, now: float) -> Online:
        """The state with all that is known by `now`."""
        while self._moments and self._moments[0][0] <= now:
            moment, number = heapq.heappop(self._moments)
            job, shown, counted = self._jobs[number]
            online, levels = online.observe(
                {WaitSource.MODEL: shown},
                moment - job.eligible_at,
                started=moment >= job.started_at,
                counted={WaitSource.MODEL: counted},
            )
            self._jobs[number] = job, shown, levels[WaitSource.MODEL]
            self._push(number)
        return online

    def _push(self, number: int) -> None:
        job, shown, counted = self._jobs[number]
        if counted < len(LEVELS):
            outlived = job.eligible_at + shown.quantiles[counted] + _JUST_AFTER_S
            heapq.heappush(self._moments, (min(job.started_at, outlived), number))


def _last_starts(jobs: Sequence[WaitJob]) -> list[tuple[float, float, float] | None]:
    """For each job the quantiles of the waits of the last 50 starts of its size before it; None before the first."""
    order = deque(sorted((job.started_at, index) for index, job in enumerate(jobs) if not math.isnan(job.started_at)))
    latest: defaultdict[float, deque[float]] = defaultdict(lambda: deque(maxlen=BASELINE_STARTS))
    found: list[tuple[float, float, float] | None] = []
    for job in jobs:
        while order and order[0][0] <= job.eligible_at:
            one = jobs[order.popleft()[1]]
            if one.eligible_at < job.eligible_at:
                latest[one.gpus].append(one.started_at - one.eligible_at)
        waits = latest[job.gpus]
        p10, p50, p90 = np.quantile(waits, LEVELS).tolist() if waits else (0.0, 0.0, 0.0)
        found.append((p10, p50, p90) if waits else None)
    return found


def _columns(rows: Sequence[tuple[float, float, float]]) -> Floats:
    return np.array(rows, dtype=np.float64).reshape(-1, len(LEVELS))


def _log_minutes(values: Floats) -> Floats:
    return np.log1p(values / 60)


def _pinball(real: Floats, columns: Floats) -> Floats:
    """The pinball loss of each forecast, the mean over its quantiles."""
    losses = [scores.pinball_losses(real, columns[:, at], level) for at, level in enumerate(LEVELS)]
    return np.asarray(np.mean(losses, axis=0), dtype=np.float64)


def _gain(losses: Floats, others: Floats) -> float:
    return float(1 - losses.sum() / others.sum()) if others.sum() > 0 else math.nan
