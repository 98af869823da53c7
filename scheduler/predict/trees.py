"""An ensemble of decision trees as arrays, which NumPy walks.

All trees are walked side by side, a level at a time, for a block of rows. A leaf is a node that leads to itself, so
that no row and no tree needs an end of its own.

1. Each feature has two columns, `x` and `-x`. A test is `column > threshold`, which a missing value fails: a test that
   a missing value shall pass reads the column `-x`.
2. A test of a category looks its code up in a table of the codes that pass. A missing or unknown category fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scheduler.predict.storage import ModelError, pack, unpack

VERSION = 1
_BLOCK = 1 << 16  # pairs of a row and a tree that are walked at a time

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Trees:
    """The arrays of an ensemble. Nodes of all trees share one numbering, and so do the codes of all tests."""

    features: int  # columns of a row
    depth: int  # tests on the longest way to a leaf
    roots: Integers  # (trees,)
    column: Integers  # (nodes,) of x and -x side by side
    threshold: Floats  # (nodes,)
    children: Integers  # (2 * nodes,) where the test fails, and where it is passed
    value: Floats  # (nodes,) of a leaf
    table: Integers  # (nodes,) where the codes of the test begin; -1: not a test of a category
    codes: Integers  # (nodes,) the length of this part
    passes: NDArray[np.bool_]  # (codes,)
    zero_if_missing: NDArray[np.bool_]  # (features,) features that were never missing in the training

    def predict(self, rows: Floats) -> Floats:
        """The sums of the leaves that each row reaches; rows are (n, features), the answer is (n,)."""
        rows = np.asarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise ValueError(f"rows must have the shape (n, {self.features}), and have {rows.shape}")
        block = max(1, _BLOCK // max(1, len(self.roots)))
        parts = [self._walked(rows[at : at + block]) for at in range(0, len(rows), block)]
        return np.concatenate(parts) if parts else np.zeros(0)

    def to_bytes(self) -> bytes:
        """The ensemble as bytes."""
        document, arrays = self.parts()
        return pack("trees", VERSION, document, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The ensemble that `to_bytes` wrote.

        Raises:
            ModelError: these are not the bytes of a whole ensemble of this version.
        """
        return cls.of_parts(*unpack(data, "trees", VERSION))

    def parts(self) -> tuple[dict[str, int], dict[str, NDArray[Any]]]:
        """The ensemble as numbers and arrays, for a model that stores several."""
        there = {field.name: getattr(self, field.name) for field in fields(self)}
        arrays = {name: value for name, value in there.items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in there.items() if name not in arrays}, arrays

    @classmethod
    def of_parts(cls, document: Mapping[str, int], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The ensemble of `parts`.

        Raises:
            ModelError: something is missing.
        """
        try:
            there: dict[str, Any] = {**document, **arrays}
            return cls(**{field.name: there[field.name] for field in fields(cls)})
        except KeyError as error:
            raise ModelError(f"the model file has no {error.args[0]}") from None

    def _walked(self, rows: Floats) -> Floats:
        filled = np.where(np.isnan(rows) & self.zero_if_missing, 0.0, rows)
        columns = np.concatenate([filled, -filled], axis=1)
        width = columns.shape[1]
        flat = columns.ravel()
        begin = (np.arange(len(rows)) * width)[:, None]
        node = np.broadcast_to(self.roots, (len(rows), len(self.roots))).copy()
        has_categories = len(self.passes) > 0
        for _ in range(self.depth):
            values = flat[begin + self.column[node]]
            passed = values > self.threshold[node]
            if has_categories:
                self._test_categories(node, values, passed)
            node = self.children[2 * node + passed]
        sums: Floats = self.value[node].sum(axis=1)
        return sums

    def _test_categories(self, node: Integers, values: Floats, passed: NDArray[np.bool_]) -> None:
        start = self.table[node]
        which = start >= 0
        at, code, count = start[which], values[which], self.codes[node[which]]
        known = (code > -1.0) & (code < count)  # false for NaN
        at += np.where(known, code, 0.0).astype(np.int64)
        passed[which] = known & self.passes[at]


class TreesBuilder:
    """Collects the nodes of an ensemble, tree by tree."""

    def __init__(self, features: int) -> None:
        self._features = features
        self._roots: list[int] = []
        self._column: list[int] = []
        self._threshold: list[float] = []
        self._children: list[tuple[int, int]] = []
        self._value: list[float] = []
        self._table: list[int] = []
        self._codes: list[int] = []
        self._passes: list[bool] = []
        self._zero_if_missing = np.zeros(features, dtype=np.bool_)
        self._depth = 0

    def leaf(self, value: float) -> int:
        """The number of a new leaf."""
        at = self._node(column=0, threshold=np.inf, value=value)
        self._children[at] = (at, at)
        return at

    def test(self, feature: int, threshold: float, *, missing_is_below: bool) -> int:
        """The number of a new test `x <= threshold`; `join` gives it its children."""
        if missing_is_below:
            return self._node(column=feature, threshold=threshold)
        # x <= t is -x > -t', with t' the next number above t.
        return self._node(column=feature + self._features, threshold=-float(np.nextafter(threshold, np.inf)))

    def test_category(self, feature: int, codes: Sequence[int]) -> int:
        """The number of a new test of a category for one of these codes."""
        at = self._node(column=feature, threshold=np.inf)
        self._table[at], self._codes[at] = len(self._passes), max(codes) + 1
        there = set(codes)
        self._passes += [code in there for code in range(max(codes) + 1)]
        return at

    def join(self, node: int, *, if_true: int, if_false: int) -> None:
        """Add the children of a test of `x <= threshold`, or of a category."""
        is_swapped = self._table[node] < 0 and self._column[node] < self._features
        self._children[node] = (if_true, if_false) if is_swapped else (if_false, if_true)

    def never_missing(self, feature: int) -> None:
        """A missing value of this feature counts as 0."""
        self._zero_if_missing[feature] = True

    def tree(self, root: int, depth: int) -> None:
        """Close a tree."""
        self._roots.append(root)
        self._depth = max(self._depth, depth)

    def build(self) -> Trees:
        """The ensemble."""
        return Trees(
            features=self._features,
            depth=self._depth,
            roots=np.array(self._roots, dtype=np.int64),
            column=np.array(self._column, dtype=np.int64),
            threshold=np.array(self._threshold),
            children=np.array(self._children, dtype=np.int64).reshape(-1),
            value=np.array(self._value),
            table=np.array(self._table, dtype=np.int64),
            codes=np.array(self._codes, dtype=np.int64),
            passes=np.array(self._passes, dtype=np.bool_),
            zero_if_missing=self._zero_if_missing,
        )

    def _node(self, *, column: int, threshold: float, value: float = 0.0) -> int:
        self._column.append(column)
        self._threshold.append(threshold)
        self._value.append(value)
        self._table.append(-1)
        self._codes.append(0)
        self._children.append((0, 0))
        return len(self._column) - 1


def sigmoid(raw: Floats) -> Floats:
    """The probability of a raw score."""
    return 1.0 / (1.0 + np.exp(-np.clip(raw, -500.0, 500.0)))
