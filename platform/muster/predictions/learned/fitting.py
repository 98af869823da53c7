"""Trains a model of run times and compares it, in the child process: a pure function of the runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.predict.history import EndedRun
from scheduler.predict.runtimes import RunTimeModel
from scheduler.predict.runtimes.model import train_rows
from scheduler.predict.runtimes.rows import rows_of
from scheduler.predict.storage import ModelError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained model, and whether it is better than what is in use."""

    data: bytes
    runs: int
    scores: dict[str, float]
    better: bool


def fitted(before: bytes | None, now: float, runs: Iterator[EndedRun]) -> Fitted | None:
    """The model of these runs, compared with the one of before; None if the runs are too few."""
    old = _read(before)
    model = train_rows(rows_of(runs, until=now), now=now, before=old)
    if model is None:
        return None
    return Fitted(model.to_bytes(), model.runs, dict(model.scores), is_better(model))


def is_better(model: RunTimeModel) -> bool:
    """True if on the newest tenth the model beats the one of before, or *name stem* and *last two* if there is none."""
    scores = model.scores
    if "pinball_before" in scores:
        return scores["pinball_since"] < scores["pinball_before"]
    return scores.get("pinball_p50", float("inf")) < scores.get("pinball_rules", float("inf"))


def _read(data: bytes | None) -> RunTimeModel | None:
    try:
        return None if data is None else RunTimeModel.from_bytes(data)
    except ModelError as error:
        log.warning("model_left_out error=%s", error)
        return None
