"""A model of waits in two steps: is the start quick, and how long is the wait if it is and if it is not?

1. Trees give the probability of a quick start.
2. Trees give quantiles of a quick wait, and of a wait that is not quick, in log-minutes.
3. The quantiles of the wait follow from both: with a probability of 0.7, its p50 is the 0.5 / 0.7 quantile of a quick
   wait, and its p90 the (0.9 - 0.7) / 0.3 quantile of one that is not.

A job that still waits is censored: after ten minutes it counts as not quick, and its wait as what the model, fitted to
the others, expects of a wait that has lasted so long. Source of the two steps: Brown et al., "TROUT", SC-W 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.boosting import Shape, fit_probability, fit_quantile
from scheduler.predict.storage import ModelError, pack, unpack
from scheduler.predict.trees import Trees, TreesBuilder, sigmoid
from scheduler.predict.waits.features import VERSION as ROW_VERSION
from scheduler.predict.waits.forecast import LEVELS, QUICK_S, WaitForecast, WaitSource, log_minutes, seconds
from scheduler.predict.waits.state import Floats

VERSION = 1
MIN_ROWS = 50  # jobs of which it is known if they started quickly; of fewer, no model is trained
MIN_PART = 20  # rows of a part with trees of its own; of fewer, it is constant
QUICK_LEVELS = (0.1, 0.5, 0.9)  # of a quick wait
SLOW_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)  # of one that is not
_BOUND = log_minutes(QUICK_S)
_PROBABILITY = Shape(trees=250, leaves=15, learning_rate=0.025, rows_share=0.5, features_share=0.2)
_QUANTILE = Shape(trees=100, leaves=15, learning_rate=0.06, rows_share=0.5, features_share=0.2)
_DRAFT = Shape(trees=40, leaves=15, learning_rate=0.1, rows_share=0.5, features_share=0.2)
_DRAWS = (1 / 6, 3 / 6, 5 / 6)  # quantiles of the rest of a censored wait that stand for it
_UNSEEN = log_minutes(6 * QUICK_S)  # a wait of a part without a row
_KIND = "wait"

Which = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WaitModel:
    """The fitted trees: of the quick start, and of the quantiles of quick waits and of others."""

    probability: Trees
    quick: tuple[Trees, ...]
    slow: tuple[Trees, ...]
    rows: int  # that it was trained on

    def forecast(self, row: Floats) -> WaitForecast:
        """The forecast of one job."""
        return self.forecasts(row[None, :])[0]

    def forecasts(self, rows: Floats) -> list[WaitForecast]:
        """The forecasts of jobs; rows are (n, features)."""
        probability = sigmoid(self.probability.predict(rows))
        quick = _ordered([trees.predict(rows) for trees in self.quick], 0.0, _BOUND)
        slow = _ordered([trees.predict(rows) for trees in self.slow], _BOUND, np.inf)
        return [
            WaitForecast(float(one), *_composed(float(one), below, above), WaitSource.MODEL)
            for one, below, above in zip(probability, quick, slow, strict=True)
        ]

    def to_bytes(self) -> bytes:
        """The model as bytes."""
        documents: list[dict[str, int]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for number, trees in enumerate((self.probability, *self.quick, *self.slow)):
            document, own = trees.parts()
            documents.append(document)
            arrays |= {f"{number}.{name}": array for name, array in own.items()}
        return pack(_KIND, VERSION, {"row": ROW_VERSION, "rows": self.rows, "trees": documents}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> WaitModel:
        """The model that `to_bytes` wrote.

        Raises:
            ModelError: these are not the bytes of a whole model of this version and for these features.
        """
        document, arrays = unpack(data, _KIND, VERSION)
        if document.get("row") != ROW_VERSION:
            raise ModelError(f"the model is for features of version {document.get('row')}, not {ROW_VERSION}")
        parts: list[dict[str, NDArray[Any]]] = [{} for _ in document["trees"]]
        for name, array in arrays.items():
            number, _, field = name.partition(".")
            parts[int(number)][field] = array
        trees = [Trees.of_parts(*both) for both in zip(document["trees"], parts, strict=True)]
        if len(trees) != 1 + len(QUICK_LEVELS) + len(SLOW_LEVELS):
            raise ModelError(f"the model file has {len(trees)} ensembles")
        split = 1 + len(QUICK_LEVELS)
        return cls(trees[0], tuple(trees[1:split]), tuple(trees[split:]), document["rows"])


def train(rows: Floats, waited_s: Floats, started: Which, *, threads: int = 1) -> WaitModel | None:
    """The model of these jobs; None for fewer than `MIN_ROWS`.

    Args:
        rows: the features of each job, (n, features).
        waited_s: the wait of each job, or how long it has waited until now.
        started: False for a job that still waits.
        threads: that the fits may use.
    """
    waited_s = np.maximum(waited_s, 0.0)  # a clock that jumped
    known = (started | (waited_s > QUICK_S)) & np.isfinite(waited_s)
    if known.sum() < MIN_ROWS:
        return None
    is_quick = waited_s <= QUICK_S
    label = np.array([log_minutes(one) for one in waited_s])
    quick, slow = known & is_quick, known & ~is_quick
    width = rows.shape[1]
    if min(quick.sum(), slow.sum()) < MIN_PART:
        odds = np.log((quick.sum() + 1) / (slow.sum() + 1))
        probability = _constant(float(odds), width)
    else:
        probability = fit_probability(
            rows[known], is_quick[known].astype(np.float64), threads=threads, shape=_PROBABILITY
        )

    ended, open_ended = slow & started, slow & ~started
    sample = _Sample(rows[slow], label[slow], None)
    if open_ended.any() and ended.sum() >= MIN_PART:
        draft = _fitted(_Sample(rows[ended], label[ended], None), SLOW_LEVELS, _DRAFT, threads)
        sample = _completed(draft, rows, label, ended, open_ended)
    return WaitModel(
        probability,
        _fitted(_Sample(rows[quick], label[quick], None), QUICK_LEVELS, _QUANTILE, threads),
        _fitted(sample, SLOW_LEVELS, _QUANTILE, threads),
        int(known.sum()),
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Rows with their label, the log-minutes of the wait, and weights; None: all alike."""

    rows: Floats
    label: Floats
    weights: Floats | None


