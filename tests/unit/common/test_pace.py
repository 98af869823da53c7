"""Pace of turns."""

from __future__ import annotations

import pytest

from muster.common.pace import Pace


def waits(pace: Pace, *moments: float) -> list[float]:
    return [pytest.approx(pace.wait_s(moment)) for moment in moments]


def test_a_few_turns_follow_each_other_at_once_and_then_one_comes_in_each_period() -> None:
    assert waits(Pace(2.0, at_once=3), 10.0, 10.0, 10.0, 12.0, 14.0) == [0.0, 0.0, 2.0, 2.0, 2.0]


def test_after_a_pause_a_few_turns_follow_each_other_again() -> None:
    pace = Pace(2.0, at_once=3)
    waits(pace, 10.0, 10.0, 10.0)
    assert waits(pace, 14.0, 14.0, 100.0, 100.0, 100.0) == [0.0, 2.0, 0.0, 0.0, 2.0]


def test_without_turns_at_once_each_waits_for_a_period_after_the_one_before() -> None:
    assert waits(Pace(2.0, at_once=1), 10.0, 12.5) == [2.0, 2.0]
