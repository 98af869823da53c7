"""Quantiles of run times by gradient-boosted trees on logarithms.

1. Each run becomes a row of what was known when it was submitted: earlier runs count from their ends on.
2. Trees are fitted for the quantiles .1, .5 and .9. A run that was stopped needed longer: by the first fit it is split
   into a part that ends where it was stopped, and a part that never ends (Portnoy, "Censored regression quantiles",
   JASA 98, 2003), and the trees are fitted again.
3. A first model of the older nine tenths shows on the newest tenth how far its p10 and p90 are off; the model of all
   runs moves its own by as much (Romano, Patterson, Candès, "Conformalized quantile regression", NeurIPS 2019).
4. The p50 is a geometric mean: the trees' p50 counts three times, *name stem* and *last two* once each where they are
   known. Quantiles are put in order, and none is above the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scheduler.predict import scores
from scheduler.predict.boosting import Shape, fit_quantile
from scheduler.predict.encoding import Categories
from scheduler.predict.history import MAX_S, EndedRun, History, RunTimeJob
from scheduler.predict.runtimes.features import CATEGORIES, NUMBERS, categories, numbers
from scheduler.predict.runtimes.quantiles import RunTime, Source
from scheduler.predict.runtimes.rows import Rows, rows_of
from scheduler.predict.storage import ModelError, pack, unpack
from scheduler.predict.trees import Floats, Trees

VERSION = 1
MIN_RUNS = 100  # of fewer there is no model
MAX_RUNS = 100_000  # the newest ones, so that training takes a minute at most
ALPHAS = (0.1, 0.5, 0.9)
SHAPE = Shape(trees=60, leaves=31, learning_rate=0.1)
FIRST_SHAPE = Shape(trees=40, leaves=15, learning_rate=0.15)  # what splits the runs that were stopped
HELD_OUT = 0.1  # of the runs, the newest
_MIN_CATEGORY = 10  # runs
_LIMIT = NUMBERS.index("limit")
_RULES = [NUMBERS.index("name_stem"), NUMBERS.index("last_two")]
_WEIGHTS = (3.0, 1.0, 1.0)  # of the trees and of these
_MIN_LEAF, _MAX_LEAF, _LEAVES_OF_ALL = 5, 50, 40  # the rows of the smallest leaf: a fortieth of all, within bounds
_CODED = tuple(range(len(NUMBERS), len(NUMBERS) + len(CATEGORIES)))
_NEVER = math.log(MAX_S)
_REST = 0.02  # of the jobs is above any time that the quantiles tell of


@dataclass(frozen=True, slots=True)
class RunTimeModel:
    """A fitted model. `predict` gives the quantiles of a job by what has ended when it is submitted."""

    encoders: tuple[Categories, ...]  # of CATEGORIES
    trees: tuple[Trees, ...]  # of ALPHAS
    shifts: tuple[float, float]  # of the p10 and the p90, logarithms
    trained_at: float  # epoch, s
    runs: int
    # On the newest tenth, of a model without it: jobs, pinball_model and pinball_last_two (the mean over the three
    # quantiles, of logarithms), coverage80, spearman.
    scores: Mapping[str, float] = field(default_factory=dict)

    def predict(self, job: RunTimeJob, history: History) -> RunTime:
        """The quantiles of a job, s."""
        return self.predict_many([job], history)[0]

    def predict_many(self, jobs: Sequence[RunTimeJob], history: History) -> list[RunTime]:
        """The quantiles of jobs that are submitted at one moment, in their order."""
        if not jobs:
            return []
        rows = np.array([numbers(job, history) for job in jobs])
        logs = self.quantiles(rows, [categories(job) for job in jobs])
        return [RunTime(low, middle, high, Source.MODEL) for low, middle, high in np.exp(logs).tolist()]

    def quantiles(self, rows: Floats, names: Sequence[tuple[str, ...]]) -> Floats:
        """The logarithms of the quantiles, (n, 3), of rows of `NUMBERS` and of `CATEGORIES`."""
        coded = _coded(rows, names, self.encoders)
        low, middle, high = (trees.predict(coded) for trees in self.trees)
        rules = [np.where(np.isnan(column), middle, column) for column in rows[:, _RULES].T]
        middle = np.average([middle, *rules], axis=0, weights=_WEIGHTS)
        low, high = low + self.shifts[0], high + self.shifts[1]
        logs = np.sort(np.clip(np.column_stack([low, middle, high]), 0.0, _NEVER), axis=1)
        within: Floats = np.fmin(logs, rows[:, _LIMIT, None])
        return within

    def of_rows(self, rows: Rows) -> Floats:
        """The logarithms of the quantiles of these rows, (n, 3)."""
        return self.quantiles(rows.numbers, rows.categories)

    def to_bytes(self) -> bytes:
        """The model as bytes."""
        parts = [trees.parts() for trees in self.trees]
        document = {
            "encoders": [encoder.names for encoder in self.encoders],
            "trees": [part for part, _ in parts],
            "shifts": list(self.shifts),
            "trained_at": self.trained_at,
            "runs": self.runs,
            "scores": dict(self.scores),
        }
        arrays = {f"{at}.{name}": array for at, (_, these) in enumerate(parts) for name, array in these.items()}
        return pack("run times", VERSION, document, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that `to_bytes` wrote.

        Raises:
            ModelError: these are not the bytes of a whole model of this version.
        """
        document, arrays = unpack(data, "run times", VERSION)
        if len(document["encoders"]) != len(CATEGORIES) or len(document["trees"]) != len(ALPHAS):
            raise ModelError("the model file is of other features")
        trees = tuple(Trees.of_parts(part, _of(arrays, at)) for at, part in enumerate(document["trees"]))
        if any(one.features != len(NUMBERS) + len(CATEGORIES) for one in trees):
            raise ModelError("the model file is of other features")
        return cls(
            tuple(Categories(names) for names in document["encoders"]),
            trees,
            (document["shifts"][0], document["shifts"][1]),
            document["trained_at"],
            document["runs"],
            document["scores"],
        )


