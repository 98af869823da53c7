"""Predictions of runs as they would have been made at submission, by models of what had ended by then, with scores.

Scores compare the model with *last two* and *name stem* on the same runs. Where *last two* knows nothing, it tells the
limit; where *name stem* knows nothing, it tells what *last two* does. Runs whose owner and limit tell nothing at all
count for the interval alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scheduler.predict import scores
from scheduler.predict.runtimes.features import NUMBERS
from scheduler.predict.runtimes.model import ALPHAS, RunTimeModel, train_rows
from scheduler.predict.runtimes.rows import Rows
from scheduler.predict.scores import Figure, figure
from scheduler.predict.trees import Floats

_DRAWS = 200  # of days, for a confidence interval
_HOUR_S = 3600.0
_DAY_S = 86_400.0
_STEM = NUMBERS.index("name_stem")

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Backtest:
    """Runs in the order of their ends, and the logarithms of the quantiles that were predicted of them, (n, 3)."""

    rows: Rows
    logs: Floats

    def part(self, which: Indices) -> Backtest:
        """The runs with these indices."""
        return Backtest(self.rows.part(which), self.logs[which])

    def figures(self) -> dict[str, dict[str, Figure]]:
        """The scores by predictor: errors in hours and of the logarithm, Spearman, and what the interval covers."""
        real, days = self.rows.took, np.floor(self.rows.submitted_at / _DAY_S)
        last = self.rows.last_two
        stem = self.rows.numbers[:, _STEM]
        predictors = {
            "model": self.logs[:, 1],
            "last_two": last,
            "name_stem": np.where(np.isnan(stem), last, stem),
        }
        known = np.flatnonzero(~np.isnan(last))
        told = {"error_h": error_h, "error_log": error_log, "spearman": scores.spearman}
        found = {
            predictor: {name: _figure(score, logs[known], real[known], days[known]) for name, score in told.items()}
            for predictor, logs in predictors.items()
        }
        both = np.column_stack([predictors["model"], last])[known]
        for name, error in (("error_h", error_h), ("error_log", error_log)):
            gain = partial(_gain, error)
            found["model"][f"{name}_below_last_two"] = _figure(gain, both, real[known], days[known])
        low, _, high = self.logs.T
        found["model"]["coverage80"] = _figure(_covered, np.column_stack([low, high]), real, days)
        found["model"]["p90_coverage"] = _figure(scores.coverage, high, real, days)
        for at, alpha in enumerate(ALPHAS):
            found["model"][f"pinball{alpha * 100:.0f}"] = _figure(
                partial(scores.pinball, alpha=alpha), self.logs[:, at], real, days
            )
        return found


def backtest(rows: Rows, *, since: float, refit_s: float = math.inf, threads: int = 1) -> Backtest:
    """The predictions of the runs that were submitted from `since` on, by models that are fitted anew each `refit_s`.

    Raises:
        ValueError: too few runs had ended before `since`, or none was submitted after it; the message says so.
    """
    later = np.flatnonzero(rows.submitted_at >= since)
    if not len(later):
        raise ValueError("no run was submitted after the split")
    logs = np.full((len(rows), len(ALPHAS)), np.nan)
    at, last = since, float(rows.submitted_at.max())
    model: RunTimeModel | None = None
    while at <= last:
        until = at + refit_s
        these = later[(rows.submitted_at[later] >= at) & (rows.submitted_at[later] < until)]
        if len(these):
            past = rows.part(np.flatnonzero(rows.ended_at <= at))
            model = train_rows(past, now=at, threads=threads)
            if model is None:
                raise ValueError(f"{len(past)} runs had ended before the split: too few to learn from")
            logs[these] = model.of_rows(rows.part(these))
        at = until
    return Backtest(rows.part(later), logs[later])


def error_h(real: Floats, predicted: Floats) -> float:
    """The mean absolute error in hours, of logarithms of seconds."""
    return float(np.abs(np.exp(real) - np.exp(predicted)).mean() / _HOUR_S)


def error_log(real: Floats, predicted: Floats) -> float:
    """The mean absolute error of the natural logarithm."""
    return float(np.abs(real - predicted).mean())


def _gain(error: Callable[[Floats, Floats], float], real: Floats, predicted: Floats) -> float:
    """The part of the second column's error that the first column saves."""
    return 1 - error(real, predicted[:, 0]) / error(real, predicted[:, 1])


def _covered(real: Floats, bounds: Floats) -> float:
    return scores.coverage(real, bounds[:, 1], bounds[:, 0])


def _figure(score: Callable[[Floats, Floats], float], predicted: Floats, real: Floats, days: Floats) -> Figure:
    return figure(lambda which: score(real[which], predicted[which]), days, draws=_DRAWS)
