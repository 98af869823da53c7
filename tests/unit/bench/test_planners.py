"""Two planners on one pool: what they plan at the same time conflicts, and one planner alone never does."""

from __future__ import annotations

import pytest

from bench.planners import simulate

HOUR_S = 3600.0


@pytest.mark.parametrize("whole", [False, True])
def test_one_planner_alone_has_no_conflicts(whole: bool) -> None:
    outcome = simulate(load=0.7, decision_s=10, whole=whole, horizon_s=HOUR_S, planners=1)
    assert outcome.tried > 0
    assert outcome.refused == 0
    assert outcome.useful_gpu_s == pytest.approx(outcome.planned_gpu_s)


@pytest.mark.parametrize("whole", [False, True])
def test_conflicts_grow_with_the_time_of_a_decision_and_each_job_starts_in_the_end(whole: bool) -> None:
    short, long = (simulate(load=0.7, decision_s=s, whole=whole, horizon_s=HOUR_S) for s in (1, 60))
    assert short.refused / short.tried < long.refused / long.tried
    assert len(short.waits_s) == len(long.waits_s)


def test_all_or_nothing_wastes_more_work_than_place_by_place() -> None:
    parts, whole = (simulate(load=0.7, decision_s=60, whole=way, horizon_s=HOUR_S) for way in (False, True))
    assert whole.useful_gpu_s / whole.planned_gpu_s < parts.useful_gpu_s / parts.planned_gpu_s
