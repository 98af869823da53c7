"""When a job is signalled and killed."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nodeagent.runtime.shim.deadlines import Cause, Deadlines, Due

TERM, KILL = Due("TERM"), Due("KILL", kill=True)


def test_without_a_cause_nothing_is_ever_due() -> None:
    deadlines = Deadlines("TERM", 10.0)
    assert deadlines.due(1e9) is None
    assert deadlines.next_at() == math.inf


def test_a_stop_signals_once_and_kills_after_the_grace() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.ask(100.0, "INT", 5.0)
    assert deadlines.due(100.0) == Due("INT")
    assert deadlines.due(104.9) is None
    assert deadlines.next_at() == 105.0
    assert deadlines.due(105.0) == KILL
    assert deadlines.cause is Cause.ASKED


def test_a_second_stop_may_hasten_the_end_but_not_put_it_off() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.ask(100.0, "TERM", 5.0)
    deadlines.due(100.0)
    deadlines.ask(101.0, "TERM", 60.0)
    assert deadlines.due(101.0) == TERM
    assert deadlines.due(105.0) == KILL
    deadlines = Deadlines("TERM", 10.0)
    deadlines.ask(100.0, "TERM", 60.0)
    deadlines.ask(101.0, "KILL", 0.0)
    assert deadlines.due(101.0) == KILL


def test_the_time_limit_warns_by_its_grace_before_the_end() -> None:
    deadlines = Deadlines("USR1", 10.0)
    deadlines.set_limit(0.0, 100.0)
    assert deadlines.due(89.9) is None
    assert deadlines.due(90.0) == Due("USR1")
    assert deadlines.due(99.9) is None
    assert deadlines.due(100.0) == KILL
    assert deadlines.cause is Cause.TIME_LIMIT


def test_a_grace_longer_than_the_limit_leaves_half_of_it_for_work() -> None:
    deadlines = Deadlines("TERM", 30.0)
    deadlines.set_limit(0.0, 10.0)
    assert deadlines.due(4.9) is None
    assert deadlines.due(5.0) == TERM


def test_an_extension_takes_a_warning_back_and_warns_again() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.set_limit(0.0, 100.0)
    deadlines.due(95.0)
    deadlines.set_limit(96.0, 100.0)
    assert deadlines.cause is None
    assert deadlines.due(185.9) is None
    assert deadlines.due(186.0) == TERM
    assert deadlines.due(196.0) == KILL


def test_an_extension_does_not_take_back_a_stop() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.set_limit(0.0, 100.0)
    deadlines.due(95.0)
    deadlines.ask(96.0, "TERM", 2.0)
    deadlines.set_limit(96.0, 1000.0)
    assert deadlines.due(96.0) == TERM
    assert deadlines.due(98.0) == KILL
    assert deadlines.cause is Cause.ASKED


def test_the_end_of_the_lease_stops_the_job() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.lease_until = 50.0
    assert deadlines.due(49.0) is None
    assert deadlines.due(53.0) == TERM
    assert deadlines.due(60.0) == KILL
    assert deadlines.cause is Cause.LEASE


def test_a_lease_that_is_renewed_in_time_stops_nothing() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.lease_until = 50.0
    assert deadlines.due(49.0) is None
    deadlines.lease_until = 100.0
    assert deadlines.due(99.0) is None


@given(
    beats=st.lists(st.tuples(st.floats(0.01, 40), st.floats(0, 30)), max_size=10),
    grace_s=st.floats(0, 60),
    rate=st.floats(0.99, 1.01),
)
def test_the_last_process_ends_before_the_fence(beats: list[tuple[float, float]], grace_s: float, rate: float) -> None:
    """For any delay of beats and any clock rate within one per cent, SIGKILL comes before the server's fence."""
    stop_after_s, margin_s = 600.0, 30.0
    sent, handled = 0.0, 0.0
    for gap_s, delay_s in beats:
        sent += gap_s
        handled = max(handled, sent + delay_s)  # the server counts from when it handles the newest beat
    deadlines = Deadlines("TERM", grace_s)
    deadlines.lease_until = sent * rate + stop_after_s
    kill_at = None
    while kill_at is None:
        now = deadlines.next_at()
        now = deadlines.lease_until if now == -math.inf else now
        due = deadlines.due(now)
        if due is not None and due.kill:
            kill_at = now
    assert kill_at / rate <= handled + stop_after_s + grace_s + margin_s
