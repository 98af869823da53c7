"""The error of estimated rates on published tables, with entries held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles

import pytest

from bench.published.data import NoData, data_folder
from bench.published.rates import Error, errors, errors_of_sizes, gavel, gpemu, page
from bench.published.wrong_rates import figures


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return data_folder()
    except NoData as error:
        pytest.skip(str(error))


def off(found: Sequence[Error]) -> list[float]:
    return sorted(abs(math.expm1(one.log)) for one in found)


@pytest.mark.parametrize(("known", "most", "tail"), [(1, 0.12, 0.32), (3, 0.09, 0.28), (5, 0.08, 0.25)])
def test_36_models_are_estimated_on_types_never_seen(folder: Path, known: int, most: float, tail: float) -> None:
    table = gpemu(folder)
    assert (len(table), {len(row) for row in table.values()}) == (36, {6})
    found = list(errors(table, known))
    assert median(off(found)) <= most
    assert quantiles(off(found), n=10)[-1] <= tail
    assert sum(abs(one.log) <= 2 * one.deviation for one in found) >= 0.9 * len(found)
    assert median(off(found)) < 0.3 * median(abs(math.expm1(one.agnostic_log)) for one in found)


def test_a_sparse_history_gives_larger_errors_that_are_stated(folder: Path) -> None:
    found = list(errors(gpemu(folder), 2, others_on=3))
    assert median(off(found)) <= 0.12
    assert sum(abs(one.log) <= 2 * one.deviation for one in found) >= 0.88 * len(found)


def test_jobs_of_many_kinds_and_numbers_of_gpus_are_estimated(folder: Path) -> None:
    tables = gavel(folder)
    assert median(off(list(errors(tables[1], 2)))) <= 0.2
    sizes = list(errors_of_sizes(tables, "v100"))
    assert median(off(sizes)) < 0.7 * median(abs(math.expm1(one.agnostic_log)) for one in sizes)


def test_the_page_has_its_tables_between_the_marks(folder: Path) -> None:
    found = page(folder, "before\n<!-- errors -->\nold\n<!-- /errors -->\nafter\n")
    assert found.startswith("before\n<!-- errors -->\n**GPEmu: 36 models on 6 GPU types**\n")
    assert found.endswith("\n<!-- /errors -->\nafter\n")
    assert "old" not in found


def test_rates_that_are_a_little_wrong_are_better_than_none(folder: Path) -> None:
    (exact, _), (wrong, _), (none, _) = (
        figures(folder, "max_min", noise=noise, aware=aware)
        for noise, aware in ((0.0, True), (0.3, True), (0.0, False))
    )
    assert exact < wrong * 1.02
    assert wrong < none
