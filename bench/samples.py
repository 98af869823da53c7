"""Statistics of a handful of measured numbers: median, percentile, spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """One series in a few numbers, all in the unit of the series."""

    count: int
    least: float
    median: float
    mean: float
    p95: float
    most: float


def summarise(values: Sequence[float]) -> Summary:
    """The summary of at least one value."""
    return Summary(
        count=len(values),
        least=min(values),
        median=median(values),
        mean=math.fsum(values) / len(values),
        p95=p95(values),
        most=max(values),
    )


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    return percentile(values, 0.5)


def p95(values: Sequence[float]) -> float:
    """The value that one in twenty exceeds."""
    return percentile(values, 0.95)


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    return percentile(values, 0.99)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie, on the line between its two neighbours in order."""
    if not values:
        raise ValueError("a percentile of no values")
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not {share}")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