def _completed(draft: Sequence[Trees], rows: Floats, label: Floats, ended: Which, open_ended: Which) -> _Sample:
    """The waits that have ended, and for each that lasts some that stand for its rest, by the draft's quantiles."""
    quantiles = _ordered([trees.predict(rows[open_ended]) for trees in draft], _BOUND, np.inf)
    rest = np.array([_rest(one, age) for one, age in zip(quantiles, label[open_ended], strict=True)])
    return _Sample(
        np.concatenate([rows[ended], *[rows[open_ended]] * len(_DRAWS)]),
        np.concatenate([label[ended], *rest.T]),
        np.concatenate([np.ones(int(ended.sum())), np.full(rest.size, 1 / len(_DRAWS))]),
    )


def _fitted(sample: _Sample, levels: Sequence[float], shape: Shape, threads: int) -> tuple[Trees, ...]:
    """The trees of each level; constants where there are few rows."""
    rows, label = sample.rows, sample.label
    if len(rows) < MIN_PART:
        values = np.quantile(label, levels) if len(label) else np.full(len(levels), _UNSEEN)
        return tuple(_constant(float(value), rows.shape[1]) for value in values)
    return tuple(
        fit_quantile(rows, label, alpha=level, weights=sample.weights, threads=threads, shape=shape) for level in levels
    )


def _constant(value: float, width: int) -> Trees:
    builder = TreesBuilder(width)
    builder.tree(builder.leaf(value), 0)
    return builder.build()


def _ordered(columns: Sequence[Floats], least: float, most: float) -> Floats:
    """The quantiles of each row, (n, levels), within bounds and rising."""
    return np.clip(np.sort(np.stack(columns, axis=1), axis=1), least, most)


def _composed(probability: float, quick: Floats, slow: Floats) -> tuple[float, float, float]:
    """The wait's p10, p50 and p90, s, of the probability of a quick start and the quantiles of both parts."""

    def at(level: float) -> float:
        if level <= probability:
            return float(np.interp(level / probability, (0.0, *QUICK_LEVELS, 1.0), (0.0, *quick, _BOUND)))
        return float(np.interp((level - probability) / (1 - probability), (0.0, *SLOW_LEVELS), (_BOUND, *slow)))

    p10_s, p50_s, p90_s = (seconds(at(level)) for level in LEVELS)
    return p10_s, p50_s, p90_s


def _rest(quantiles: Floats, age: float) -> list[float]:
    """Values, in log-minutes, that stand for a wait of these quantiles that has lasted for `age`."""
    top = SLOW_LEVELS[-1]
    tail = max(0.1, float(quantiles[-1] - quantiles[2]) / np.log((1 - SLOW_LEVELS[2]) / (1 - top)))
    knots, known = (0.0, *SLOW_LEVELS), (_BOUND, *quantiles)
    gone = (
        float(np.interp(age, known, knots))
        if age <= quantiles[-1]
        else 1 - (1 - top) * np.exp((quantiles[-1] - age) / tail)
    )
    found = []
    for draw in _DRAWS:
        level = gone + draw * (1 - gone)
        if level <= top:
            found.append(max(age, float(np.interp(level, knots, known))))
        else:
            # The rest of an exponential does not depend on the age.
            start = max(age, float(quantiles[-1]))
            share = (level - max(gone, top)) / (1 - max(gone, top))
            found.append(start - tail * float(np.log1p(-share)))
    return found
