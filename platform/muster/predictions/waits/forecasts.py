"""Forecasts of waits in a pool: those of its model and of its policy run forward, calibrated and combined."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.predictions.models import Kind, PredictorModel, WaitCalibration
from scheduler.predict.storage import ModelError
from scheduler.predict.waits.forecast import WaitForecast, WaitSource
from scheduler.predict.waits.model import WaitModel
from scheduler.predict.waits.online import Online, combine
from scheduler.predict.waits.state import Floats

log = logging.getLogger(__name__)

Forecasts = dict[WaitSource, WaitForecast]
_SHOWN = (WaitSource.COMBINED, WaitSource.MODEL, WaitSource.FORWARD)  # the first that there is

_models: dict[int, tuple[int, WaitModel | None]] = {}
"""The models that this process has read, by pool, with the ids of their rows."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """The model of a pool, None without one, and the state that each wait of the pool corrects."""

    model: WaitModel | None = None
    online: Online = field(default_factory=Online)

    def forecast(self, row: Floats | None, forward: WaitForecast | None) -> Forecasts:
        """The forecasts from a row of features and from the policy run forward, as far as they are known."""
        known = None if self.model is None or row is None else self.model.forecast(row)
        return self.online.forecasts(known, forward)

    def forecasts(self, rows: Sequence[Floats], forward: Sequence[WaitForecast | None]) -> list[Forecasts]:
        """The forecasts from each row of features and from the policy run forward."""
        known: Sequence[WaitForecast | None] = [None] * len(rows)
        if self.model is not None and rows:
            known = self.model.forecasts(np.stack(rows))
        return [self.online.forecasts(one, other) for one, other in zip(known, forward, strict=True)]

    def present(self, then: Forecasts, forward: WaitForecast | None, waited_s: float) -> Forecasts:
        """The forecasts of a wait that has lasted so long: the model's of back then, and the policy run forward now."""
        found: Forecasts = {source: one for source, one in then.items() if source == WaitSource.MODEL}
        found |= self.online.forecasts(None, forward)
        if len(found) == 2:
            both = combine(found[WaitSource.MODEL], found[WaitSource.FORWARD], self.online.weights)
            found[WaitSource.COMBINED] = both
        return {source: one.after(waited_s) for source, one in found.items()}


def predictor_of(pool_id: int) -> Predictor:
    """The model and the state of a pool as they are now."""
    state = WaitCalibration.objects.filter(pool_id=pool_id).values_list("state", flat=True).first()
    return Predictor(_model_of(pool_id), Online.from_json(state or {}))


def shown(forecasts: Mapping[WaitSource, WaitForecast]) -> WaitForecast | None:
    """The forecast that is shown: the combined one where both are known."""
    return next((forecasts[source] for source in _SHOWN if source in forecasts), None)


def stored(forecasts: Mapping[WaitSource, WaitForecast]) -> dict[str, list[float]]:
    """The forecasts as a document."""
    return {str(source): [one.quick, *one.quantiles] for source, one in forecasts.items()}


def read(document: Mapping[str, Sequence[float]] | None) -> Forecasts:
    """The forecasts of a document."""
    found = {WaitSource(name): numbers for name, numbers in (document or {}).items()}
    return {
        source: WaitForecast(quick, p10_s, p50_s, p90_s, source)
        for source, (quick, p10_s, p50_s, p90_s) in found.items()
    }


def active_model(pool_id: int) -> PredictorModel | None:
    """The row of the pool's model in use, without the model."""
    return PredictorModel.objects.filter(kind=Kind.WAIT, pool_id=pool_id, active=True).defer("data").first()


def _model_of(pool_id: int) -> WaitModel | None:
    row = active_model(pool_id)
    found = None if row is None else row.pk
    if found is None:
        _models.pop(pool_id, None)
        return None
    kept = _models.get(pool_id)
    if kept is None or kept[0] != found:
        kept = _models[pool_id] = (found, _read_model(found))
    return kept[1]


def _read_model(pk: int) -> WaitModel | None:
    try:
        return WaitModel.from_bytes(bytes(PredictorModel.objects.values_list("data", flat=True).get(pk=pk)))
    except ModelError as error:
        # Of another version, after an upgrade: the next training replaces it.
        log.warning("wait_model_unreadable model=%s why=%s", pk, error)
        return None
