"""Forecasts of a wait: the probability of a quick start, and the quantiles of the time until the start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

QUICK_S = 600.0  # a wait of at most this is a quick start
LIKELY = 0.6  # from this probability on a quick start is foretold: to wait after such a forecast is the worse surprise
MAX_WAIT_S = 10 * 365 * 86400.0  # longer forecasts are cut to this
LEVELS = (0.1, 0.5, 0.9)
_MIN_QUICK = 1e-4
_MAX_LEVEL = 1 - 1e-9
_MIN_TAIL = 0.05  # log-minutes


class WaitSource(StrEnum):
    """The source of a forecast."""

    MODEL = "model"
    FORWARD = "forward"  # the pool's policy run forward from the present
    COMBINED = "combined"


@dataclass(frozen=True, slots=True)
class WaitForecast:
    """The probability of a wait of at most `QUICK_S`, and the wait's p10, p50 and p90, s from the eligible time."""

    quick: float
    p10_s: float
    p50_s: float
    p90_s: float
    source: WaitSource

    @classmethod
    def of_samples(cls, waits_s: Sequence[float], source: WaitSource) -> WaitForecast:
        """The forecast of waits that are drawn alike, such as those of a policy run forward; infinity: no start."""
        waits = np.minimum(np.asarray(waits_s, dtype=np.float64), MAX_WAIT_S)
        p10, p50, p90 = (float(found) for found in np.quantile(waits, LEVELS))
        # One that no draw shows is not impossible: Laplace's rule of succession.
        quick = (float((waits <= QUICK_S).sum()) + 1) / (len(waits) + 2)
        return cls(quick, p10, p50, p90, source)

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """The wait's p10, p50 and p90, s."""
        return self.p10_s, self.p50_s, self.p90_s

    @property
    def is_quick(self) -> bool:
        """True if a quick start is foretold."""
        return self.quick >= LIKELY

    @property
    def says(self) -> str:
        """`likely within 10 minutes (83 %)`, or an empty text where no quick start is foretold."""
        return f"likely within {QUICK_S / 60:.0f} minutes ({100 * self.quick:.0f} %)" if self.is_quick else ""

    def moved(self, shifts: Sequence[float]) -> WaitForecast:
        """The forecast with each quantile moved by a number of log-minutes; quantiles never cross."""
        moved = np.maximum.accumulate(np.add([log_minutes(at) for at in self.quantiles], shifts))
        p10_s, p50_s, p90_s = (seconds(at) for at in moved.tolist())
        return replace(self, p10_s=p10_s, p50_s=p50_s, p90_s=p90_s)

    def after(self, waited_s: float) -> WaitForecast:
        """The forecast of the whole wait, given that it has lasted for `waited_s` already.

        Between its quantiles the wait's log-minutes are taken as uniform, below the p10 as down to 0, and above the p90
        as exponential with the slope between the p50 and the p90.
        """
        gone = self._below(waited_s)
        p10_s, p50_s, p90_s = (max(waited_s, self._quantile_s(gone + level * (1 - gone))) for level in LEVELS)
        quick = 0.0 if waited_s > QUICK_S else max(0.0, 1 - (1 - self.quick) / (1 - min(gone, self.quick)))
        return replace(self, quick=quick, p10_s=p10_s, p50_s=p50_s, p90_s=p90_s)

    def _below(self, wait_s: float) -> float:
        """The probability of a shorter wait."""
        at, known = log_minutes(wait_s), [0.0, *(log_minutes(one) for one in self.quantiles)]
        if at <= known[-1]:
            return float(np.interp(at, known, [0.0, *LEVELS]))
        return 1 - (1 - LEVELS[-1]) * math.exp(-(at - known[-1]) / self._tail)

    def _quantile_s(self, level: float) -> float:
        if level <= LEVELS[-1]:
            return seconds(float(np.interp(level, [0.0, *LEVELS], [0.0, *map(log_minutes, self.quantiles)])))
        return seconds(log_minutes(self.p90_s) - self._tail * math.log((1 - min(level, _MAX_LEVEL)) / (1 - LEVELS[-1])))

    @property
    def _tail(self) -> float:
        """The mean of the log-minutes above the p90, such that p50 and p90 lie on the same exponential."""
        return max(_MIN_TAIL, (log_minutes(self.p90_s) - log_minutes(self.p50_s)) / math.log(5))


def log_minutes(wait_s: float) -> float:
    """The natural logarithm of 1 + the wait in minutes: waits of seconds are alike, and of hours differ by ratio."""
    return math.log1p(min(max(wait_s, 0.0), MAX_WAIT_S) / 60)


def seconds(log_min: float) -> float:
    """The wait, s, that `log_minutes` stand for."""
    return 60 * math.expm1(min(max(log_min, 0.0), log_minutes(MAX_WAIT_S)))


def logit(probability: float) -> float:
    """The log odds; of probabilities near 0 and 1 they are finite."""
    bounded = min(max(probability, _MIN_QUICK), 1 - _MIN_QUICK)
    return math.log(bounded / (1 - bounded))
