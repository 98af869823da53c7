"""Deadlines for the signal and for the kill of a job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.dispatch.eviction import Lowered, eviction_after_s, eviction_deadline
from nodeagent.runtime.shim.deadlines import Cause, Deadlines, Due
from tests.profiles import examples

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


@pytest.mark.parametrize("grace_s", [10.0, 300.0])
def test_the_signal_comes_at_the_time_limit_and_the_kill_when_the_grace_after_it_is_over(grace_s: float) -> None:
    deadlines = Deadlines("USR1", grace_s)
    deadlines.set_limit(0.0, 100.0)
    assert deadlines.next_at() == 100.0
    assert deadlines.due(99.9) is None
    assert deadlines.due(100.0) == Due("USR1")
    assert deadlines.next_at() == 100.0 + grace_s
    assert deadlines.due(99.9 + grace_s) is None
    assert deadlines.due(100.0 + grace_s) == KILL
    assert deadlines.cause is Cause.TIME_LIMIT


def test_a_limit_lowered_to_the_past_signals_at_once_and_leaves_the_grace() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.set_limit(500.0, -400.0)
    assert deadlines.due(500.0) == TERM
    deadlines.set_limit(505.0, -405.0)
    assert deadlines.due(509.9) is None
    assert deadlines.due(510.0) == KILL


def test_an_extension_during_the_grace_takes_the_stop_back_and_signals_at_the_new_limit() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.set_limit(0.0, 100.0)
    assert deadlines.due(105.0) == TERM
    deadlines.set_limit(106.0, 100.0)
    assert deadlines.cause is None
    assert deadlines.due(205.9) is None
    assert deadlines.due(206.0) == TERM
    assert deadlines.due(216.0) == KILL


def test_an_extension_does_not_take_back_a_stop() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.set_limit(0.0, 100.0)
    deadlines.due(105.0)
    deadlines.ask(106.0, "TERM", 2.0)
    deadlines.set_limit(106.0, 1000.0)
    assert deadlines.due(106.0) == TERM
    assert deadlines.due(108.0) == KILL
    assert deadlines.cause is Cause.ASKED


def test_the_end_of_the_lease_stops_the_job() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.lease_until = 50.0
    assert deadlines.due(49.0) is None
    assert deadlines.due(53.0) == TERM
    assert deadlines.due(60.0) == KILL
    assert deadlines.cause is Cause.LEASE


def test_a_shim_that_looks_at_the_very_end_of_the_lease_stops_the_job() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.lease_until = 50.0
    assert deadlines.due(50.0) == TERM


def test_a_lease_that_is_renewed_in_time_stops_nothing() -> None:
    deadlines = Deadlines("TERM", 10.0)
    deadlines.lease_until = 50.0
    assert deadlines.due(49.0) is None
    deadlines.lease_until = 100.0
    assert deadlines.due(99.0) is None


RATES = st.floats(0.99, 1.01)
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
DAY_S = 86_400.0


@dataclass(frozen=True)
class Beat:
    """A beat, so long after the one before; its answer comes, or never."""

    gap_s: float
    request_s: float
    answer_s: float | None


BEATS = st.lists(
    st.builds(
        Beat,
        gap_s=st.floats(0.01, 4000),
        request_s=st.floats(0, 60),
        answer_s=st.one_of(st.none(), st.floats(0, 60)),
    ),
    max_size=12,
)


def killed_at(grace_s: float, launched_at: float, min_s: float, leases: list[tuple[float, float, float]]) -> float:
    """The time of the shim's SIGKILL, by the agent's clock; `leases`: since when it lies there, of when, how long."""

    def lease_end(now: float) -> float:
        sent, told_s = [(sent, told_s) for came, sent, told_s in leases if came <= now][-1]
        return sent + max(min_s, told_s)

    deadlines = Deadlines("TERM", grace_s)
    now = launched_at
    deadlines.lease_until = lease_end(now)
    while True:
        if now >= deadlines.lease_until:  # as in `Shim._act`: only now is the file read again
            deadlines.lease_until = lease_end(now)
        due = deadlines.due(now)
        if due is not None and due.kill:
            return now
        now = max(now, deadlines.next_at())


@settings(max_examples=examples(400))
@given(
    beats=BEATS,
    launch=st.integers(0, 12),
    stop_after_s=st.floats(60, DAY_S),
    grace_s=st.floats(0, 3600),
    margin_s=st.floats(1, 60),
    raised_to_s=st.floats(0, DAY_S),
    raised_at=st.floats(0, 10_000),
    for_s=st.floats(0, 10_000),
    agent=RATES,
    server=RATES,
)
def test_the_last_process_ends_before_the_fence(
    *,
    beats: list[Beat],
    launch: int,
    stop_after_s: float,
    grace_s: float,
    margin_s: float,
    raised_to_s: float,
    raised_at: float,
    for_s: float,
    agent: float,
    server: float,
) -> None:
    """For any delays, clocks within one per cent, and a longer time that was granted and taken back meanwhile."""
    lowered_at = raised_at + for_s
    is_raised = raised_to_s > stop_after_s

    def told_s(at: float) -> float:
        return raised_to_s if is_raised and raised_at <= at < lowered_at else stop_after_s

    sent, heard = 0.0, 0.0
    leases = [(0.0, 0.0, told_s(0.0))]  # of the registration
    for beat in beats:
        sent = max(sent, leases[-1][0] / agent) + beat.gap_s  # one after the other
        handled = sent + beat.request_s
        heard = max(heard, handled)
        if beat.answer_s is not None:
            leases.append(((handled + beat.answer_s) * agent, sent * agent, told_s(handled)))
    launched_at = leases[min(launch, len(leases) - 1)][0]
    min_s = told_s(launched_at / agent)
    fence = eviction_deadline(
        heard_at=EPOCH + timedelta(seconds=heard * server),
        away_since=EPOCH + timedelta(seconds=heard * server),
        stop_after_s=max(min_s, stop_after_s),
        grace_s=grace_s,
        margin_s=margin_s,
        lowered=Lowered(raised_to_s, EPOCH + timedelta(seconds=lowered_at * server)) if is_raised else None,
    )
    assert killed_at(grace_s, launched_at, min_s, leases) / agent <= (fence - EPOCH).total_seconds() / server


@pytest.mark.parametrize(
    ("stop_after_s", "grace_s", "margin_s", "fence"),
    [(600, 30, 30, 660), (7200, 300, 30, 7725), (60, 0, 30, 90), (DAY_S, 0, 1, DAY_S * 1.03)],
)
def test_the_margin_grows_with_what_is_counted(
    stop_after_s: float, grace_s: float, margin_s: float, fence: float
) -> None:
    assert eviction_after_s(stop_after_s=stop_after_s, grace_s=grace_s, margin_s=margin_s) == pytest.approx(fence)
