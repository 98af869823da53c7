"""Waits of tests for a condition on machines that are more or less busy."""

from __future__ import annotations

import os
from itertools import count

import pytest

from tests.waiting import eventually, patience


@pytest.mark.parametrize(
    ("load", "factor"), [(0.0, 1), (2.0, 1), (5.0, 2.5), (100.0, 4)], ids=["idle", "full", "busy", "overrun"]
)
def test_deadlines_follow_the_load_of_each_processor_within_bounds(load: float, factor: float) -> None:
    assert patience(load, cpus=2) == factor


def test_the_first_true_value_is_returned() -> None:
    numbers = count()
    assert eventually(lambda: next(numbers)) == 1


def test_a_busy_machine_makes_a_deadline_longer_and_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    with pytest.raises(AssertionError, match=r"the job did not come true within 0\.04 s; last seen: 0"):
        eventually(lambda: 0, "the job", 0.01)
