"""The pull limiter: how many pulls run at once, in which order, and which pull is preempted for a waiting one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from nodeagent.runtime.container.pulling import MIN_BYTES_PER_S, WINDOW_S
from nodeagent.runtime.turns import LATE_S, MAX_TURN_S, SLOW_BYTES_PER_S, Turn, Turns

SLOW, FAST = SLOW_BYTES_PER_S / 2, SLOW_BYTES_PER_S * 2


@dataclass
class Clocked:
    """Turns, and the time that they see."""

    max_at_once: int = 4
    max_alike: int = 2
    now: float = 0.0
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.turns = Turns(self.max_at_once, self.max_alike, now=lambda: self.now)

    def ask(self, owner: str, host: str = "") -> Turn:
        """A turn that is asked for; where no host is named, one of its own."""
        return self.turns.ask(owner=owner, host=host or f"host of {owner}")

    def taken(self, owner: str, bytes_per_s: float | None = None, host: str = "", *, held_up: bool = False) -> Turn:
        """A turn that is taken, by a pull of this speed."""
        turn = self.ask(owner, host)
        assert turn.take()
        turn.note(bytes_per_s=bytes_per_s, held_up=held_up)
        return turn


@pytest.mark.parametrize("shared", ["owner", "host"])
def test_those_that_share_an_owner_or_a_host_have_fewer_turns(shared: str) -> None:
    turns = Turns(max_at_once=4, max_alike=2)
    other = {"owner": "host", "host": "owner"}[shared]
    first, *rest = [turns.ask(**{shared: "a", other: str(number)}) for number in range(3)]
    assert [turn.take() for turn in (first, *rest)] == [True, True, False]
    first.end()
    assert rest[1].take()


def test_there_are_no_more_turns_than_there_are() -> None:
    clocked = Clocked(max_at_once=1)
    first = clocked.taken("a")
    second = clocked.ask("b")
    assert not second.take()
    first.end()
    assert second.take()


def test_those_who_wait_are_served_in_the_order_in_which_they_asked() -> None:
    clocked = Clocked(max_at_once=1)
    first = clocked.taken("a")
    waiting = [clocked.ask(owner) for owner in "bcd"]
    first.end()
    assert [turn.take() for turn in reversed(waiting)] == [False, False, True]


def test_whose_owner_has_fewer_turns_is_served_before() -> None:
    clocked = Clocked(max_at_once=3)
    clocked.taken("a")
    ending = [clocked.taken(owner) for owner in "bb"]
    greedy, modest = clocked.ask("a", "x"), clocked.ask("c", "y")
    ending[0].end()
    assert [greedy.take(), modest.take(), greedy.take()] == [False, True, False]
    ending[1].end()
    assert greedy.take()


def test_who_can_have_no_turn_yet_is_in_nobodys_way() -> None:
    clocked = Clocked()
    clocked.taken("a"), clocked.taken("a")
    third, other = clocked.ask("a"), clocked.ask("b")
    assert [third.take(), other.take()] == [False, True]


def test_who_waits_no_more_is_in_nobodys_way() -> None:
    clocked = Clocked(max_at_once=1)
    clocked.taken("a").end()
    clocked.ask("b").end()
    assert clocked.ask("c").take()


def test_the_slowest_yields_to_who_has_waited_for_long() -> None:
    clocked = Clocked()
    paces = {"a": SLOW, "b": SLOW / 2, "c": FAST, "d": None}
    taken = {owner: clocked.taken(owner, pace) for owner, pace in paces.items()}
    waiting = clocked.ask("e")
    clocked.now = LATE_S - 1
    assert not any(turn.yields() for turn in taken.values())
    clocked.now = LATE_S
    # One preempted pull is enough for one that waits, whichever is asked first and however often.
    for _ in range(2):
        assert [owner for owner, turn in taken.items() if turn.yields()] == ["b"]
    taken["b"].end()
    assert waiting.take()
    clocked.now += LATE_S
    assert not any(taken[owner].yields() for owner in "acd")


def test_as_many_yield_as_have_waited_for_long() -> None:
    clocked = Clocked()
    taken = [clocked.taken(owner, SLOW) for owner in "abcd"]
    for owner in "efg":
        clocked.ask(owner)
    clocked.now = LATE_S
    assert [turn.yields() for turn in taken] == [True, True, True, False]


def test_the_fast_yield_in_the_end_too() -> None:
    clocked = Clocked(max_at_once=1)
    first = clocked.taken("a", FAST)
    clocked.ask("b")
    clocked.now = MAX_TURN_S - 1
    assert not first.yields()
    clocked.now = MAX_TURN_S
    assert first.yields()


def test_who_has_a_turn_has_it_for_a_time_however_long_others_have_waited() -> None:
    clocked = Clocked(max_at_once=1)
    first, second = clocked.taken("a", FAST), clocked.ask("b")
    clocked.ask("c")
    clocked.now = LATE_S
    first.end()
    assert second.take()
    second.note(bytes_per_s=SLOW, held_up=False)
    assert not second.yields()
    clocked.now += LATE_S
    assert second.yields()


@pytest.mark.parametrize(
    ("owner", "host"), [("a", "z"), ("z", "host of b")], ids=["its own owner's", "of a host that others keep busy"]
)
def test_nobody_yields_whose_end_would_not_help(owner: str, host: str) -> None:
    clocked = Clocked()
    own = [clocked.taken("a", SLOW, f"own {number}") for number in range(2)]
    busy = [clocked.taken(one, FAST, "host of b") for one in "bc"]
    clocked.ask(owner, host)
    clocked.now = LATE_S
    assert [turn.yields() for turn in own] == [False, False]
    assert [turn.yields() for turn in busy] == [False, False]
    for turn in busy:
        turn.note(bytes_per_s=SLOW, held_up=False)
    assert busy[0].yields() == (owner == "z")


def test_nobody_yields_while_nobody_waits() -> None:
    clocked = Clocked()
    taken = clocked.taken("a", 0.0)
    clocked.now = 100 * MAX_TURN_S
    assert not taken.yields()


def test_who_is_kept_waiting_with_a_turn_has_others_yield() -> None:
    clocked = Clocked()
    slow, held_up = clocked.taken("a", SLOW), clocked.taken("b", None, held_up=True)
    assert [slow.has_others(), held_up.has_others()] == [False, True]
    clocked.now = LATE_S - 1
    assert not slow.yields()
    clocked.now = LATE_S
    assert [held_up.yields(), slow.yields()] == [False, True]


def test_waiting_begins_anew_for_who_has_gone_on_meanwhile() -> None:
    clocked = Clocked()
    slow, other = clocked.taken("a", SLOW), clocked.taken("b", None, held_up=True)
    clocked.now = LATE_S / 2
    other.note(bytes_per_s=None, held_up=False)
    other.note(bytes_per_s=None, held_up=True)
    clocked.now = LATE_S
    assert not slow.yields()
    clocked.now = 1.5 * LATE_S
    assert slow.yields()


def test_a_line_that_is_out_of_reach_is_slower_than_one_that_yields() -> None:
    # A pull that runs long enough to be preempted has been measured.
    assert MIN_BYTES_PER_S < SLOW_BYTES_PER_S
    assert WINDOW_S <= LATE_S / 2
