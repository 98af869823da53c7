"""Gradient-boosted trees, fitted by LightGBM, with results that depend on the data alone.

No other module imports LightGBM, and it loads at the first fit: a process that only predicts walks the arrays of
`scheduler.predict.trees`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from scheduler.predict.storage import ModelError
from scheduler.predict.trees import Floats, Trees, TreesBuilder

SEED = 41
_MISSING_NAN = "NaN"
_MIN_DRAWN_ROWS = 100  # of fewer, each tree sees all


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of an ensemble and the care with which it is fitted."""

    trees: int = 300
    leaves: int = 31
    depth: int = 8
    min_leaf: int = 20  # rows
    learning_rate: float = 0.05
    rows_share: float = 0.8  # drawn for each tree
    features_share: float = 0.8  # drawn for each tree
    ridge: float = 1.0
    category_smoothing: float = 20.0


def fit_quantile(
    rows: Floats,
    labels: Floats,
    *,
    alpha: float,
    categorical: Sequence[int] = (),
    weights: Floats | None = None,
    threads: int = 1,
    shape: Shape = Shape(),
) -> Trees:
    """Trees that predict the quantile `alpha` of the labels.

    Raises:
        ModelError: LightGBM cannot be loaded.
        ValueError: there are no rows, or a label is no number.
    """
    told = {"objective": "quantile", "alpha": alpha}
    return _fit(rows, labels, told, categorical=categorical, weights=weights, threads=threads, shape=shape)


def fit_probability(
    rows: Floats,
    labels: Floats,
    *,
    categorical: Sequence[int] = (),
    weights: Floats | None = None,
    threads: int = 1,
    shape: Shape = Shape(),
) -> Trees:
    """Trees that predict the raw score of the label 1 among the labels 0 and 1; `sigmoid` makes it a probability.

    Raises:
        ModelError: LightGBM cannot be loaded.
        ValueError: there are no rows, or a label is no number.
    """
    told = {"objective": "binary"}
    return _fit(rows, labels, told, categorical=categorical, weights=weights, threads=threads, shape=shape)


def _fit(
    rows: Floats,
    labels: Floats,
    objective: dict[str, Any],
    *,
    categorical: Sequence[int],
    weights: Floats | None,
    threads: int,
    shape: Shape,
) -> Trees:
    rows = np.asarray(rows, dtype=np.float64)
    if rows.ndim != 2 or not rows.size or len(labels) != len(rows):
        raise ValueError(f"no rows of one length, a label each: {rows.shape} and {np.shape(labels)}")
    if not np.isfinite(labels).all():
        raise ValueError("a label is no finite number")
    lightgbm = _library()
    data = lightgbm.Dataset(
        rows,
        labels,
        weight=weights,
        categorical_feature=list(categorical),
        free_raw_data=True,
        params={"verbose": -1, "num_threads": threads, "feature_pre_filter": False, "min_data_in_bin": 1},
    )
    parameters = {
        **objective,
        "num_leaves": shape.leaves,
        "max_depth": shape.depth,
        "min_data_in_leaf": shape.min_leaf,
        "learning_rate": shape.learning_rate,
        "bagging_fraction": shape.rows_share if len(rows) >= _MIN_DRAWN_ROWS else 1.0,
        "bagging_freq": 1,
        "feature_fraction": shape.features_share,
        "lambda_l2": shape.ridge,
        "cat_smooth": shape.category_smoothing,
        "deterministic": True,
        "force_row_wise": True,
        "seed": SEED,
        "num_threads": threads,
        "verbose": -1,
    }
    booster = lightgbm.train(parameters, data, num_boost_round=shape.trees)
    return _arrays(booster, rows.shape[1], categorical)


def _library() -> ModuleType:
    try:
        import lightgbm  # noqa: PLC0415 - seconds to load, and for training alone
    except ImportError as error:
        raise ModelError(f"training needs LightGBM: pip install lightgbm ({error})") from None
    except OSError as error:
        raise ModelError(f"LightGBM does not load; install the system's package libgomp1 ({error})") from None
    return lightgbm


def _arrays(booster: Any, features: int, categorical: Sequence[int]) -> Trees:
    builder = TreesBuilder(features)
    dumped = booster.dump_model()
    never_missing = set(range(features)) - set(categorical)

    def added(node: dict[str, Any]) -> tuple[int, int]:
        if "split_index" not in node:
            return builder.leaf(node["leaf_value"]), 0
        feature = node["split_feature"]
        if node["decision_type"] == "==":
            at = builder.test_category(feature, [int(code) for code in re.findall(r"\d+", node["threshold"])])
        else:
            takes_nan = node["missing_type"] == _MISSING_NAN
            if takes_nan:
                never_missing.discard(feature)
            at = builder.test(feature, node["threshold"], missing_is_below=not takes_nan or node["default_left"])
        below, above = added(node["left_child"]), added(node["right_child"])
        builder.join(at, if_true=below[0], if_false=above[0])
        return at, 1 + max(below[1], above[1])

    for tree in dumped["tree_info"]:
        builder.tree(*added(tree["tree_structure"]))
    for feature in never_missing:
        builder.never_missing(feature)
    return builder.build()
