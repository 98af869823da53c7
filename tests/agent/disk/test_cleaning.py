"""Folders of jobs are removed in threads: a slow removal does not delay that of another folder."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import MagicMock

from nodeagent.loop.core import Allocation, Stage
from nodeagent.loop.loop import Loop
from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import ExitStatus
from nodeagent.system.workpool import WorkPool
from tests.waiting import eventually


@dataclass
class Runtime:
    """A runtime that is long about clearing."""

    removed: list[int] = field(default_factory=list)
    begun: int = 0
    clearing: int = 0
    max_at_once: int = 0
    may_end: threading.Event = field(default_factory=threading.Event)

    def allocations(self) -> tuple[int, ...]:
        return ()

    def remove(self, allocation_id: int) -> None:
        self.removed.append(allocation_id)

    def clear(self) -> None:
        self.begun += 1
        self.clearing += 1
        self.max_at_once = max(self.max_at_once, self.clearing)
        self.may_end.wait()
        self.clearing -= 1


def test_a_folder_is_put_aside_while_another_is_being_cleared_and_one_is_cleared_at_a_time() -> None:
    runtime, failures = Runtime(), list[BaseException]()
    agent, pools = MagicMock(runtime=runtime), [WorkPool(name, 1, failures.append) for name in ("clean", "clear")]
    agent.journal.entries.return_value = {}
    parts: dict[str, Any] = {name: MagicMock() for name in ("launcher", "ends", "shipper", "collector", "inbox")}
    loop = Loop(agent, **parts, cleaning=pools[0], clearing=pools[1])
    try:
        loop.recover()
        eventually(lambda: runtime.begun == 1, "the clearing of what earlier runs left")
        for number in (7, 8):
            loop._forget(Allocation(number, 5, Stage.EXITED, status=ExitStatus(EndReason.COMPLETED)))
        eventually(lambda: runtime.removed == [7, 8], "both put aside")
        assert runtime.begun == 1
    finally:
        runtime.may_end.set()
    eventually(lambda: runtime.begun == 3, "a clearing for each")
    for pool in pools:
        pool.close(10.0)
    assert (runtime.max_at_once, failures) == (1, [])
