"""Times of GPU checks, and passed checks that return GPUs to service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.checks import (
    FIRST_PAUSE_S,
    MAX_PAUSE_S,
    RELAPSE_S,
    can_recover,
    is_relapse,
    pause_s,
    returns_to_service,
)
from scheduler.diagnosis.health import (
    KINDS,
    XIDS,
    Action,
    HealthLevel,
    Kind,
    Recovers,
    harder,
    recovery_condition,
)


@pytest.mark.parametrize(
    ("every_s", "in_doubt", "streak", "pause"),
    [
        (3600, False, 5, 3600),
        (0, False, 5, None),
        (0, True, 0, FIRST_PAUSE_S),
        (3600, True, 3, FIRST_PAUSE_S),
        (3600, True, -1, 2 * FIRST_PAUSE_S),
        (3600, True, -3, 8 * FIRST_PAUSE_S),
        (3600, True, -1000, MAX_PAUSE_S),
    ],
)
def test_who_is_in_doubt_is_checked_soon_and_less_often_while_it_fails(
    every_s: float, in_doubt: bool, streak: int, pause: float | None
) -> None:
    assert pause_s(every_s=every_s, in_doubt=in_doubt, streak=streak) == pause


@given(
    st.sampled_from(HealthLevel),
    st.sampled_from([None, *Recovers]),
    st.booleans(),
    st.integers(min_value=-5, max_value=5),
    st.integers(min_value=0, max_value=5),
)
def test_nothing_comes_back_that_cannot_heal_or_has_not_passed(
    level: HealthLevel, condition: Recovers | None, restarted: bool, passes: int, needed: int
) -> None:
    if returns_to_service(level, condition, restarted=restarted, passes=passes, needed=needed):
        assert level is not HealthLevel.OK
        assert passes >= 1
        assert can_recover(condition, restarted=restarted)
        assert condition is Recovers.AT_ONCE or passes >= needed >= 1
        assert condition is not Recovers.BY_RESTART or restarted


def test_what_the_driver_wants_reset_or_restarted_needs_a_restart_and_bad_links_an_operator() -> None:
    for meaning in XIDS.values():
        condition = recovery_condition(meaning, "xid")
        if meaning.action in {Action.RESET_GPU, Action.DRAIN_NODE}:
            assert condition is Recovers.BY_RESTART
        if meaning.action is Action.DRAIN_GPU:
            assert condition is Recovers.NEVER
    assert recovery_condition(KINDS[Kind.MEMORY_HELD], Kind.MEMORY_HELD) is Recovers.BY_CHECKS
    assert recovery_condition(KINDS[Kind.CHECK_FAILED], Kind.CHECK_FAILED) is Recovers.AT_ONCE


def test_the_hardest_of_two_counts() -> None:
    order = list(Recovers)
    for place, one in enumerate(order):
        assert harder(None, one) is one
        for other_place, other in enumerate(order):
            assert harder(one, other) is order[max(place, other_place)]


@pytest.mark.parametrize(
    ("given_back_at_s", "is_one"),
    [(None, False), (1000.0, True), (1000.0 - RELAPSE_S + 500, True), (500.0 - RELAPSE_S, False)],
)
def test_a_relapse_is_a_failure_soon_after_it_was_given_back(given_back_at_s: float | None, is_one: bool) -> None:
    assert is_relapse(failed_at_s=1000.0, given_back_at_s=given_back_at_s) is is_one