def train(runs: Iterable[EndedRun], *, now: float, threads: int = 1) -> RunTimeModel | None:
    """The model of the runs that ended by `now`; None if they are fewer than `MIN_RUNS`.

    Raises:
        ModelError: LightGBM cannot be loaded.
    """
    return train_rows(rows_of(runs, until=now), now=now, threads=threads)


def train_rows(rows: Rows, *, now: float, threads: int = 1, before: RunTimeModel | None = None) -> RunTimeModel | None:
    """The model of these rows; None if they are fewer than `MIN_RUNS`. Its scores compare it with the one `before`."""
    if len(rows) < MIN_RUNS:
        return None
    rows = rows.part(np.arange(max(0, len(rows) - MAX_RUNS), len(rows)))
    held_out = newest(rows)
    older = _fitted(rows.part(np.arange(len(rows) - len(held_out))), now, threads)
    older = replace(older, shifts=_shifts(older, held_out))
    found = _fitted(rows, now, threads)
    return replace(found, shifts=older.shifts, scores=score(older, held_out) | _compared(older, before, held_out))


def newest(rows: Rows) -> Rows:
    """The newest tenth of the rows, which shows what a model is worth."""
    return rows.part(np.arange(len(rows) - max(1, round(len(rows) * HELD_OUT)), len(rows)))


