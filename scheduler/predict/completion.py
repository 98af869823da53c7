"""Missing entries of a matrix of log rates, with rows for jobs alike and columns for GPU types.

An entry is the level of its row, the mean of its column, and the product of up to two hidden factors of both:

    y[r, t] = a[r] + m[t] + u[r] · v[t] + noise

1. For each possible number of factors the model is fitted by alternating least squares with ridge terms.
2. A fifth of the entries is held out at a time, and predicted from the others. The number of factors with the smallest
   error stays, and the stated deviations are scaled so that they are right for the entries held out.
3. With too few rows to hold any out, the rows that are most alike predict: their mean difference between the types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLDS = 5
MIN_ROWS = (4, 8, 16)  # with more than one entry, for 0, 1 and 2 factors
MIN_HELD_OUT = 8  # entries
MAX_ROWS = 1000
NEAREST = 5  # rows
_ROUNDS = 15
_GOLDEN = 0.618034
_NOISE = 0.1  # before any is measured
_UNKNOWN = 0.5  # the deviation between the differences of rows, before any is measured
_MIN_DEVIATION = 0.02
_MAX_Z = 5.0

Floats = NDArray[np.float64]
Entry = tuple[float, float]  # the mean and the deviation of a log rate


@dataclass(frozen=True, slots=True)
class Completion:
    """A fitted matrix. `complete` predicts the missing entries of any row from those that are known of it."""

    types: tuple[str, ...]
    rows: Floats  # NaN: missing
    means: Floats
    loadings: Floats  # of each type: 1 for the level of a row, then its factors
    inflation: float | None  # of the model's deviations, from entries held out; None: the nearest rows predict
    joined: Sequence[int]  # types with the same number have rows in common, directly or by way of others

    @property
    def factors(self) -> int:
        """The number of hidden factors."""
        return int(self.loadings.shape[1]) - 1

    def complete(self, known: Mapping[str, Entry]) -> dict[str, Entry]:
        """The entries of a row, from those of other types; without those that nothing is known about."""
        index = {kind: at for at, kind in enumerate(self.types)}
        entries = {index[kind]: entry for kind, entry in known.items() if kind in index}
        found = {}
        for target, kind in enumerate(self.types):
            others = {at: entry for at, entry in entries.items() if at != target and self._are_joined(at, target)}
            if others:
                predict = self._by_nearest if self.inflation is None else self._by_model
                entry = predict(target, others)
                if entry is not None:
                    found[kind] = entry
        return found

    def _are_joined(self, one: int, other: int) -> bool:
        return self.joined[one] == self.joined[other]

    def _by_model(self, target: int, known: Mapping[int, Entry]) -> Entry:
        at = list(known)
        values = np.array([known[one][0] for one in at]) - self.means[at]
        variances = np.array([known[one][1] ** 2 for one in at]) + _NOISE**2
        design = self.loadings[at]
        precision = design.T @ (design / variances[:, None]) + np.diag(_prior(self.factors))
        theta = np.linalg.solve(precision, design.T @ (values / variances))
        aim = self.loadings[target]
        variance = float(aim @ np.linalg.solve(precision, aim)) + _NOISE**2
        deviation = (self.inflation or 1.0) * variance**0.5
        return float(self.means[target] + aim @ theta), max(_MIN_DEVIATION, deviation)

    def _by_nearest(self, target: int, known: Mapping[int, Entry]) -> Entry | None:
        at = list(known)
        values = np.array([known[one][0] for one in at])
        differences: list[tuple[float, float]] = []  # of shape from the row that is asked about, and to the target
        for row in self.rows[~np.isnan(self.rows[:, target])]:
            shared = ~np.isnan(row[at])
            if shared.any():
                gaps = values[shared] - row[at][shared]
                differences.append((float(gaps.std()), float(row[target] + gaps.mean())))
        if not differences:
            return None
        predicted = np.array([value for _, value in sorted(differences)[:NEAREST]])
        own = max(known[one][1] for one in at)
        count = len(predicted)
        spread = (_UNKNOWN**2 + count * float(predicted.var())) / (1 + count)
        return float(predicted.mean()), (spread + own**2) ** 0.5


def fit(types: Sequence[str], rows: Floats) -> Completion:
    """The fitted matrix; of more than `MAX_ROWS` rows the first ones count."""
    rows = rows[:MAX_ROWS]
    told = rows[(~np.isnan(rows)).sum(axis=1) > 1]
    joined = _components(told, len(types))
    best: tuple[float, float, int] | None = None
    for factors, least in enumerate(MIN_ROWS):
        if len(told) < least or factors >= max(1, len(types) - 1):
            break
        found = _held_out(types, told, factors, joined)
        if found is not None and (best is None or found[0] < 0.98 * best[0]):
            best = (*found, factors)
    if best is None:
        return Completion(tuple(types), told, np.zeros(len(types)), np.ones((len(types), 1)), None, joined)
    _, inflation, factors = best
    return Completion(tuple(types), told, *_factorized(told, factors), inflation, joined)


def _held_out(types: Sequence[str], rows: Floats, factors: int, joined: Sequence[int]) -> tuple[float, float] | None:
    """The root mean square error of entries held out, and how many times the stated deviation it is."""
    there = np.argwhere(~np.isnan(rows))
    fold_of = np.argsort(np.arange(len(there)) * _GOLDEN % 1.0) % FOLDS  # as if shuffled
    errors: list[float] = []
    ratios: list[float] = []
    for fold in range(FOLDS):
        held = there[fold_of == fold]
        rest = rows.copy()
        rest[held[:, 0], held[:, 1]] = np.nan
        model = Completion(tuple(types), rest, *_factorized(rest, factors), 1.0, joined)
        for row, column in held:
            known = {int(at): (float(rest[row, at]), 0.0) for at in np.flatnonzero(~np.isnan(rest[row]))}
            if known:
                mean, deviation = model._by_model(int(column), known)
                errors.append(abs(mean - float(rows[row, column])))
                ratios.append(min(_MAX_Z, errors[-1] / deviation))
    if len(errors) < MIN_HELD_OUT:
        return None
    return float(np.mean(np.square(errors))) ** 0.5, float(np.mean(np.square(ratios))) ** 0.5


def _prior(factors: int) -> Floats:
    """The precision of a row's level, which may be anything, and of its factors, whose variance is 1."""
    return np.array([1e-6] + [1.0] * factors)


