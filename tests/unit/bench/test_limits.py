"""The limits of the figures: reading the file, and finding what is past them."""

from __future__ import annotations

import pytest

from bench.figures import FIGURES, Figure
from bench.limits import PATH, BadLimits, excesses, read_limits, unmeasured
from bench.samples import median

LATENCY = Figure("first-line.p50", "first line", "ms", "first_line_ms", median)
RATE = Figure("throughput.single", "jobs", "jobs/s", "throughput_single", median, higher_is_better=True)


def test_the_file_in_the_repository_names_only_figures_that_exist() -> None:
    assert read_limits(PATH.read_text(), FIGURES)


def test_it_refuses_a_limit_of_an_unknown_figure() -> None:
    with pytest.raises(BadLimits, match=r"no figure 'first-line\.p51'"):
        read_limits("first-line.p51: 3", (LATENCY,))


@pytest.mark.parametrize("value", ["fast", "-1", "0", "true", "[1]"])
def test_it_refuses_a_limit_that_is_no_positive_number(value: str) -> None:
    with pytest.raises(BadLimits, match="must be a number above 0"):
        read_limits(f"first-line.p50: {value}", (LATENCY,))


def test_it_refuses_a_file_that_is_no_mapping() -> None:
    with pytest.raises(BadLimits, match="must be a mapping"):
        read_limits("- 1", (LATENCY,))


def test_a_time_above_its_limit_is_an_excess_and_one_at_its_limit_is_none() -> None:
    assert excesses([LATENCY], {LATENCY.key: 300.0}, {LATENCY.key: 300.0}) == []
    (excess,) = excesses([LATENCY], {LATENCY.key: 301.0}, {LATENCY.key: 300.0})
    assert str(excess) == "first-line.p50: 301 ms is above the limit of 300"


def test_a_rate_below_its_limit_is_an_excess() -> None:
    (excess,) = excesses([RATE], {RATE.key: 9.5}, {RATE.key: 20.0})
    assert str(excess) == "throughput.single: 9.5 jobs/s is below the limit of 20"


def test_what_was_not_measured_is_named_and_what_has_no_limit_passes() -> None:
    values, limits = {RATE.key: 1.0}, {LATENCY.key: 300.0}
    assert excesses([LATENCY, RATE], values, limits) == []
    assert unmeasured([LATENCY, RATE], values, limits) == [LATENCY.key]
    assert unmeasured([RATE], values, limits) == []
