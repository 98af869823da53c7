"""Verdicts on the members of a sweep by successive halving and by ASHA, and the work that is expected of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.search.history import best_so_far, saved_gpu_s
from scheduler.search.outlook import gpu_s_per_step, steps_left
from scheduler.search.rungs import Action, Goal, Judgement, Member, Method, Reading, Report, RungCount, Rungs, judge
from scheduler.search.space import SearchError

RUNGS = Rungs.of(3, 27, 3)
EARLY = (Method.HALVING, Method.ASHA)


def at_rung(*values: float, living: bool = True) -> list[Member]:
    """Members that arrive at the first rung one second after another."""
    return [Member(n, (Reading(n, value),), 3, living) for n, value in enumerate(values, 1)]


def actions(judgement: Judgement) -> list[Action]:
    return [judgement.verdicts[number].action for number in sorted(judgement.verdicts)]


def test_rungs_grow_by_a_factor_up_to_a_whole_run() -> None:
    assert RUNGS.steps == (3, 9, 27)
    assert Rungs.of(1, 30, 3).steps == (1, 3, 9, 27, 30)
    assert Rungs.of(10, 11, 2).steps == (10, 11)


@pytest.mark.parametrize(("first", "last", "keep", "field"), [(0, 9, 3, "first"), (3, 3, 3, "last"), (3, 9, 1, "keep")])
def test_rungs_that_cannot_be_are_named(first: int, last: int, keep: int, field: str) -> None:
    with pytest.raises(SearchError) as refused:
        Rungs.of(first, last, keep)
    assert refused.value.field == f"sweep.rungs.{field}"


def test_a_reading_is_the_first_report_at_the_rung_or_later() -> None:
    reports = [Report(1, 2, 9.0), Report(2, 4, 5.0), Report(3, 3, 1.0), Report(4, 30, 2.0), Report(5, 31, 0.0)]
    member = Member.from_reports(1, reports, RUNGS, living=True)
    assert member.readings == (Reading(2, 5.0), Reading(4, 2.0), Reading(4, 2.0))
    assert member.step == 31
    assert Member.from_reports(1, [], RUNGS, living=False) == Member(1, living=False)


def test_asha_judges_each_member_by_those_that_came_before() -> None:
    judgement = judge(Method.ASHA, Goal.MIN, RUNGS, at_rung(5.0, 4.0, 6.0, 3.0, 4.5, 3.5))
    go_on, stop = Action.GO_ON, Action.STOP
    assert actions(judgement) == [go_on, go_on, stop, go_on, stop, go_on]
    assert judgement.counts == (RungCount(3, 6, 4), RungCount(9, 0, 0), RungCount(27, 0, 0))
    assert judgement.verdicts[5].sentence("loss") == "loss 4.5 at step 3 is number 3 of 5: only the best goes on"
    assert judgement.verdicts[6].sentence("loss") == "loss 3.5 at step 3 is number 2 of 6: the best 2 go on"


def test_asha_with_a_metric_to_be_maximised() -> None:
    judgement = judge(Method.ASHA, Goal.MAX, RUNGS, at_rung(0.5, 0.4, 0.6))
    assert actions(judgement) == [Action.GO_ON, Action.STOP, Action.GO_ON]


def test_halving_waits_for_the_last_living_member_and_keeps_the_best() -> None:
    members = [*at_rung(5.0, 4.0, 6.0, 3.0, 4.5, 3.5), Member(7), Member(8, living=False)]
    waits = judge(Method.HALVING, Goal.MIN, RUNGS, members)
    assert actions(waits)[:6] == [Action.PAUSE] * 6
    assert waits.verdicts[1].sentence("loss") == "waits at step 3 for 1 more member: then the best go on"
    members[6] = Member(7, living=False)
    decided = judge(Method.HALVING, Goal.MIN, RUNGS, members)
    assert [number for number in range(1, 7) if decided.verdicts[number].action is Action.GO_ON] == [4, 6]
    assert decided.counts[0] == RungCount(3, 6, 2)


def test_of_equal_values_halving_keeps_no_more_than_its_part() -> None:
    assert actions(judge(Method.HALVING, Goal.MIN, RUNGS, at_rung(*[1.0] * 9))).count(Action.GO_ON) == 3
    assert actions(judge(Method.ASHA, Goal.MIN, RUNGS, at_rung(*[1.0] * 9))).count(Action.GO_ON) == 9


@pytest.mark.parametrize("method", EARLY)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("goal", list(Goal))
def test_a_value_that_is_no_number_stops_its_member_at_once(method: Method, value: float, goal: Goal) -> None:
    judgement = judge(method, goal, RUNGS, [*at_rung(value), Member(2)])
    assert judgement.verdicts[1].action is Action.STOP
    assert judgement.verdicts[1].sentence("loss") == "loss at step 3 is not a finite number"


values = st.one_of(st.floats(0, 1), st.sampled_from([0.5, math.nan]))
members_lists = st.lists(st.tuples(st.lists(values, max_size=3), st.booleans()), min_size=1, max_size=30).map(
    lambda drawn: [
        Member(n, tuple(Reading(10 * r + n % 4, v) for r, v in enumerate(vs)), (0, 3, 9, 27)[len(vs)], living)
        for n, (vs, living) in enumerate(drawn, 1)
    ]
)


@given(st.sampled_from(EARLY), st.sampled_from(list(Goal)), members_lists)
def test_a_member_that_goes_on_is_at_least_as_good_as_one_stopped_by_the_same_standard(
    method: Method, goal: Goal, members: Sequence[Member]
) -> None:
    """With ASHA the standard falls as members arrive: of 9 three go on, of 2 one, though the second was better."""
    judgement = judge(method, goal, RUNGS, members)
    by_number = {member.number: member for member in members}
    for number, verdict in judgement.verdicts.items():
        for other, stopped in judgement.verdicts.items():
            if stopped.action is not Action.STOP or stopped.rung is None or verdict.passed <= stopped.rung:
                continue
            mine, theirs = by_number[number].readings[stopped.rung], by_number[other].readings[stopped.rung]
            same = theirs.at < mine.at and (verdict.rung, verdict.kept) == (stopped.rung, stopped.kept)
            if method is Method.HALVING or same or theirs.at == mine.at:
                assert goal.cost(mine.value) <= goal.cost(theirs.value)


@given(st.sampled_from(list(Goal)), members_lists)
def test_asha_never_takes_a_verdict_back(goal: Goal, members: Sequence[Member]) -> None:
    """As seen at each moment a member that went on or stopped still does so when all reports are there."""
    last = judge(Method.ASHA, goal, RUNGS, members).verdicts
    for until in range(40):
        seen = [
            Member(member.number, tuple(reading for reading in member.readings if reading.at <= until))
            for member in members
        ]
        for number, verdict in judge(Method.ASHA, goal, RUNGS, seen).verdicts.items():
            if verdict.rung is not None:
                assert last[number].passed >= verdict.passed
                assert verdict.action is not Action.STOP or last[number] == verdict


@given(members_lists)
def test_halving_keeps_one_in_three_at_each_rung(members: Sequence[Member]) -> None:
    judgement = judge(Method.HALVING, Goal.MIN, RUNGS, members)
    for count in judgement.counts[:-1]:
        assert count.kept <= max(1, count.arrived // 3)


def test_a_thousand_members_are_judged_at_once() -> None:
    members = [Member(n, (Reading(n, (n * 7919) % 1000),), 3) for n in range(1, 1001)]
    assert judge(Method.ASHA, Goal.MIN, RUNGS, members).counts[0].kept >= 333


@pytest.mark.parametrize("method", EARLY)
def test_the_expected_work_of_a_new_sweep_is_that_of_halving(method: Method) -> None:
    members = [Member(n) for n in range(1, 28)]
    left = steps_left(RUNGS, members, judge(method, Goal.MIN, RUNGS, members))
    assert sum(left.values()) == pytest.approx(27 * 3 + 9 * 6 + 3 * 18)
    assert len({round(steps, 9) for steps in left.values()}) == 1


def test_a_stop_and_an_end_correct_the_expected_work() -> None:
    members = [Member(n) for n in range(1, 10)]
    dead = [*members[:6], *(Member(n, living=False) for n in (7, 8, 9))]
    assert sum(steps_left(RUNGS, dead, judge(Method.ASHA, Goal.MIN, RUNGS, dead)).values()) == pytest.approx(
        6 * 3 + 2 * 6 + 1 * 18
    )
    # The first is judged alone and goes on; of six members one more is expected to.
    arrived = [Member(1, (Reading(1, 0.5),), 5), *dead[1:]]
    left = steps_left(RUNGS, arrived, judge(Method.ASHA, Goal.MIN, RUNGS, arrived))
    assert sum(left.values()) == pytest.approx((9 - 5) + 5 * 3 + 1 * 6 + 1 * 18)


def test_a_member_that_waits_may_still_go_on() -> None:
    members = [*at_rung(0.1, 0.2), Member(3, step=1)]
    left = steps_left(RUNGS, members, judge(Method.HALVING, Goal.MIN, RUNGS, members))
    assert left == pytest.approx({1: 24 / 3, 2: 24 / 3, 3: 2 + 24 / 3})


@given(st.sampled_from(EARLY), members_lists)
def test_no_member_is_expected_to_run_more_than_its_whole_run(method: Method, members: Sequence[Member]) -> None:
    judgement = judge(method, Goal.MIN, RUNGS, members)
    left = steps_left(RUNGS, members, judgement)
    for member in members:
        assert (member.number in left) == (
            member.living and judgement.verdicts[member.number].action is not Action.STOP
        )
        if member.number in left:
            assert -1e-9 <= left[member.number] <= 27 - member.step + 1e-9


def test_gpu_seconds_of_a_step_are_those_of_all_steps() -> None:
    assert gpu_s_per_step([(10.0, 5), (50.0, 5), (7.0, 0)]) == 6.0
    assert gpu_s_per_step([(7.0, 0)]) is None
    assert saved_gpu_s(30.0, 3, 27) == 240.0
    assert saved_gpu_s(30.0, 0, 27) == saved_gpu_s(30.0, 28, 27) == 0.0


def test_the_best_so_far_changes_only_for_the_better() -> None:
    reports = [(3.0, 0.5), (1.0, 0.9), (2.0, math.nan), (3.0, 0.4), (4.0, 0.6), (5.0, -math.inf)]
    assert best_so_far(reports, Goal.MIN) == [(1.0, 0.9), (3.0, 0.4)]
    assert best_so_far(reports, Goal.MAX) == [(1.0, 0.9)]
