"""The agent itself, put together by its own `_serve`, on a simulated machine."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nodeagent.cli.agent
import nodeagent.ship.shipper
import nodeagent.sync.lifeline
import nodeagent.system.clock
from nodeagent.disk.watch import Disks
from nodeagent.protocol.messages import CheckResult, HealthEvent, Inventory, MetricPoint, ProgressNote
from nodeagent.runtime.port import EventKind
from nodeagent.state.inbox import Happened
from nodeagent.state.journal import Journal
from nodeagent.sync.agent import Agent
from nodeagent.sync.lifeline import Conversation
from nodeagent.sync.session import Rejected, register
from nodeagent.transport.client import Client
from nodeagent.watch.sampler import News
from tests.protocol.kernel import Event, Inbox, Kernel, Owner, Pool
from tests.protocol.machine import Machine
from tests.protocol.network import Link, Platform, Way


class Sampler:
    """No readings, but a true word on whether a GPU is in use."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def left(self, allocation_id: int, uuids: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return self.faults(allocation_id, uuids)

    def note_strangers(self, allocation_id: int, uuids: Sequence[str]) -> Mapping[str, frozenset[int]]:
        return {}  # there are no foreign processes here

    def recall_strangers(self, allocation_id: int, pids_of: Mapping[str, frozenset[int]]) -> None:
        """None was noted."""

    def forget_strangers(self, allocation_id: int) -> None:
        """None was noted."""

    def assign(self, allocation_id: int, uuids: tuple[str, ...]) -> None:
        """Ignored."""

    def take(self, *_: object) -> News:
        return News()

    def give_back(self, news: News) -> None:
        """Nothing was taken."""

    def report(self, event: HealthEvent) -> None:
        """Ignored."""

    def note(self, note: ProgressNote) -> None:
        """Ignored."""

    def faults(self, allocation_id: int, uuids: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return tuple((uuid, "a process is on it") for uuid in uuids if self._machine.busy((uuid,)))

    def last_points(self, allocation_id: int) -> tuple[MetricPoint, ...]:
        return ()

    def last_words(self, uuids: Sequence[str]) -> tuple[bool, float]:
        return False, float("inf")

    def holds(self, uuid: str) -> bool:
        return False

    def checked(self, result: CheckResult) -> None:
        """Ignored."""

    def has_news(self) -> bool:
        return False


class Run(Owner):
    """One run of the agent of a machine, from its start to its end."""

    def __init__(self, kernel: Kernel, platform: Platform, machine: Machine, link: Link, journal: Path) -> None:
        super().__init__(machine.rate)
        self.kernel = kernel
        self.machine = machine
        self.status: int | None = None
        self.error: BaseException | None = None
        self._journal_path = journal
        self._client = Client(Way(kernel, platform, link), machine.credential)
        kernel.spawn(self, self._live)

    def kill(self) -> None:
        """End it as SIGKILL does; what it had begun stays as it is."""
        self.machine.listener = None
        self.end()

    def _live(self) -> None:
        kernel, machine = self.kernel, self.machine
        inbox, stopping = Inbox(kernel, queue.Empty), Event(kernel)
        inventory = Inventory(machine.hostname, "10.0.0.1", cpus=64, memory_mib=262_144, gpus=machine.gpu_infos())
        journal = Journal(str(self._journal_path))

        def heard(allocation_id: int, kind: EventKind) -> None:
            inbox.put(Happened(allocation_id, kind))

        machine.listener = heard
        try:
            session = register(
                self._client,
                machine,  # type: ignore[arg-type]
                inventory,
                version="1",
                join_token="",
                stopping=stopping,  # type: ignore[arg-type]
            )
            assert session is not None
            doubles: dict[str, Any] = {"runtime": machine, "sampler": Sampler(machine), "post": inbox.put}
            doubles |= {"stopping": stopping, "asked": Event(kernel)}
            agent = Agent(client=self._client, session=session, journal=journal, **doubles)
            self.status = nodeagent.cli.agent._serve(agent, inbox)  # type: ignore[arg-type]
        except Rejected as refusal:
            self.status = refusal.status
        except Exception as error:
            self.error = error
            raise
        finally:
            journal.close()
            if machine.listener is heard:
                machine.listener = None
        self.end()


@contextmanager
def simulated(kernel: Callable[[], Kernel]) -> Iterator[None]:
    """The agent's clocks and threads are the kernel's while this lasts."""

    def owner() -> Run:
        thread = kernel().current
        assert thread is not None
        assert isinstance(thread.owner, Run)
        return thread.owner

    def boottime() -> float:
        return owner().machine.boottime()

    def boot_id() -> str:
        return owner().machine.boot_id()

    def pool(name: str, threads: int, failed: Callable[[BaseException], None]) -> Pool:
        return Pool(kernel(), owner(), failed)

    def start(conversation: Conversation) -> None:
        kernel().spawn(owner(), conversation.run)

    clock = SimpleNamespace(monotonic=boottime)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodeagent.system.clock, "boottime", boottime)
        patch.setattr(nodeagent.system.clock, "boot_id", boot_id)
        patch.setattr(nodeagent.sync.lifeline, "time", clock)
        patch.setattr(nodeagent.ship.shipper, "time", clock)
        patch.setattr(nodeagent.cli.agent, "WorkPool", pool)
        patch.setattr(Conversation, "start", start, raising=False)
        patch.setattr(Disks, "start", lambda _: None)  # a simulated machine has no disk that could be full
        yield
