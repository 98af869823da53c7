"""Draws for generators: arrivals through the day, sizes by shares, run times by mean and median."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from scheduler.registry import ConfigError, param, params_of_fields
from scheduler.sim.applications import ApplicationError, Throughputs, read_throughputs

Floats = npt.NDArray[np.float64]

DAY_S = 86_400.0

GAP = "Mean time between two submissions, s; 0: all at once."


@dataclass(frozen=True)
class Arrivals:
    """The parameters of every generator: when jobs, or sweeps, are submitted."""

    params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()

    gap_s: float = param(60.0, GAP, minimum=0)
    daily_swing: float = param(
        0.0, "The daily swing of the submission rate about its mean: 0 none, 1 down to zero.", minimum=0, maximum=1
    )
    peak_hour: float = param(
        15.0, "The hour of the day with the most submissions; the trace starts at midnight.", minimum=0, maximum=24
    )

    def arrivals_s(self, rng: np.random.Generator, count: int) -> list[float]:
        """`count` submissions of a Poisson process whose rate follows a cosine through the day; the first is at 0.

        1. Draw unit exponential gaps and add them up: a process of rate 1.
        2. Stretch its time by the inverse of the integral of the rate, which has no closed form, by bisection.
        """
        clock = np.concatenate(([0.0], np.cumsum(rng.standard_exponential(count - 1)))) * self.gap_s
        if self.daily_swing > 0:
            clock = _stretched(clock, self.daily_swing, self.peak_hour * 3600)
        return [float(each) for each in clock]


def _stretched(clock: Floats, swing: float, peak_s: float) -> Floats:
    turn = DAY_S / (2 * math.pi)
    start = math.sin(-peak_s / turn)

    def submitted(at: Floats) -> Floats:
        return np.asarray(at + swing * turn * (np.sin((at - peak_s) / turn) - start))

    low = np.maximum(clock - 2 * swing * turn, 0.0)
    high = clock + 2 * swing * turn
    for _ in range(60):
        middle = (low + high) / 2
        early = submitted(middle) < clock
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    # At a rate near 0 the search may end a rounding error before its neighbour.
    return np.maximum.accumulate(np.where(clock == 0.0, 0.0, high))


def picks(rng: np.random.Generator, shares: Mapping[int, float], count: int) -> list[int]:
    """`count` draws of the keys by their shares."""
    weights = np.array(list(shares.values()))
    drawn = rng.choice(np.array(list(shares)), size=count, p=weights / weights.sum())
    return [int(each) for each in drawn]


def lognormal(mean: float, median: float) -> tuple[float, float]:
    """Mu and sigma of the lognormal distribution with this mean and median."""
    if not 0 < median <= mean:
        raise ConfigError(f"a lognormal distribution has 0 < median <= mean, not median {median:g} and mean {mean:g}")
    return math.log(median), math.sqrt(2 * math.log(mean / median))


def powers_of_two(mean: float, largest: int) -> Mapping[int, float]:
    """Shares of 1, 2, 4 … `largest` that fall by one constant factor and have this mean."""
    sizes = [1 << exponent for exponent in range(largest.bit_length())]
    low, high = 0.0, 1.0
    for _ in range(100):
        factor = (low + high) / 2
        low, high = (factor, high) if _mean(sizes, factor) < mean else (low, factor)
    return {size: low**exponent for exponent, size in enumerate(sizes)}


def _mean(sizes: Sequence[int], factor: float) -> float:
    weights = [factor**exponent for exponent in range(len(sizes))]
    return sum(size * weight for size, weight in zip(sizes, weights, strict=True)) / sum(weights)


def throughputs_of(where: str | None) -> Throughputs | None:
    """The table of throughputs in a file or a folder; None without one."""
    try:
        return None if where is None else read_throughputs(Path(where))
    except ApplicationError as error:
        raise ConfigError(f"throughputs: {error}") from None
