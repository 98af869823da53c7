"""Both forecasts of a wait combined, each calibrated and weighted by its recent losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.predict.waits.calibration import Calibration
from scheduler.predict.waits.forecast import LEVELS, QUICK_S, WaitForecast, WaitSource, log_minutes, logit

_MEMORY = 200.0  # waits: the losses of older ones count for less than a third
_SHARPNESS = 2  # the weight is the inverse loss to this power
_FLOOR = 1e-3  # of losses
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Losses:
    """The recent mean losses of one source: the log loss of the quick start, and the pinball in log-minutes."""

    quick: float = 0.0
    pinball: float = 0.0
    waits: float = 0.0  # that count, at most `_MEMORY`

    def after(self, forecast: WaitForecast, waited_s: float) -> Losses:
        """The means with one wait more."""
        waits = min(self.waits + 1, _MEMORY)
        quick, pinball = losses(forecast, waited_s)
        return Losses(self.quick + (quick - self.quick) / waits, self.pinball + (pinball - self.pinball) / waits, waits)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of the model against the policy run forward, 0 to 1: of the probability and of the quantiles."""

    quick: float = 0.5
    quantiles: float = 0.5


@dataclass(frozen=True, slots=True)
class Online:
    """The state of a pool's forecasts, which each wait corrects: calibrations and recent losses by source."""

    calibrations: Mapping[WaitSource, Calibration] = field(default_factory=dict)
    recent: Mapping[WaitSource, Losses] = field(default_factory=dict)

    @property
    def weights(self) -> Weights:
        """The weights by the recent losses of both sources; equal ones until both have any."""
        one, other = self.recent.get(WaitSource.MODEL), self.recent.get(WaitSource.FORWARD)
        if one is None or other is None:
            return Weights()
        return Weights(_weight(one.quick, other.quick), _weight(one.pinball, other.pinball))

    def forecasts(self, model: WaitForecast | None, forward: WaitForecast | None) -> dict[WaitSource, WaitForecast]:
        """The calibrated forecasts by source, from the raw ones; `COMBINED` where both are known."""
        raw = {one.source: one for one in (model, forward) if one is not None}
        found = {source: self._calibrated(one) for source, one in raw.items()}
        if model is not None and forward is not None:
            both = combine(found[WaitSource.MODEL], found[WaitSource.FORWARD], self.weights)
            found[WaitSource.COMBINED] = self._calibrated(both)
        return found

    def observe(
        self,
        forecasts: Mapping[WaitSource, WaitForecast],
        waited_s: float,
        *,
        started: bool,
        counted: Mapping[WaitSource, int],
    ) -> tuple[Online, dict[WaitSource, int]]:
        """The state after a job with these forecasts has waited for `waited_s`, and its counted levels by source.

        Call it when a wait outlives a quantile, or now and then while it lasts, and at the start.
        """
        calibrations, recent, levels = dict(self.calibrations), dict(self.recent), dict(counted)
        for source, forecast in forecasts.items():
            before = calibrations.get(source, Calibration())
            calibrations[source], levels[source] = before.observe(
                forecast, waited_s, started=started, counted=counted.get(source, 0)
            )
        # Weights compare sources on the same waits only.
        if started and {WaitSource.MODEL, WaitSource.FORWARD} <= forecasts.keys():
            recent = {source: recent.get(source, Losses()).after(one, waited_s) for source, one in forecasts.items()}
        return Online(calibrations, recent), levels

    def to_json(self) -> dict[str, object]:
        """The state as a small JSON document."""
        return {
            "version": _VERSION,
            "calibrations": {str(source): one.to_json() for source, one in self.calibrations.items()},
            "recent": {str(source): [one.quick, one.pinball, one.waits] for source, one in self.recent.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Online:
        """The state of a document; parts of another version or shape are the initial ones."""
        if document.get("version") != _VERSION:
            return cls()
        calibrations, recent = document.get("calibrations"), document.get("recent")
        found, losses_of = {}, {}
        for source in WaitSource:
            one = calibrations.get(source) if isinstance(calibrations, Mapping) else None
            if isinstance(one, Mapping):
                found[source] = Calibration.from_json(one)
            row = recent.get(source) if isinstance(recent, Mapping) else None
            if isinstance(row, list) and len(row) == 3 and all(_is_loss(value) for value in row):
                losses_of[source] = Losses(*(float(value) for value in row))
        return cls(found, losses_of)

    def _calibrated(self, forecast: WaitForecast) -> WaitForecast:
        return self.calibrations.get(forecast.source, Calibration()).apply(forecast)


def combine(model: WaitForecast, forward: WaitForecast, weights: Weights) -> WaitForecast:
    """Both as one: the log odds and the log-minutes of each quantile are averaged by the weights."""
    odds = weights.quick * logit(model.quick) + (1 - weights.quick) * logit(forward.quick)
    # The policy is run up to a horizon: a quantile beyond it is infinite, and the model's alone counts.
    shifts = [
        (1 - weights.quantiles) * (log_minutes(other) - log_minutes(one)) if math.isfinite(other) else 0.0
        for one, other in zip(model.quantiles, forward.quantiles, strict=True)
    ]
    return replace(model.moved(shifts), quick=1 / (1 + math.exp(-odds)), source=WaitSource.COMBINED)


def losses(forecast: WaitForecast, waited_s: float) -> tuple[float, float]:
    """The log loss of the quick start, and the mean pinball loss of the quantiles in log-minutes."""
    odds = logit(forecast.quick)
    quick = math.log1p(math.exp(-odds if waited_s <= QUICK_S else odds))
    above = [log_minutes(waited_s) - log_minutes(at) for at in forecast.quantiles]
    return quick, sum(max(a * gap, (a - 1) * gap) for a, gap in zip(LEVELS, above, strict=True)) / len(LEVELS)


def _weight(loss: float, other: float) -> float:
    return 1 / (1 + (max(loss, _FLOOR) / max(other, _FLOOR)) ** _SHARPNESS)


def _is_loss(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
