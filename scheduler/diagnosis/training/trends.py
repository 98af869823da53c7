"""The trend of a noisy series, also where each value resembles the one before.

Losses of successive batches are correlated, so they hold less information than as many independent values. Treated as
independent, slow noise would look like a trend, and a plateau would look more certain than it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, median

_NOTICEABLE = NormalDist().inv_cdf(0.95)
"""Autocorrelations below this many standard errors count as zero (Hamed and Rao: 10 %, two-sided)."""
_MAD = 1.4826
"""The standard deviation of normal values over their median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The rise of a series from value to value, and its confidence interval."""

    slope: float
    least: float
    most: float


def trend_of(values: Sequence[float], *, sure: float) -> Trend:
    """The median of the slopes of all pairs, with a confidence interval of `sure` standard errors to either side.

    1. Take the slopes of all pairs; outliers hardly move their median (Sen, "Estimates of the Regression Coefficient
       Based on Kendall's Tau", JASA 63, 1968).
    2. Take the variance of Kendall's S without a trend, times the factor for autocorrelation (Hamed and Rao, "A
       Modified Mann-Kendall Trend Test for Autocorrelated Data", Journal of Hydrology 204, 1998).
    3. The bounds lie as many slopes to either side of the median as S may lie from zero by chance.
    """
    count = len(values)
    if count < 2:
        return Trend(0.0, -math.inf, math.inf)
    slopes = sorted(
        (values[later] - values[earlier]) / (later - earlier)
        for earlier in range(count)
        for later in range(earlier + 1, count)
    )
    slope = median(slopes)
    residuals = [value - slope * place for place, value in enumerate(values)]
    variance = count * (count - 1) * (2 * count + 5) / 18 * _autocorrelation_factor(residuals)
    reach = sure * math.sqrt(variance)
    below, above = math.floor((len(slopes) - reach) / 2), math.ceil((len(slopes) + reach) / 2)
    if below < 0 or above >= len(slopes):
        return Trend(slope, -math.inf, math.inf)
    return Trend(slope, slopes[below], slopes[above])


def spread_of_means(values: Sequence[float], length: int) -> float:
    """The spread by chance of means of `length` values, whatever curve they follow.

    1. Take the distance of each mean from the middle of its neighbours: a steady fall cancels out. The median makes it
       robust against steps and spikes.
    2. Do the same with means of twice as many values and one more neighbour, since curves bend over longer distances.
       These differ less if values are independent, and as much if noise is slow: slow noise moves neighbours together
       and so hides in the first measure.
    """
    return max(
        _spread_of(values, length, (1, -2, 1)),
        math.sqrt(2) * _spread_of(values, 2 * length, (1, -3, 3, -1)),
    )


def _autocorrelation_factor(residuals: Sequence[float]) -> float:
    """The factor by which autocorrelation of the ranks multiplies the variance of S; at least one."""
    count = len(residuals)
    if count < 4:
        return 1.0
    ranks = [0.0] * count
    for rank, place in enumerate(sorted(range(count), key=residuals.__getitem__)):
        ranks[place] = rank - (count - 1) / 2
    power = math.fsum(rank * rank for rank in ranks)
    added = 0.0
    for lag in range(1, count - 2):
        alike = math.fsum(ranks[place] * ranks[place + lag] for place in range(count - lag)) / power
        if abs(alike) > _NOTICEABLE / math.sqrt(count):
            added += (count - lag) * (count - lag - 1) * (count - lag - 2) * alike
    return max(1.0, 1 + 2 * added / (count * (count - 1) * (count - 2)))


def _spread_of(values: Sequence[float], length: int, weights: Sequence[int]) -> float:
    """The spread of means of `length` values from sums of neighbours with these weights; zero without any."""
    sums = [0.0, *accumulate(values)]
    found = [
        abs(
            sum(
                weight * (sums[at + place * length + length] - sums[at + place * length])
                for place, weight in enumerate(weights)
            )
        )
        for at in range(0, len(values) - len(weights) * length + 1, max(1, length // 8))
    ]
    return _MAD * median(found) / length / math.sqrt(sum(weight * weight for weight in weights)) if found else 0.0
