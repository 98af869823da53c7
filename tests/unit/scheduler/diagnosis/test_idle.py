"""Idle jobs: what counts as idle, and what is done about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.diagnosis.idle import (
    MAX_GAP_S,
    STARTUP_S,
    STEP_S,
    Action,
    Count,
    Finding,
    Policy,
    Reading,
    Rule,
    RuleOwner,
    add_readings,
    judge,
    rules_of,
)

RULE = Rule(below=5.0, for_s=1800.0, stops=True)
WARNS = Rule(below=5.0, for_s=1800.0, stops=False)
START = 0.0
GRACE = int(STARTUP_S // STEP_S)


def minutes(*most: float | None, since: int = 0) -> list[Reading]:
    return [Reading((since + index) * STEP_S, one) for index, one in enumerate(most)]


def after(*most: float | None, rule: Rule = RULE, since: int = 0) -> Count:
    return add_readings(Count(START), minutes(*most, since=since), rule=rule, started_s=START)


IDLENESS: dict[str, tuple[list[float | None], float | None, float]] = {
    "a job that was busy once and is idle now counts from then on": ([80.0, 0.0, 0.0], 60.0, 120.0),
    "at the limit it is busy": ([80.0, 0.0, 5.0], None, 0.0),
    "just below the limit it is not": ([80.0, 4.99], 60.0, 60.0),
    "a busy minute takes all idleness back": ([80.0, 0.0, 0.0, 30.0, 0.0], 240.0, 60.0),
    "a minute without a reading neither counts nor restarts the count": ([80.0, 0.0, None, 0.0], 60.0, 120.0),
    "a job that was not busy yet may load for a while": ([0.0] * GRACE, None, 0.0),
    "after that it counts though it never was busy": ([0.0] * (GRACE + 2), STARTUP_S, 120.0),
    "nothing was seen": ([], None, 0.0),
    "nothing is known of what was seen": ([None] * 100, None, 0.0),
}


@pytest.mark.parametrize("case", IDLENESS)
def test_what_counts_as_idle(case: str) -> None:
    readings, since_s, idle_s = IDLENESS[case]
    count = after(*readings)
    assert (count.since_s, count.idle_s) == (since_s, idle_s)


def test_after_a_long_gap_the_count_begins_anew() -> None:
    gap = int(MAX_GAP_S // STEP_S)
    idle = after(80.0, 0.0, 0.0)
    short = add_readings(idle, minutes(0.0, since=3 + gap), rule=RULE, started_s=START)
    long = add_readings(idle, minutes(0.0, since=4 + gap), rule=RULE, started_s=START)
    assert (short.since_s, short.idle_s) == (60.0, 180.0)
    assert (long.since_s, long.idle_s) == ((4 + gap) * STEP_S, 60.0)


def test_a_minute_in_which_not_all_gpus_were_seen_can_be_busy_and_never_idle() -> None:
    idle = after(80.0, 0.0, 0.0)
    unseen = add_readings(idle, [Reading(180.0, 1.0, complete=False)], rule=RULE, started_s=START)
    busy = add_readings(idle, [Reading(180.0, 90.0, complete=False)], rule=RULE, started_s=START)
    assert unseen == idle
    assert (busy.since_s, busy.idle_s) == (None, 0.0)


def test_a_reading_is_counted_once_though_it_is_read_again() -> None:
    readings = minutes(80.0, 0.0, 0.0)
    count = after(80.0, 0.0, 0.0)
    assert add_readings(count, readings, rule=RULE, started_s=START) == count


class TestJudge:
    def judged(self, idle: int, rule: Rule = RULE, *, later_s: float = 0.0) -> Finding | None:
        count = after(80.0, *[0.0] * idle, rule=rule)
        return judge({RuleOwner.JOB: rule}, {RuleOwner.JOB: count}, now_s=count.upto_s + later_s)

    def test_a_rule_that_warns_tells_when_the_time_is_over_and_never_stops(self) -> None:
        assert self.judged(29, WARNS) is None
        assert self.judged(30, WARNS) == Finding(60.0, 5.0, RuleOwner.JOB)
        assert self.judged(3000, WARNS) == Finding(60.0, 5.0, RuleOwner.JOB)

    def test_a_rule_that_stops_tells_when_half_of_the_time_is_over_and_says_when(self) -> None:
        assert self.judged(14) is None
        assert self.judged(15) == Finding(60.0, 5.0, RuleOwner.JOB, stop_at_s=60.0 + 1800.0)
        assert self.judged(30) == Finding(60.0, 5.0, RuleOwner.JOB, stop_at_s=60.0 + 1800.0, stops=True)

    def test_what_was_not_seen_for_long_is_not_judged(self) -> None:
        assert self.judged(30, later_s=MAX_GAP_S) is not None
        assert self.judged(30, later_s=MAX_GAP_S + 1) is None

    def test_the_strictest_rule_decides(self) -> None:
        rules = {RuleOwner.JOB: WARNS, RuleOwner.TENANT: Rule(below=50.0, for_s=3600.0, stops=True)}
        readings = minutes(80.0, *[20.0] * 60)
        counts = {owner: add_readings(Count(0.0), readings, rule=rule, started_s=0.0) for owner, rule in rules.items()}
        found = judge(rules, counts, now_s=61 * 60.0)
        assert found == Finding(60.0, 50.0, RuleOwner.TENANT, stop_at_s=60.0 + 3600.0, stops=True)

    def test_a_rule_that_is_new_has_nothing_to_say_yet(self) -> None:
        assert judge({RuleOwner.TENANT: RULE}, {RuleOwner.JOB: after(80.0, *[0.0] * 60)}, now_s=61 * 60.0) is None


class TestRules:
    TENANT = Policy(Action.STOP, below=10.0, for_s=7200.0)

    def test_a_job_that_says_nothing_is_under_its_tenants_rule(self) -> None:
        assert rules_of(None, self.TENANT) == {RuleOwner.TENANT: Rule(10.0, 7200.0, stops=True)}

    def test_a_jobs_own_rule_takes_its_place_unless_that_one_binds(self) -> None:
        binding = Policy(Action.STOP, below=10.0, for_s=7200.0, binding=True)
        assert rules_of(WARNS, self.TENANT) == {RuleOwner.JOB: WARNS}
        assert rules_of(WARNS, binding) == {RuleOwner.JOB: WARNS, RuleOwner.TENANT: Rule(10.0, 7200.0, stops=True)}

    def test_a_tenant_that_does_nothing_leaves_jobs_their_own_rules(self) -> None:
        off = Policy(Action.OFF, below=10.0, for_s=7200.0, binding=True)
        assert rules_of(None, off) == {}
        assert rules_of(RULE, off) == {RuleOwner.JOB: RULE}


# Few distinct values, so that readings hit the limits and long idleness occurs.
readings = st.lists(st.sampled_from([None, 0.0, 0.0, 0.0, 4.99, 5.0, 80.0]), max_size=80)


@given(readings)
def test_no_job_is_stopped_that_was_seen_at_work_within_its_time(most: list[float | None]) -> None:
    count = after(*most)
    found = judge({RuleOwner.JOB: RULE}, {RuleOwner.JOB: count}, now_s=len(most) * STEP_S)
    recent = most[-int(RULE.for_s // STEP_S) :]
    if found is not None and found.stops:
        assert all(one is None or one < RULE.below for one in recent)
        assert sum(one is not None for one in most) * STEP_S >= RULE.for_s


@given(readings, st.integers(0, 80))
def test_readings_count_alike_in_one_batch_or_several(most: list[float | None], cut: int) -> None:
    together = minutes(*most)
    first = add_readings(Count(START), together[:cut], rule=RULE, started_s=START)
    assert add_readings(first, together[cut:], rule=RULE, started_s=START) == after(*most)