def score(model: RunTimeModel, rows: Rows) -> dict[str, float]:
    """The scores of a model on rows that it was not trained on; scores without data are left out."""
    rows = rows.part(np.flatnonzero(rows.settled))
    logs = model.of_rows(rows)
    known = ~np.isnan(rows.last_two)
    pinballs = [scores.pinball(rows.took, logs[:, at], alpha) for at, alpha in enumerate(ALPHAS)]
    others = [scores.pinball(rows.took[known], rows.last_two[known], alpha) for alpha in ALPHAS]
    found = {
        "jobs": float(len(rows)),
        "pinball_model": float(np.mean(pinballs)),
        "pinball_last_two": float(np.mean(others)),
        "coverage80": scores.coverage(rows.took, logs[:, 2], logs[:, 0]),
        "spearman": scores.spearman(rows.took, logs[:, 1]),
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _compared(model: RunTimeModel, before: RunTimeModel | None, rows: Rows) -> dict[str, float]:
    """The scores by which a model replaces what is in use.

    Of the p50 and of the rule: *name stem*, else *last two*. Of the model before: on what ended since it was trained,
    as each model does well on its own runs.
    """
    rows = rows.part(np.flatnonzero(rows.settled))
    name_stem = rows.numbers[:, _RULES[0]]
    rule = np.where(np.isnan(name_stem), rows.last_two, name_stem)
    known = np.flatnonzero(~np.isnan(rule))
    middle = model.of_rows(rows)[:, 1]
    found = {
        "pinball_p50": scores.pinball(rows.took[known], middle[known], 0.5),
        "pinball_rules": scores.pinball(rows.took[known], rule[known], 0.5),
    }
    if before is not None:
        since = rows.part(np.flatnonzero(rows.ended_at > before.trained_at))
        for name, one in (("pinball_since", model), ("pinball_before", before)):
            logs = one.of_rows(since)
            found[name] = float(np.mean([scores.pinball(since.took, logs[:, at], a) for at, a in enumerate(ALPHAS)]))
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _fitted(rows: Rows, now: float, threads: int) -> RunTimeModel:
    """The model of these rows with intervals as the trees have them."""
    encoders = tuple(Categories.learn(column, min_count=_MIN_CATEGORY) for column in zip(*rows.categories, strict=True))
    coded = _coded(rows.numbers, rows.categories, encoders)
    fit = partial(fit_quantile, categorical=_CODED, threads=threads)
    min_leaf = min(_MAX_LEAF, max(_MIN_LEAF, len(rows) // _LEAVES_OF_ALL))
    first_shape, shape = replace(FIRST_SHAPE, min_leaf=min_leaf), replace(SHAPE, min_leaf=min_leaf)
    stopped = np.flatnonzero(rows.censored)
    ended = np.zeros(0)
    if len(stopped):
        first = [fit(coded, rows.took, alpha=alpha, shape=first_shape).predict(coded[stopped]) for alpha in ALPHAS]
        ended = _share_ended(np.sort(np.column_stack(first), axis=1), rows.took[stopped])
    trees = []
    for alpha in ALPHAS:
        # A run that is stopped at a quantile above this one ends above it in any case.
        share = np.clip((alpha - ended) / (1 - ended), 0.0, 1.0)
        split = ended < alpha
        weights = np.ones(len(rows))
        weights[stopped[split]] = share[split]
        logs = np.concatenate([rows.took, np.full(int(split.sum()), _NEVER)])
        weights = np.concatenate([weights, 1 - share[split]])
        both = np.concatenate([coded, coded[stopped[split]]])
        trees.append(fit(both, logs, alpha=alpha, weights=weights, shape=shape))
    return RunTimeModel(encoders, tuple(trees), (0.0, 0.0), now, len(rows))


def _share_ended(quantiles: Floats, stopped: Floats) -> Floats:
    """The share of jobs alike that ends before each of these was stopped, by the quantiles of `ALPHAS`, (n, 3)."""
    low, middle, high = quantiles.T
    knots = np.column_stack([low - (middle - low), low, middle, high, high + (high - middle)])
    shares = np.array([0.0, *ALPHAS, 1.0 - _REST])
    return np.array([np.interp(at, knot, shares) for at, knot in zip(stopped, knots, strict=True)])


def _coded(rows: Floats, names: Sequence[tuple[str, ...]], encoders: Sequence[Categories]) -> Floats:
    columns = [encoder.codes(column) for encoder, column in zip(encoders, zip(*names, strict=True), strict=True)]
    return np.column_stack([rows, *columns])


def _shifts(model: RunTimeModel, rows: Rows) -> tuple[float, float]:
    """The distances by which the p10 and the p90 miss these rows."""
    rows = rows.part(np.flatnonzero(rows.settled))
    if not len(rows):
        return 0.0, 0.0
    logs = model.of_rows(rows)
    return float(np.quantile(rows.took - logs[:, 0], ALPHAS[0])), float(np.quantile(rows.took - logs[:, 2], ALPHAS[2]))


def _of(arrays: Mapping[str, NDArray[Any]], at: int) -> dict[str, NDArray[Any]]:
    prefix = f"{at}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
