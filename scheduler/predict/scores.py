"""Scores of predictions: pinball loss, coverage, AUC, balanced accuracy, Spearman's rank correlation, and intervals.

Arrays are one-dimensional and of the same length. A score without enough data is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import ArrayLike, NDArray

BOOTSTRAPS = 1000
CONFIDENCE = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A score and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def plain(self) -> Mapping[str, float | None]:
        """The figure as JSON has it; a number that is not known is null."""
        told = {"value": self.value, "low": self.low, "high": self.high}
        return {name: round(number, 4) if math.isfinite(number) else None for name, number in told.items()}


def figure(score: Callable[[NDArray[np.int64]], float], groups: ArrayLike, *, draws: int = BOOTSTRAPS) -> Figure:
    """The score of all rows, and its interval as `interval` takes it."""
    count = len(np.asarray(groups))
    value = score(np.arange(count)) if count else float("nan")
    return Figure(value, *interval(score, groups, draws=draws))


def pinball(real: ArrayLike, predicted: ArrayLike, alpha: float) -> float:
    """The mean pinball loss of a prediction of the quantile `alpha`, in the unit of the values."""
    return _mean(pinball_losses(real, predicted, alpha))


def pinball_losses(real: ArrayLike, predicted: ArrayLike, alpha: float) -> Floats:
    """The pinball loss of each prediction."""
    above = _floats(real) - _floats(predicted)
    return np.maximum(alpha * above, (alpha - 1) * above)


def coverage(real: ArrayLike, high: ArrayLike, low: ArrayLike | None = None) -> float:
    """The share of the values that are at most `high`, and at least `low` if that is given."""
    values = _floats(real)
    within = values <= _floats(high)
    return _mean(within if low is None else within & (values >= _floats(low)))


def auc(is_positive: ArrayLike, score: ArrayLike) -> float:
    """The probability that a positive has a higher score than a negative; equal scores count half."""
    positive = np.asarray(is_positive, dtype=bool)
    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return float("nan")
    return float((ranks(score)[positive].sum() - count * (count + 1) / 2) / (count * others))


def balanced_accuracy(is_positive: ArrayLike, says_positive: ArrayLike) -> float:
    """The mean of the shares of positives and of negatives that are told rightly."""
    positive, says = np.asarray(is_positive, dtype=bool), np.asarray(says_positive, dtype=bool)
    return (_mean(says[positive]) + _mean(~says[~positive])) / 2


def spearman(real: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's rank correlation; equal values share the mean of their ranks."""
    one, other = ranks(real), ranks(predicted)
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def ranks(values: ArrayLike) -> Floats:
    """The ranks from 1; equal values share the mean of theirs."""
    _, index, counts = np.unique(_floats(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index], dtype=np.float64)


def interval(
    score: Callable[[NDArray[np.int64]], float],
    groups: ArrayLike,
    *,
    seed: int = 0,
    draws: int = BOOTSTRAPS,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """The bootstrap confidence interval of a score; NaNs for fewer than two groups.

    `groups` names the group of each row, such as its day: whole groups are drawn with replacement, because rows of one
    group are alike. `score` gets the indices of the rows that are drawn. Draws whose score is NaN do not count.
    """
    _, member = np.unique(np.asarray(groups), return_inverse=True)
    rows_of = np.split(np.argsort(member, kind="stable"), np.cumsum(np.bincount(member))[:-1]) if len(member) else []
    if len(rows_of) < 2:
        return float("nan"), float("nan")
    chance = Random(seed)  # noqa: S311 - no secret
    drawn = (chance.choices(rows_of, k=len(rows_of)) for _ in range(draws))
    found = np.array([score(np.concatenate(picks)) for picks in drawn])
    found = found[~np.isnan(found)]
    if not len(found):
        return float("nan"), float("nan")
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _mean(values: ArrayLike) -> float:
    found = _floats(values)
    return float(found.mean()) if found.size else float("nan")
