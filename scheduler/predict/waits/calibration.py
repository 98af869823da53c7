"""Online recalibration of forecasts, so that the share of waits below each quantile is right.

Adaptive conformal inference: after each wait that was above a quantile, later ones are moved up by `STEP * level`, and
after each that was below, down by `STEP * (1 - level)`. So the long-run share is right, however the pool changes.
Forecasts that find a quick start likely, unlikely or open have shifts of their own.

Source: Gibbs and Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.predict.waits.forecast import LEVELS, LIKELY, WaitForecast

STEP = 0.03  # log-minutes
MAX_SHIFT = 3.0  # log-minutes
_GROUPS = (LIKELY, 0.9)  # bounds of the probability of a quick start
_VERSION = 1

Shifts = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The shifts of the quantiles, in log-minutes, by group of forecasts and by level."""

    shifts: Shifts = ((0.0, 0.0, 0.0),) * (len(_GROUPS) + 1)

    def apply(self, forecast: WaitForecast) -> WaitForecast:
        """The forecast with its quantiles corrected."""
        return forecast.moved(self.shifts[_group(forecast)])

    def observe(
        self, shown: WaitForecast, waited_s: float, *, started: bool, counted: int = 0
    ) -> tuple[Calibration, int]:
        """The calibration after a job has waited for `waited_s`, and the number of levels that count for it by now.

        `shown` is the corrected forecast of its submission. A level counts once: at once when the wait outlives it,
        else at the start. `counted` is the number of levels that counted for the job before.
        """
        group = _group(shown)
        found = list(self.shifts[group])
        while counted < len(LEVELS):
            outlived = waited_s > shown.quantiles[counted]
            if not outlived and not started:
                break
            step = STEP * (LEVELS[counted] if outlived else LEVELS[counted] - 1)
            found[counted] = min(max(found[counted] + step, -MAX_SHIFT), MAX_SHIFT)
            counted += 1
        shifts = list(self.shifts)
        shifts[group] = (found[0], found[1], found[2])
        return Calibration(tuple(shifts)), counted

    def to_json(self) -> dict[str, object]:
        """The state as a small JSON document."""
        return {"version": _VERSION, "shifts": [list(row) for row in self.shifts]}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Calibration:
        """The state of a document; that of a document of another version or shape is the initial one."""
        rows = document.get("shifts")
        if document.get("version") != _VERSION or not isinstance(rows, list) or len(rows) != len(_GROUPS) + 1:
            return cls()
        if not all(_is_row(row) for row in rows):
            return cls()
        return cls(tuple((float(row[0]), float(row[1]), float(row[2])) for row in rows))


def _group(forecast: WaitForecast) -> int:
    return sum(forecast.quick >= bound for bound in _GROUPS)


def _is_row(row: object) -> bool:
    return (
        isinstance(row, Sequence)
        and len(row) == len(LEVELS)
        and all(isinstance(one, int | float) and math.isfinite(one) and abs(one) <= MAX_SHIFT for one in row)
    )