def _factorized(rows: Floats, factors: int) -> tuple[Floats, Floats]:
    """The means and loadings of the columns."""
    mask = (~np.isnan(rows)).astype(float)
    values = np.where(mask > 0, rows, 0.0)
    means, levels = np.zeros(rows.shape[1]), np.zeros(rows.shape[0])
    per_row, per_type = np.maximum(mask.sum(axis=1), 1), np.maximum(mask.sum(axis=0), 1)
    for _ in range(_ROUNDS):
        levels = (mask * (values - means)).sum(axis=1) / per_row
        means = (mask * (values - levels[:, None])).sum(axis=0) / per_type
    loadings = np.ones((rows.shape[1], 1))
    if not factors:
        return means, loadings
    rest = mask * (values - levels[:, None] - means)
    _, sizes, directions = np.linalg.svd(rest, full_matrices=False)
    loadings = np.hstack([loadings, directions[:factors].T * sizes[:factors] / len(rows) ** 0.5])
    row_prior = np.diag(_prior(factors)) * _NOISE**2
    type_prior = np.diag([1e-6, *[_NOISE] * factors])
    for _ in range(_ROUNDS):
        left = np.einsum("rt,ti,tj->rij", mask, loadings, loadings) + row_prior
        right = np.einsum("rt,ti->ri", mask * (values - means), loadings)
        theta = np.linalg.solve(left, right[..., None])[..., 0]
        theta[:, 1:] -= theta[:, 1:].mean(axis=0)
        theta[:, 1:] /= np.maximum(theta[:, 1:].std(axis=0), 1e-9)
        design = np.hstack([np.ones((len(rows), 1)), theta[:, 1:]])
        left = np.einsum("rt,ri,rj->tij", mask, design, design) + type_prior
        right = np.einsum("rt,ri->ti", mask * (values - theta[:, :1]), design)
        solved = np.linalg.solve(left, right[..., None])[..., 0]
        means, loadings = solved[:, 0], np.hstack([np.ones((rows.shape[1], 1)), solved[:, 1:]])
    return means, loadings


def _components(rows: Floats, types: int) -> tuple[int, ...]:
    """For each type the smallest of those that it is compared with by some rows."""
    joined = list(range(types))
    for row in rows:
        there = np.flatnonzero(~np.isnan(row))
        groups = {joined[at] for at in there}
        joined = [min(groups) if one in groups else one for one in joined]
    return tuple(joined)
