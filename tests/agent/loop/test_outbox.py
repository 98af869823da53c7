"""The items of one message, and the outcome of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from nodeagent.protocol.messages import MAX_BATCH_ITEMS, BatchItem, ClaimRequest, EndReason, EndRequest, ItemOutcome
from nodeagent.sync.outbox import Answer, Outbox
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Client, Unauthorized, Unreachable


class Platform:
    """A client that answers as it is told, and notes what it was sent."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.answer: Callable[[BatchItem], Answer] = lambda item: ItemOutcome(200)
        self.meanwhile: Callable[[], None] = lambda: None

    def batch(self, items: Sequence[BatchItem]) -> tuple[Answer, ...]:
        self.batches.append([item.id for item in items])
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return tuple(map(self.answer, items))


class Stage:
    """An outbox whose pool runs its tasks when the test says so."""

    def __init__(self) -> None:
        self.platform = Platform()
        self.tasks: list[Callable[[], None]] = []
        self.heard: dict[int, Answer] = {}
        pool: Any = self
        self.outbox = Outbox(cast("Client", self.platform), cast("WorkPool", pool))

    def submit(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def put(self, *ids: int, tail: str | None = None) -> None:
        def entry(number: int) -> tuple[BatchItem, Callable[[Answer], None]]:
            item = BatchItem(number, claim=ClaimRequest(4, "boot", 7, "state"))
            if tail is not None:
                item = BatchItem(number, end=EndRequest(4, "boot", "state", EndReason.EXIT_NONZERO, tail=tail))
            return item, lambda answer: self.heard.update({number: answer})

        self.outbox.put(*map(entry, ids))

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


def test_what_waits_goes_at_once_and_what_comes_meanwhile_goes_together() -> None:
    stage = Stage()
    stage.platform.meanwhile = lambda: stage.put(2, 3, 4)
    stage.put(1)
    stage.run()
    stage.put(5)
    stage.run()
    assert stage.platform.batches == [[1], [2, 3, 4], [5]]
    assert sorted(stage.heard) == [1, 2, 3, 4, 5]


def test_each_hears_of_its_own_outcome() -> None:
    stage = Stage()
    busy = Unreachable("425")
    stage.platform.answer = lambda item: busy if item.id == 2 else ItemOutcome(200, size=item.id)
    stage.put(1, 2, 3)
    stage.run()
    assert stage.heard == {1: ItemOutcome(200, size=1), 2: busy, 3: ItemOutcome(200, size=3)}


def test_all_hear_that_nobody_has_answered() -> None:
    for error in (Unreachable("no answer"), Unauthorized(401, "unknown")):
        stage = Stage()

        def refuse(_: object, error: Exception = error) -> Answer:
            raise error

        stage.platform.answer = refuse
        stage.put(1, 2)
        stage.run()
        assert stage.heard == {1: error, 2: error}


def test_no_message_is_too_large() -> None:
    stage = Stage()
    stage.put(*range(MAX_BATCH_ITEMS + 1))
    stage.run()
    assert [len(batch) for batch in stage.platform.batches] == [MAX_BATCH_ITEMS, 1]
    stage.platform.batches.clear()
    stage.put(*range(20), tail="x" * 65536)
    stage.run()
    assert [len(batch) for batch in stage.platform.batches] == [8, 8, 4]
