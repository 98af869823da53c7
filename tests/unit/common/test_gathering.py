"""Calls that are answered together, with functions of many that need no database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import pytest

from muster.common.errors import Unavailable
from muster.common.gathering import MAX_TOGETHER, Gathered

WAIT_S = 60


@dataclass(slots=True)
class Desk:
    """A function of many that stands still until it is let go, and notes what it was given."""

    rounds: list[dict[str, int]] = field(default_factory=list)
    refuses: Callable[[Mapping[str, int]], None] = lambda _calls: None
    may_answer: threading.Event = field(default_factory=threading.Event)
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def answer(self, calls: Mapping[str, int]) -> dict[str, int]:
        """Each number doubled."""
        self.rounds.append(dict(calls))
        self.called.release()
        assert self.may_answer.wait(WAIT_S)
        self.refuses(calls)
        return {key: 2 * number for key, number in calls.items()}

    async def until_called(self) -> None:
        """Return when the function has been called once more."""
        assert await asyncio.to_thread(self.called.acquire, timeout=WAIT_S)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def run(story: Callable[[Gathered[str, int, int]], Awaitable[None]], desk: Desk, every_s: float = 0) -> None:
    async def told() -> None:
        async with asyncio.timeout(WAIT_S):
            await story(Gathered(desk.answer, every_s=every_s))

    asyncio.run(told())


async def ask_one_and_then(
    gathered: Gathered[str, int, int], desk: Desk, *calls: tuple[str, int]
) -> tuple[asyncio.Task[int], list[asyncio.Task[int]]]:
    """A first call that the function works at, and others that came meanwhile."""
    first = asyncio.create_task(gathered.ask("first", 1))
    await desk.until_called()
    others = [asyncio.create_task(gathered.ask(key, number)) for key, number in calls]
    await asyncio.sleep(0)  # each has asked
    return first, others


def test_a_call_that_comes_alone_is_answered_at_once(desk: Desk) -> None:
    desk.may_answer.set()

    async def story(gathered: Gathered[str, int, int]) -> None:
        assert await gathered.ask("a", 4) == 8

    run(story, desk, every_s=10 * WAIT_S)
    assert desk.rounds == [{"a": 4}]


def test_calls_that_come_meanwhile_are_answered_together(desk: Desk) -> None:
    async def story(gathered: Gathered[str, int, int]) -> None:
        first, others = await ask_one_and_then(gathered, desk, ("a", 2), ("b", 3), ("c", 4))
        desk.may_answer.set()
        assert [await first, *[await other for other in others]] == [2, 4, 6, 8]

    run(story, desk)
    assert desk.rounds == [{"first": 1}, {"a": 2, "b": 3, "c": 4}]


def test_whoever_calls_all_the_time_is_in_each_round_once(desk: Desk) -> None:
    async def story(gathered: Gathered[str, int, int]) -> None:
        first, others = await ask_one_and_then(gathered, desk, ("loud", 1), ("loud", 2), ("loud", 3), ("quiet", 4))
        desk.may_answer.set()
        assert [await first, *[await other for other in others]] == [2, 2, 4, 6, 8]

    run(story, desk)
    assert desk.rounds == [{"first": 1}, {"loud": 1, "quiet": 4}, {"loud": 2}, {"loud": 3}]


def test_a_round_is_bounded(desk: Desk) -> None:
    calls = [(f"caller-{number}", number) for number in range(MAX_TOGETHER + 1)]

    async def story(gathered: Gathered[str, int, int]) -> None:
        _, others = await ask_one_and_then(gathered, desk, *calls)
        desk.may_answer.set()
        assert [await other for other in others] == [2 * number for _, number in calls]

    run(story, desk)
    assert [len(one) for one in desk.rounds] == [1, MAX_TOGETHER, 1]


def test_a_call_that_cannot_be_answered_spoils_no_others(desk: Desk) -> None:
    def refuse(calls: Mapping[str, int]) -> None:
        if "bad" in calls:
            raise ValueError("bad")

    desk.refuses = refuse

    async def story(gathered: Gathered[str, int, int]) -> None:
        _, (good, bad, fine) = await ask_one_and_then(gathered, desk, ("good", 2), ("bad", 3), ("fine", 4))
        desk.may_answer.set()
        assert (await good, await fine) == (4, 8)
        with pytest.raises(ValueError, match="bad"):
            await bad
        assert await gathered.ask("good", 5) == 10

    run(story, desk)


def test_a_database_that_is_out_is_not_asked_again_for_each_caller(desk: Desk) -> None:
    def refuse(calls: Mapping[str, int]) -> None:
        if "a" in calls:
            raise Unavailable("out")

    desk.refuses = refuse

    async def story(gathered: Gathered[str, int, int]) -> None:
        _, others = await ask_one_and_then(gathered, desk, ("a", 2), ("b", 3))
        desk.may_answer.set()
        for other in others:
            with pytest.raises(Unavailable):
                await other

    run(story, desk)
    assert len(desk.rounds) == 2


def test_whoever_has_left_is_not_in_the_next_round(desk: Desk) -> None:
    async def story(gathered: Gathered[str, int, int]) -> None:
        first, (gone, there) = await ask_one_and_then(gathered, desk, ("gone", 2), ("there", 3))
        gone.cancel()
        await asyncio.wait([gone])
        desk.may_answer.set()
        assert (await first, await there) == (2, 6)

    run(story, desk)
    assert desk.rounds == [{"first": 1}, {"there": 3}]


def test_when_the_process_ends_in_the_middle_of_a_round_its_callers_are_told(desk: Desk) -> None:
    async def story(gathered: Gathered[str, int, int]) -> None:
        first, others = await ask_one_and_then(gathered, desk, ("a", 2))
        (rounds,) = asyncio.all_tasks() - {asyncio.current_task(), first, *others}
        rounds.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        desk.may_answer.set()
        assert await gathered.ask("b", 3) == 6
        assert await others[0] == 4

    run(story, desk)
