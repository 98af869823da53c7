"""Speed-up of a job on more GPUs: by the law until it is measured, and by the measurements then."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.predict.scaling import SERIAL, speeds_of


def law(serial: float, gpus: int) -> float:
    return 1 / (serial + (1 - serial) / gpus)


def test_without_a_measurement_the_law_has_its_default() -> None:
    assert speeds_of({}, 4) == pytest.approx([law(SERIAL, gpus) for gpus in (1, 2, 3, 4)])
    assert speeds_of({}, 1) == (1.0,)


def test_one_measured_size_says_nothing_of_others() -> None:
    assert speeds_of({2: 50.0}, 4) == pytest.approx(speeds_of({}, 4))


@pytest.mark.parametrize("serial", [0.0, 0.2, 1.0])
def test_two_measured_sizes_give_the_law_its_number(serial: float) -> None:
    measured = {gpus: 7.0 * law(serial, gpus) for gpus in (2, 4)}
    assert speeds_of(measured, 8) == pytest.approx([law(serial, gpus) for gpus in range(1, 9)])


def test_a_measured_size_has_its_rate_even_if_it_is_slower_than_a_smaller_one() -> None:
    speeds = speeds_of({1: 10.0, 2: 19.0, 4: 12.0}, 4)
    assert (speeds[0], speeds[1], speeds[3]) == pytest.approx((1.0, 1.9, 1.2))


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_that_cannot_be_does_not_count(rate: float) -> None:
    assert speeds_of({1: rate, 2: 4.0}, 4) == speeds_of({2: 4.0}, 4)


@given(st.dictionaries(st.integers(1, 64), st.floats(1e-9, 1e15), max_size=6), st.integers(1, 64))
def test_whatever_was_measured_speeds_are_finite_and_positive(measured: dict[int, float], max_gpus: int) -> None:
    speeds = speeds_of(measured, max_gpus)
    assert len(speeds) == max_gpus
    assert speeds[0] == 1.0
    assert all(0 < speed < math.inf for speed in speeds)
