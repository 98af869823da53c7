"""Ensembles of trees as arrays, held against the library that fits them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from scheduler.predict.boosting import Shape, fit_probability, fit_quantile
from scheduler.predict.encoding import Categories
from scheduler.predict.storage import ModelError
from scheduler.predict.trees import Floats, Trees, sigmoid

ROOT = Path(__file__).resolve().parents[4]
CATEGORICAL = (0, 1)
SHAPE = Shape(trees=60)


def drawn(count: int, *, missing: float = 0.1) -> Floats:
    """Rows of two categories, one of them rare, and four numbers, of which the last is never missing."""
    draw = np.random.default_rng(7)
    rows = np.column_stack(
        [
            draw.integers(0, 40, count),
            draw.integers(0, 4, count),
            draw.lognormal(size=(count, 3)),
            draw.normal(size=count),
        ]
    ).astype(np.float64)
    rows[:, :5][draw.random((count, 5)) < missing] = np.nan
    return rows


def labels_of(rows: Floats) -> Floats:
    filled = np.nan_to_num(rows, nan=-1.0)
    noise = np.random.default_rng(8).normal(size=len(rows))
    return np.sin(filled[:, 0]) * 2 + filled[:, 2] - (filled[:, 5] > 0) + noise


@pytest.fixture
def boosters(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The library's own models, as they are fitted."""
    found: list[Any] = []
    train = lightgbm.train
    monkeypatch.setattr(lightgbm, "train", lambda *a, **k: found.append(train(*a, **k)) or found[-1])
    return found


@pytest.fixture(scope="module")
def trees() -> Trees:
    rows = drawn(2000)
    return fit_quantile(rows, labels_of(rows), alpha=0.5, categorical=CATEGORICAL, shape=Shape(trees=300))


def hard_rows() -> Floats:
    """Rows with values that the training never saw."""
    rows = drawn(400, missing=0.3)
    rows[:50, 0] = 1000.0  # a new category
    rows[50:60, 1] = -3.0
    rows[60:70, 1] = 1e300
    rows[70:80, 5] = np.nan
    rows[80:90, 2:] = 0.0
    rows[90:100, 2:] = np.inf
    rows[100:110, 2:] = -np.inf
    rows[110:120] = np.nan
    return rows


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_quantiles_equal_those_of_the_library(alpha: float, boosters: list[Any]) -> None:
    rows = drawn(2000)
    trees = fit_quantile(rows, labels_of(rows), alpha=alpha, categorical=CATEGORICAL, shape=SHAPE)
    asked = hard_rows()
    asked[60:70, 1] = 77.0  # beyond the numbers of C's int the library is undefined
    assert np.abs(trees.predict(asked) - boosters[0].predict(asked)).max() <= 1e-9
    assert np.isfinite(trees.predict(hard_rows())).all()


def test_probabilities_equal_those_of_the_library(boosters: list[Any]) -> None:
    rows = drawn(2000, missing=0.0)  # no feature is ever missing in the training
    quick = (labels_of(rows) > 1.0).astype(np.float64)
    trees = fit_probability(rows, quick, categorical=CATEGORICAL, shape=SHAPE)
    asked = hard_rows()
    asked[60:70, 1] = 77.0
    assert np.abs(sigmoid(trees.predict(asked)) - boosters[0].predict(asked)).max() <= 1e-9


def test_two_fits_of_the_same_rows_are_the_same_bytes() -> None:
    rows = drawn(500)
    fits = [fit_quantile(rows, labels_of(rows), alpha=0.5, categorical=CATEGORICAL, shape=SHAPE) for _ in range(2)]
    assert fits[0].to_bytes() == fits[1].to_bytes()


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_few_rows_with_one_label_predict_that_label(count: int) -> None:
    trees = fit_quantile(drawn(count), np.full(count, 3.5), alpha=0.9, categorical=CATEGORICAL)
    assert trees.predict(hard_rows()) == pytest.approx(np.full(400, 3.5))


def test_no_rows_no_numbers_and_other_shapes_are_refused(trees: Trees) -> None:
    with pytest.raises(ValueError, match="no rows"):
        fit_quantile(np.zeros((0, 3)), np.zeros(0), alpha=0.5)
    with pytest.raises(ValueError, match="no finite number"):
        fit_quantile(np.zeros((2, 3)), np.array([1.0, np.nan]), alpha=0.5)
    with pytest.raises(ValueError, match=r"\(n, 6\)"):
        trees.predict(np.zeros(6))


def test_stored_trees_predict_the_same(trees: Trees) -> None:
    asked = hard_rows()
    assert (Trees.from_bytes(trees.to_bytes()).predict(asked) == trees.predict(asked)).all()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda data: b"", "not the file of a predictor"),
        (lambda data: b"PK" + data, "not the file of a predictor"),
        (lambda data: data[:20], "cut"),
        (lambda data: data[:-1], "cut"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "damaged"),
    ],
    ids=["empty", "another format", "cut in its head", "cut", "damaged"],
)
def test_a_spoilt_file_says_so(trees: Trees, spoil: Any, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        Trees.from_bytes(spoil(trees.to_bytes()))


def test_a_file_of_another_version_says_so(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    data = trees.to_bytes()
    monkeypatch.setattr("scheduler.predict.trees.VERSION", 2)
    with pytest.raises(ModelError, match="has version 1, and this release reads version 2"):
        Trees.from_bytes(data)


def test_categories_are_numbered_by_frequency_and_unknown_ones_are_missing() -> None:
    learned = Categories.learn(["b", "a", "b", "c", "a", "b", "d"], min_count=2)
    assert learned.names == ["b", "a"]
    assert np.array_equal(
        Categories(learned.names).codes(["a", "b", "c", ""]), [1.0, 0.0, np.nan, np.nan], equal_nan=True
    )
    assert len(Categories.learn(map(str, range(50)), max_categories=5)) == 5


def test_one_module_imports_lightgbm_and_only_when_it_fits() -> None:
    importing = []
    for path in [*ROOT.glob("scheduler/**/*.py"), *ROOT.glob("platform/**/*.py"), *ROOT.glob("muster_client/**/*.py")]:
        text = path.read_text()
        if "import lightgbm" in text or "from lightgbm" in text:
            importing.append(path.relative_to(ROOT).as_posix())
    assert importing == ["scheduler/predict/boosting.py"]
    tree = ast.parse((ROOT / importing[0]).read_text())
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "lightgbm" for node in tree.body)
