"""Batches of messages about allocations: while one batch is on its way, the next is gathered.

No batch waits to be filled. One is on its way at a time, and each item hears of its own outcome.
"""

from __future__ import annotations

import threading
from typing import Callable, List, Tuple, Union

from nodeagent.protocol.messages import MAX_BATCH_ITEMS, BatchItem, ItemOutcome
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable

_MAX_TEXT_CHARACTERS = 512 << 10
"""Characters that the jobs' words in one batch may add up to: as JSON they take up to six times as much."""

Answer = Union[ItemOutcome, Unreachable, Refused]
Entry = Tuple[BatchItem, Callable[[Answer], None]]


class Outbox:
    """Items that wait for the next batch. `put` may be called from any thread; `pool` has one thread."""

    def __init__(self, client: Client, pool: WorkPool) -> None:
        self._client = client
        self._pool = pool
        self._mutex = threading.Lock()
        self._waiting: List[Entry] = []
        self._sending = False

    def put(self, *entries: Entry) -> None:
        """Send these items as soon as the batch before is answered; each callback hears of its own, in the pool."""
        with self._mutex:
            self._waiting += entries
            if self._sending:
                return
            self._sending = True
        self._pool.submit(self._send)

    def _send(self) -> None:
        with self._mutex:
            entries = self._next()
            if not entries:
                self._sending = False
                return
        answers: Tuple[Answer, ...]
        try:
            answers = self._client.batch([item for item, _ in entries])
        except (Unreachable, Unauthorized) as error:
            answers = (error,) * len(entries)
        for place, (_, answered) in enumerate(entries):
            answered(answers[place])
        self._pool.submit(self._send)

    def _next(self) -> List[Entry]:
        """The oldest items that one message may carry, at least one if any waits."""
        entries, characters = self._waiting[:1], 0
        for entry in self._waiting[1:MAX_BATCH_ITEMS]:
            characters += _text_of(entries[-1][0])
            if characters + _text_of(entry[0]) > _MAX_TEXT_CHARACTERS:
                break
            entries.append(entry)
        del self._waiting[: len(entries)]
        return entries


def _text_of(item: BatchItem) -> int:
    return len(item.end.tail) if item.end is not None else len(item.finish.rest) if item.finish is not None else 0
