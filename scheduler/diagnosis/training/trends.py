"""What a series does for all its noise, also where each value is like the one before.

Losses of batches that follow each other are alike, so there is less in them than in as many independent values. Taken
for independent, slow noise would be a trend, and a plateau would be surer than it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, median

_NOTICEABLE = NormalDist().inv_cdf(0.95)
"""Autocorrelations of less than so many standard errors are taken for none (Hamed and Rao: 10 %, both sides)."""
_MAD = 1.4826
"""A normal deviation is so many median absolute deviations."""


@dataclass(frozen=True, slots=True)
class Trend:
    """By how much a series rises from value to value, and between which bounds that surely lies."""

    slope: float
    least: float
    most: float


def trend_of(values: Sequence[float], *, sure: float) -> Trend:
    """The median of the slopes of all pairs, with a confidence interval of `sure` standard errors to either side.

    1. Slopes of all pairs, in order; their median is hardly moved by outliers (Sen, "Estimates of the Regression
       Coefficient Based on Kendall's Tau", JASA 63, 1968).
    2. The variance of Kendall's S were there no trend, times what autocorrelation adds to it (Hamed and Rao, "A
       Modified Mann-Kendall Trend Test for Autocorrelated Data", Journal of Hydrology 204, 1998).
    3. As many slopes to either side of the median as S may lie from zero by chance: those are the bounds.
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
    """How far means of so many values lie apart by chance, whatever the curve that they follow.

    1. How far each mean is from the middle of its neighbours: what falls steadily does not matter. By the median, so
       that a step or a spike does not either.
    2. The same of means of twice as many, with one more neighbour, since over so long a way curves bend. These differ
       by less if values are independent of each other, and by as much where noise is slow, which moves neighbours
       together and so hides from the former.
    """
    return max(_apart(values, length, (1, -2, 1)), math.sqrt(2) * _apart(values, 2 * length, (1, -3, 3, -1)))


def _autocorrelation_factor(residuals: Sequence[float]) -> float:
    """By how much autocorrelation of the ranks multiplies the variance of S; never less than one."""
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


def _apart(values: Sequence[float], length: int, weights: Sequence[int]) -> float:
    """The spread of means of so many values by sums of those in a row with these weights; zero where there are none."""
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
