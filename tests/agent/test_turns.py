"""Turns: how many at once, and how many that are alike."""

from __future__ import annotations

from nodeagent.turns import Turns


def test_those_that_share_a_key_have_fewer_turns() -> None:
    turns = Turns(most=4, most_alike=2)
    assert [turns.take(("a", str(number))) for number in range(3)] == [True, True, False]
    assert [turns.take(("b", str(number))) for number in range(3)] == [True, True, False]
    turns.give_back(("a", "0"))
    assert not turns.take(("b", "9"))
    assert turns.take(("a", "9"))


def test_one_shared_key_of_several_is_enough_to_wait() -> None:
    turns = Turns(most=4, most_alike=2)
    assert turns.take(("a", "x"))
    assert turns.take(("b", "x"))
    assert not turns.take(("c", "x"))
    assert turns.take(("a", "y"))


def test_there_are_no_more_turns_than_there_are() -> None:
    turns = Turns(most=1, most_alike=1)
    assert turns.take(("a",))
    assert not turns.take(("b",))
    turns.give_back(("a",))
    assert turns.take(("b",))
