"""Run times of jobs without owners, from the runs submitted at like moments."""

from __future__ import annotations

import math

import pytest

from scheduler.predict.neighbours import MAX_RUNS, Neighbours


def of(neighbours: Neighbours, at: float, kind: str = "a", limit_s: float | None = None) -> float:
    found = neighbours.predict("vc", [(kind, at, limit_s)])
    assert found is not None
    assert found[0].p10_s <= found[0].p50_s <= found[0].p90_s
    return found[0].p50_s


def test_nothing_is_known_of_a_group_without_runs() -> None:
    neighbours = Neighbours()
    neighbours.add("other", "a", 0.0, 100.0)
    neighbours.add("vc", "a", 0.0, math.nan)
    assert neighbours.predict("vc", [("a", 0.0, None)]) is None


def test_jobs_of_a_burst_are_expected_to_be_alike() -> None:
    neighbours = Neighbours()
    for number in range(5):
        neighbours.add("vc", "a", 3.0 * number, 10_000.0)
        neighbours.add("vc", "a", 7_250.0 + 3.0 * number, 50.0)
    assert of(neighbours, 20.0) > 5_000
    assert of(neighbours, 7_270.0) < 100


def test_jobs_by_the_clock_are_expected_to_be_alike() -> None:
    neighbours = Neighbours()
    for number in range(100):
        neighbours.add("vc", "a", 600.0 * number, 70.0)
        neighbours.add("vc", "a", 600.0 * number + 290.0, 7_000.0)
    assert of(neighbours, 600.0 * 120) < 100
    assert of(neighbours, 600.0 * 120 + 290.0) > 5_000


def test_runs_of_another_kind_count_less_and_the_limit_holds() -> None:
    neighbours = Neighbours()
    neighbours.add("vc", "a", 0.0, 100.0)
    neighbours.add("vc", "b", 0.0, 10_000.0)
    assert of(neighbours, 0.0, "a") < 200
    assert of(neighbours, 0.0, "b") > 5_000
    assert of(neighbours, 0.0, "b", limit_s=300.0) == 300.0


def test_old_runs_are_forgotten() -> None:
    neighbours = Neighbours()
    neighbours.add("vc", "a", 0.0, 1e6)
    for number in range(MAX_RUNS):
        neighbours.add("vc", "a", float(number), 100.0)
    assert of(neighbours, 0.0) == pytest.approx(100.0)
