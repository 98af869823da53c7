"""Fits the model of a pool's waits in a child process: it gets rows and the model in use, and knows no database."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.predict.scores import balanced_accuracy
from scheduler.predict.storage import ModelError
from scheduler.predict.waits.forecast import QUICK_S
from scheduler.predict.waits.model import WaitModel, train
from scheduler.predict.waits.online import losses

TENTH = 0.1
MIN_NEWEST = 20
"""Waits by which two models can be compared."""

Row = tuple[float, float, bool, list[float]]
"""The epoch time from which on a job could start, its wait, s, so far, whether it has started, and its features."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A new model, or only the scores by which the one in use is no worse."""

    data: bytes | None
    rows: int
    scores: dict[str, float]


def fit(rows: Iterator[Row], *, used: bytes | None = None, used_since: float = 0.0) -> Fitted | None:
    """A model of the rows, in the order of their times, if it is better on the newest tenth than the one in use.

    Both are scored on waits that neither has seen: those of the newest tenth that began after the model in use was
    trained. None: too few rows.
    """
    began, waited_s, started, features = _arrays(rows)
    newest = np.zeros(len(began), dtype=bool)
    newest[len(began) - round(TENTH * len(began)) :] = True
    judged = newest & (began > used_since) & (started | (waited_s > QUICK_S))
    if judged.sum() < MIN_NEWEST:
        return None
    # What was not known when the newest tenth began is not learned from: a wait that ended later was a wait then.
    before = _as_of(float(began[newest][0]), began[~newest], waited_s[~newest], started[~newest])
    candidate = train(features[~newest], *before)
    if candidate is None:
        return None
    scores = _scores(candidate, features[judged], waited_s[judged], started[judged], "")
    old = _read(used)
    if old is not None:
        scores |= _scores(old, features[judged], waited_s[judged], started[judged], "_before")
        if scores["loss"] >= scores["loss_before"]:
            return Fitted(None, len(began), scores)
    model = train(features, waited_s, started)
    return None if model is None else Fitted(model.to_bytes(), len(began), scores)


def _arrays(rows: Iterator[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    found = list(rows)
    return (
        np.array([row[0] for row in found]),
        np.array([row[1] for row in found]),
        np.array([row[2] for row in found], dtype=bool),
        np.array([row[3] for row in found], dtype=np.float64),
    )


def _as_of(now: float, began: np.ndarray, waited_s: np.ndarray, started: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The waits and whether they were over, as they were known at a moment."""
    age_s = np.maximum(now - began, 0.0)
    return np.minimum(waited_s, age_s), started & (waited_s <= age_s)


def _read(data: bytes | None) -> WaitModel | None:
    try:
        return None if data is None else WaitModel.from_bytes(data)
    except ModelError:
        return None


def _scores(
    model: WaitModel, features: np.ndarray, waited_s: np.ndarray, started: np.ndarray, suffix: str
) -> dict[str, float]:
    """The mean of the log loss of a quick start and of the pinball loss, each, and the balanced accuracy."""
    forecasts = model.forecasts(features)
    each = [losses(one, float(wait_s)) for one, wait_s in zip(forecasts, waited_s, strict=True)]
    quick = float(np.mean([one[0] for one in each]))
    pinball = float(np.mean([one[1] for one, known in zip(each, started, strict=True) if known] or [0.0]))
    accuracy = balanced_accuracy(waited_s <= QUICK_S, np.array([one.is_quick for one in forecasts]))
    found = {"loss": quick + pinball, "log_loss": quick, "pinball": pinball, "balanced_accuracy": accuracy}
    return {f"{name}{suffix}": value for name, value in found.items() if not math.isnan(value)}
