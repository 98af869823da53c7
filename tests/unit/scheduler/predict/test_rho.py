"""Finish-time fairness: times alone, the ratio, and the sentence about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.predict.rho import Load, bounded, in_words, isolated_s, isolated_sweep_s, ratio


def test_a_job_alone_is_slower_by_what_it_asks_for_above_its_share() -> None:
    assert isolated_s(100.0, 4, of_gpus=8, contention=1.5) == 100.0  # a share of 5.3 GPUs
    assert isolated_s(100.0, 4, of_gpus=8, contention=4.0) == 200.0  # of 2


def test_a_sweep_alone_takes_as_long_as_its_work_or_as_its_longest_member() -> None:
    alone = {"of_gpus": 8, "contention": 2.0}  # a share of 4 GPUs
    assert isolated_sweep_s(8000.0, 500.0, 16, **alone) == 2000.0
    assert isolated_sweep_s(8000.0, 500.0, 2, **alone) == 4000.0  # it asks for less than its share
    assert isolated_sweep_s(8000.0, 2500.0, 16, **alone) == 2500.0


@given(st.floats(1.0, 1e6), st.integers(1, 64), st.integers(1, 512), st.floats(1.0, 100.0))
def test_a_sweep_of_one_member_is_a_job(alone_s: float, gpus: int, of_gpus: int, contention: float) -> None:
    sweep_s = isolated_sweep_s(alone_s * gpus, alone_s, gpus, of_gpus=of_gpus, contention=contention)
    assert sweep_s == pytest.approx(isolated_s(alone_s, gpus, of_gpus=of_gpus, contention=contention))


def test_no_time_has_no_ratio() -> None:
    assert ratio(130.0, 100.0) == 1.3
    assert ratio(0.0, 100.0) is None
    assert ratio(130.0, 0.0) is None


@pytest.mark.parametrize(
    ("taken_s", "alone_s", "isolated_s", "expected"),
    [
        pytest.param(120.0, 1.0, 1.0, 2.0, id="a job of a second behind one of two minutes"),
        pytest.param(3.0, 1.0, 1.0, 1.0, id="less than a minute in all"),
        pytest.param(120.0, 30.0, 60.0, 1.0, id="at half of its speed alone on its share"),
        pytest.param(120.0, 60.0, 60.0, 2.0, id="a minute of work and more is the plain ratio"),
        pytest.param(120.0, 0.0, 60.0, None, id="no work"),
    ],
)
def test_a_run_time_below_a_minute_counts_as_a_minute(
    taken_s: float, alone_s: float, isolated_s: float, expected: float | None
) -> None:
    assert bounded(taken_s, alone_s, isolated_s) == expected


def test_a_short_sweep_counts_as_a_minute_on_all_that_it_asks_for() -> None:
    load = Load(total_gpu_s=4 * 30.0, longest_s=15.0, demand=4)  # 30 s
    assert load.rho(240.0, of_gpus=8, contention=1.0) == pytest.approx(4.0)
    assert load.rho(240.0, of_gpus=8, contention=4.0) == pytest.approx(2.0)
    assert load.rho(240.0, of_gpus=0, contention=1.0) is None


@pytest.mark.parametrize(
    ("rho", "whole", "contention", "words"),
    [
        (1.3, 1.3, 1.0, "1.3× slower than with your own 8 GPUs"),
        (25.4, 25.4, 1.0, "25× slower than with your own 8 GPUs"),
        (1.3, 2.6, 2.0, "1.3× slower than with an equal part of your own 8 GPUs"),
        (1.0, 2.0, 2.0, "no slower than with an equal part of your own 8 GPUs"),
        (0.5, 1.5, 3.0, "no slower than with an equal part of your own 8 GPUs"),
        (1.05, 1.05, 1.0, "as fast as with your own 8 GPUs"),
        (0.4, 1.0, 2.5, "as fast as with your own 8 GPUs"),  # it had its quota at once, and others waited
        (0.25, 0.5, 2.0, "2.0× faster than with your own 8 GPUs"),
    ],
)
def test_the_sentence_tells_how_much_slower_or_faster(rho: float, whole: float, contention: float, words: str) -> None:
    assert in_words(rho, whole, "your own 8 GPUs", contention=contention) == words
