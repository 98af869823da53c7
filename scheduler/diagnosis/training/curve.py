"""A curve over the steps of a job in bounded memory: the longer it gets, the more values a point averages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_POINTS = 512


@dataclass(slots=True)
class Curve:
    """Points by step, each the mean of `stride` values; `count` values wait for their point.

    A mean leaves out values that are not finite; a point of only such values is NaN. `odd_run` counts the ones at the
    end.
    """

    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stride: int = 1
    count: int = 0
    finite: int = 0
    total: float = 0.0
    """The sum of the finite values that wait."""
    last_step: float | None = None
    last_value: float | None = None
    odd_run: int = 0

    def add(self, step: float | None, value: float) -> None:
        """Add a value; without a step it belongs to the step after the last one.

        1. A step that does not grow means that the job repeats its work from there on: the points from there on are
           dropped.
        2. `stride` values make a point.
        3. Above the maximum number of points, neighbouring points are merged in pairs.
        """
        if step is None:
            step = 1.0 if self.last_step is None else self.last_step + 1
        # above 2**53, adding one to a step does not change it
        if self.last_step is not None and step <= self.last_step:
            self._cut(step)
        self.last_step, self.last_value = step, value
        self.odd_run = 0 if math.isfinite(value) else self.odd_run + 1
        self.count += 1
        if math.isfinite(value):
            self.finite += 1
            self.total += value
        if self.count == self.stride:
            self.steps.append(step)
            self.values.append(self._mean())
            self.count = self.finite = 0
            self.total = 0.0
            if len(self.steps) > MAX_POINTS:
                self._thin()

    def points(self) -> list[tuple[float, float]]:
        """All points; the last one averages the values that wait, if any do."""
        found = list(zip(self.steps, self.values, strict=True))
        if self.count and self.last_step is not None:
            found.append((self.last_step, self._mean()))
        return found

    def _mean(self) -> float:
        mean = self.total / self.finite if self.finite else math.nan
        return mean if math.isfinite(mean) else math.nan

    def _cut(self, step: float) -> None:
        kept = sum(1 for one in self.steps if one < step)
        del self.steps[kept:], self.values[kept:]
        self.count = self.finite = 0
        self.total = 0.0

    def _thin(self) -> None:
        """Merge points in pairs, each at the second one's step; an odd point at the end waits with its mean."""
        values = self.values
        odd = len(values) % 2
        if odd:
            last, self.total = values[-1], 0.0
            self.count, self.finite = self.stride, self.stride if math.isfinite(last) else 0
            if self.finite:
                self.total = last * self.stride
        self.steps = self.steps[1 : len(values) - odd + 1 : 2]
        self.values = [_mean_of(values[place : place + 2]) for place in range(0, len(values) - odd, 2)]
        self.stride *= 2


def joined(curves: Iterable[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """One curve from the attempts of a job, in order; where attempts overlap, the later one counts."""
    found: list[tuple[float, float]] = []
    for points in curves:
        if points:
            begin = points[0][0]
            found = [point for point in found if point[0] < begin] + points
    return found


def _mean_of(values: list[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    mean = sum(value / len(finite) for value in finite) if finite else math.nan
    return mean if math.isfinite(mean) else math.nan
