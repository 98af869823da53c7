"""Calls that many make at the same moment, answered together: one query for all of them instead of one for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from muster.common.asgi import in_thread
from muster.common.errors import Unavailable
from muster.common.pace import Pace

log = logging.getLogger(__name__)

K = TypeVar("K")
C = TypeVar("C")
A = TypeVar("A")

MAX_TOGETHER = 200
# A job's start and end take this many rounds for its node, and should wait for none of them.
ROUNDS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class _Asked(Generic[K, C, A]):
    key: K
    call: C
    answer: asyncio.Future[A]


class Gathered(Generic[K, C, A]):
    """Answers calls by a function of many, in a thread: a call that comes alone at once, others with the next ones.

    The function runs once at a time, and in the long run once in `every_s` seconds; after a pause, `ROUNDS_AT_ONCE`
    rounds follow each other. Of two calls with one key the second goes into the next round. A round that fails is tried
    again call by call, so that no caller is refused for another's call.
    """

    def __init__(self, function: Callable[[Mapping[K, C]], Mapping[K, A]], *, every_s: float) -> None:
        self._function, self._pace = function, Pace(every_s, at_once=ROUNDS_AT_ONCE)
        self._asked: list[_Asked[K, C, A]] = []
        self._rounds: asyncio.Task[None] | None = None

    async def ask(self, key: K, call: C) -> A:
        """The answer to the call, or what the function raises for it."""
        loop = asyncio.get_running_loop()
        asked: _Asked[K, C, A] = _Asked(key, call, loop.create_future())
        self._asked.append(asked)
        if self._rounds is None or self._rounds.done():
            self._rounds = loop.create_task(self._answer_all())
        return await asked.answer

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._take():
            began = loop.time()
            try:
                await self._answer(batch)
            finally:  # the process may end in the middle of a round
                for asked in batch.values():
                    asked.answer.cancel()  # no effect on one that is answered
            await asyncio.sleep(began + self._pace.wait_s(began) - loop.time())

    def _take(self) -> dict[K, _Asked[K, C, A]]:
        """The calls of the next round; the others stay. A caller that has disconnected is dropped."""
        batch: dict[K, _Asked[K, C, A]] = {}
        left: list[_Asked[K, C, A]] = []
        for asked in self._asked:
            if asked.answer.done():
                continue
            if asked.key in batch or len(batch) == MAX_TOGETHER:
                left.append(asked)
            else:
                batch[asked.key] = asked
        self._asked = left
        return batch

    async def _answer(self, batch: Mapping[K, _Asked[K, C, A]]) -> None:
        try:
            answers = await in_thread(self._function, {key: asked.call for key, asked in batch.items()})
        except Unavailable as error:  # it would hit each call by itself, too
            _refuse(batch, error)
        except Exception as error:  # noqa: BLE001 - each caller gets it
            if len(batch) == 1:
                _refuse(batch, error)
                return
            log.warning("round_failed calls=%d error=%r", len(batch), error)
            for key, asked in batch.items():
                await self._answer({key: asked})
        else:
            for key, asked in batch.items():
                if not asked.answer.done():
                    asked.answer.set_result(answers[key])


def _refuse(batch: Mapping[K, _Asked[K, C, A]], error: Exception) -> None:
    for asked in batch.values():
        if not asked.answer.done():
            asked.answer.set_exception(error)
