"""The figures are drawn, say what they show in which unit, and come out the same each time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sim import plots
from scheduler.sim.result import Result
from tests.sim.records import record, result


def run(factor: float = 1.0) -> Result:
    jobs = [
        record(number, at=number, took=factor * 10 * number, gpus=number, fragmentation_delay_s=60.0 * factor)
        for number in range(1, 12)
    ]
    return result(jobs, timeline=[(0.0, 0, 0), (10.0, 4, 2), (30.0, 2, 0), (40.0 * factor, 0, 0)])


RUNS = [("fifo", run()), ("srtf: with parameters", run(2.0))]


def test_three_pictures_are_drawn_and_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = plots.draw_all(RUNS, tmp_path / "new" / "a"), plots.draw_all(RUNS, tmp_path / "b")
    assert [path.name for path in first] == ["jct.png", "utilization.png", "queueing.png"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes().startswith(b"\x89PNG")
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("draw", [plots.completion_times, plots.utilization, plots.queueing])
def test_every_run_is_in_the_legend_and_every_axis_has_a_unit_or_counts(draw: plots.Draw) -> None:
    figure = draw(RUNS)
    (legend,) = figure.legends
    assert {label for label, _ in RUNS} <= {text.get_text() for text in legend.get_texts()}
    assert all(axes.get_ylabel() for axes in figure.axes)
    assert figure.axes[-1].get_xlabel()


def test_runs_differ_in_more_than_their_colour() -> None:
    first, second = plots.completion_times(RUNS).axes[0].get_lines()
    assert first.get_color() != second.get_color()
    assert first.get_linestyle() != second.get_linestyle()


def test_a_run_in_which_nothing_ended_is_drawn_empty(tmp_path: Path) -> None:
    assert len(plots.draw_all([("stuck", result([record(took=None)]))], tmp_path)) == 3


def test_a_job_that_took_no_time_has_a_place_on_the_logarithmic_axis() -> None:
    (line,) = plots.completion_times([("a", result([record(took=0.0), record(2, took=5.0)]))]).axes[0].get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [1, 5]


def test_time_averages_weigh_each_sample_with_how_long_it_held() -> None:
    edges, busy, waiting = plots.over_time(run(), bins=4)
    assert edges.tolist() == [0, 10, 20, 30, 40]
    assert busy.tolist() == [0, 4, 4, 2]
    assert waiting.tolist() == [0, 2, 2, 0]


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=40),
    st.integers(1, 50),
)
def test_time_averages_keep_the_area_whatever_the_bins(steps: list[tuple[int, int, int]], bins: int) -> None:
    times = np.cumsum([gap for gap, _, _ in steps]).tolist()
    timeline = [(float(at), busy, waiting) for at, (_, busy, waiting) in zip(times, steps, strict=True)]
    edges, busy, _ = plots.over_time(result([], timeline=timeline), bins)
    area = sum(one[1] * (two[0] - one[0]) for one, two in pairwise(timeline))
    assert np.sum(busy * np.diff(edges)) == pytest.approx(area)
