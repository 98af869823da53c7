"""The statistics of the bench, against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.samples import median, p95, percentile, summarise

VALUES = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=50)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([7.0], 7.0), ([3.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 2.0, 3.0], 2.5)],
    ids=["a single value", "the middle one of an odd count", "between the two middle ones of an even count"],
)
def test_the_median_is_the_middle_whatever_the_order(values: list[float], expected: float) -> None:
    assert median(values) == expected


def test_p95_lies_between_the_neighbours_of_its_place() -> None:
    # 0.95 of the 10 steps between 11 values is 9.5 steps.
    assert p95([float(value) for value in range(0, 110, 10)]) == pytest.approx(95)


def test_a_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_share_above_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], 95)


@given(VALUES)
def test_a_summary_is_in_order_and_within_the_values(values: list[float]) -> None:
    summary = summarise(values)
    assert summary.count == len(values)
    assert min(values) == summary.least <= summary.median <= summary.p95 <= summary.most == max(values)


@given(VALUES)
def test_the_ends_of_the_range_are_the_least_and_the_most(values: list[float]) -> None:
    assert (percentile(values, 0), percentile(values, 1)) == (min(values), max(values))
