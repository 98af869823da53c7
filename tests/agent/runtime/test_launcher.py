"""Starts and ends with obstacles; time and threads are in the hands of the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.launch.ends import Ends
from nodeagent.launch.launcher import Launcher
from nodeagent.protocol.messages import (
    BatchItem,
    EndReason,
    HealthEvent,
    ItemOutcome,
    LaunchSpec,
    OnDisconnect,
    RegisterResponse,
    Timers,
)
from nodeagent.runtime.port import ExitStatus, LaunchError, NotYet
from nodeagent.runtime.process import runtime as process_runtime
from nodeagent.runtime.process.runtime import ProcessRuntime
from nodeagent.runtime.shim.layout import AllocationFolder
from nodeagent.state.inbox import Exited, Launched, Message
from nodeagent.sync.agent import Agent
from nodeagent.sync.session import Session
from nodeagent.system import clock

STOP_AFTER_S = 600.0
REGISTRY = "registry.example"


class Pool:
    """Tasks that the test runs, in the order of their times."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def submit(self, task: Callable[[], None], delay_s: float = 0.0) -> None:
        self._stage.waiting.append((self._stage.now + delay_s, task))


@dataclass
class Stage:
    """A launcher, and what there is around it."""

    spec: LaunchSpec
    now: float = 1000.0
    waiting: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    posted: list[Message] = field(default_factory=list)
    reported: list[HealthEvent] = field(default_factory=list)
    launched: list[float] = field(default_factory=list)
    looked_at: list[float] = field(default_factory=list)
    prepare: Callable[[], str] = lambda: "/nowhere"
    ending: bool = False
    wanted: Callable[[], bool] = lambda: True
    fetch: Callable[[], None] = lambda: None
    launch: Callable[[], None] = lambda: None
    settle: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        timers = Timers(stop_after_s=STOP_AFTER_S)
        self.session = Session("boot", "state", RegisterResponse(1, 5, "node-5", "cluster", 7, timers), self.now)
        runtime = SimpleNamespace(
            prepare=lambda _: self.prepare(),
            lacks=lambda _: REGISTRY,
            fetch=self._fetch,
            launch=self._launch,
            settle=self._settled,
        )
        doubles: dict[str, Any] = {
            "client": SimpleNamespace(),
            "journal": SimpleNamespace(intend=lambda *_: None),
            "runtime": runtime,
            "sampler": SimpleNamespace(
                report=self.reported.append, faults=self._faults, note_strangers=lambda *_: dict(self._faults())
            ),
            "stopping": SimpleNamespace(wait=lambda _: self.ending, is_set=lambda: self.ending),
            "asked": SimpleNamespace(set=lambda: None),
        }
        agent = Agent(session=self.session, post=self.posted.append, **doubles)
        outbox: Any = SimpleNamespace(
            put=lambda *entries: [answered(self._answer_to(item)) for item, answered in entries]
        )
        pool: Any = Pool(self)
        nothing: Any = None
        self.ends = Ends(agent, outbox=outbox, logs=nothing, exchange=nothing, pool=pool)
        self.launcher = Launcher(
            agent, outbox=outbox, ends=self.ends, launches=pool, fetches=pool, make_way=lambda: None
        )

    def _answer_to(self, item: BatchItem) -> ItemOutcome:
        return ItemOutcome(200, launch=self.spec if item.claim is not None else None)

    def _fetch(self, *arguments: Any) -> None:
        self.wanted = arguments[3]
        self.fetch()

    def _launch(self, _: LaunchSpec) -> None:
        self.launch()
        self.launched.append(self.now)

    def _faults(self, *_: object) -> tuple[tuple[str, str], ...]:
        self.looked_at.append(self.now)
        return ()

    def _settled(self, _: int, fallback: ExitStatus) -> ExitStatus:
        self.settle()
        return fallback

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass from task to task."""
        while not until():
            self.waiting.sort(key=lambda one: one[0])
            at, task = self.waiting.pop(0)
            self.now = max(self.now, at)
            task()

    @property
    def exits(self) -> list[ExitStatus]:
        return [message.status for message in self.posted if isinstance(message, Exited)]


def staged(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Stage:
    spec = LaunchSpec(7, 1, 1, 0, 9, "test", "alice", "true", **fields)
    stage = Stage(spec)
    monkeypatch.setattr(clock, "boottime", lambda: stage.now)
    return stage


def test_a_pull_that_outlasts_the_lease_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)

    def pull() -> None:
        stage.now += STOP_AFTER_S

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: bool(stage.exits))
    assert stage.launched == []
    assert (stage.exits[0].reason, stage.exits[0].started) == (EndReason.AGENT_STOPPED, False)


def test_a_lease_that_ran_out_during_a_pull_and_was_renewed_starts_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = staged(monkeypatch)

    def pull() -> None:
        stage.now += STOP_AFTER_S + 1.0
        stage.session.renew(stage.now - 0.1, stage.now)

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: bool(stage.exits))
    assert stage.launched == []
    assert stage.exits[0].reason is EndReason.AGENT_STOPPED
    # What is claimed from then on starts.
    stage.fetch = lambda: None
    stage.launcher.claim(7, 9)
    stage.run(lambda: bool(stage.launched))


@pytest.mark.parametrize("on_disconnect", OnDisconnect)
def test_a_start_waits_while_the_lease_is_low(monkeypatch: pytest.MonkeyPatch, on_disconnect: OnDisconnect) -> None:
    stage = staged(monkeypatch, on_disconnect=on_disconnect)
    began = stage.now

    def pull() -> None:
        stage.now += STOP_AFTER_S / 2

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: stage.now >= began + STOP_AFTER_S / 2 + 30.0)
    assert (stage.launched, stage.exits) == ([], [])
    renewed_at = stage.now
    stage.session.renew(stage.now, stage.now)
    stage.run(lambda: bool(stage.launched))
    assert renewed_at <= stage.launched[0] <= renewed_at + 1.0
    assert Launched(7) in stage.posted


def test_a_job_that_the_silence_does_not_stop_is_started_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch, on_disconnect=OnDisconnect.KEEP)

    def pull() -> None:
        stage.now += 2 * STOP_AFTER_S

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: stage.now >= 1000.0 + 2 * STOP_AFTER_S + 30.0)
    assert (stage.launched, stage.exits) == ([], [])
    stage.session.renew(stage.now, stage.now)
    stage.run(lambda: bool(stage.launched))
    assert stage.exits == []


@pytest.mark.parametrize("check_gpus", [True, False])
def test_gpus_are_not_looked_at_while_the_lease_is_low(monkeypatch: pytest.MonkeyPatch, check_gpus: bool) -> None:
    stage = staged(monkeypatch, on_disconnect=OnDisconnect.KEEP, gpu_uuids=("GPU-1",), check_gpus=check_gpus)
    began = stage.now

    def pull() -> None:
        stage.now += 2 * STOP_AFTER_S

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: stage.now >= began + 2 * STOP_AFTER_S + 30.0)
    assert (stage.launched, stage.looked_at) == ([], [])
    stage.session.renew(stage.now, stage.now)
    stage.run(lambda: bool(stage.launched))
    assert stage.looked_at == stage.launched


@pytest.mark.parametrize("step", ["prepare", "fetch", "launch", "launch with a low lease"])
def test_a_start_that_breaks_ends_its_own_allocation_only(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    stage = staged(monkeypatch, on_disconnect=OnDisconnect.KEEP)

    def breaks(*_: object) -> str:
        raise TypeError("unforeseen")

    def pull() -> None:
        stage.now += STOP_AFTER_S / 2

    if step == "launch with a low lease":
        stage.fetch = pull
    stage.launch = breaks if step.startswith("launch") else stage.launch
    stage.prepare = breaks if step == "prepare" else stage.prepare
    stage.fetch = breaks if step == "fetch" else stage.fetch
    stage.launcher.claim(7, 9)
    if step == "launch with a low lease":
        stage.run(lambda: stage.now >= 1000.0 + STOP_AFTER_S / 2 + 1.0)
        stage.session.renew(stage.now, stage.now)
    stage.run(lambda: bool(stage.exits))
    assert (stage.exits[0].reason, stage.exits[0].started) == (EndReason.LAUNCH_FAILED, False)
    assert stage.exits[0].detail == "the agent could not start it: TypeError('unforeseen')"


def test_a_pull_is_given_up_when_the_agent_ends_and_what_it_was_for_was_never_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = staged(monkeypatch)

    def pull() -> None:
        assert stage.wanted()
        stage.ending = True
        if not stage.wanted():
            raise LaunchError(EndReason.LAUNCH_FAILED, "the pull was given up")

    stage.fetch = pull
    stage.launcher.claim(7, 9)
    stage.run(lambda: bool(stage.exits))
    assert (stage.exits[0].reason, stage.exits[0].detail) == (
        EndReason.NEVER_STARTED,
        "the agent ended before it started",
    )


def test_a_start_that_is_not_wanted_any_more_leaves_the_queue_for_its_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)
    slots = stage.launcher._pull_slots
    for other in (1, 2):
        slots.ask(REGISTRY, other)
    stage.launcher.claim(7, 9)
    began = stage.now
    stage.run(lambda: stage.now > began + 1.0)
    slots.ask(REGISTRY, 8)
    slots.end(REGISTRY, 1)
    assert not slots.has(REGISTRY, 8)
    stage.launcher.abandon(7)
    stage.run(lambda: bool(stage.exits))
    assert slots.has(REGISTRY, 8)


def test_what_cannot_be_ended_is_tried_again_and_operators_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)
    began = stage.now

    def hang() -> None:
        if stage.now < began + 300.0:
            raise NotYet("processes [71] cannot be killed")

    stage.settle = hang
    stage.ends.settle(7, ExitStatus(EndReason.UNKNOWN, detail="its processes are gone"))
    stage.run(lambda: stage.now >= began + 15.0)
    assert (stage.reported, stage.posted) == ([], [])
    stage.run(lambda: bool(stage.reported))
    assert stage.now == pytest.approx(began + 60.0)
    stage.run(lambda: bool(stage.exits))
    (event,) = stage.reported
    detail = "allocation 7 keeps its GPUs, as the agent cannot end it: processes [71] cannot be killed"
    assert (event.kind, event.gpu_uuid, event.detail) == ("other", None, detail)
    assert stage.exits[0].reason is EndReason.UNKNOWN


def test_what_hangs_for_hours_is_looked_at_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = staged(monkeypatch)
    began = stage.now
    tries: list[float] = []

    def hang() -> None:
        tries.append(stage.now)
        if stage.now < began + 7200.0:
            raise NotYet("processes [71] cannot be killed")

    stage.settle = hang
    stage.ends.settle(7, ExitStatus(EndReason.UNKNOWN, detail="its processes are gone"))
    stage.run(lambda: bool(stage.exits))
    waits = [after - before for before, after in itertools.pairwise(tries)]
    assert waits[0] <= 0.2
    assert max(waits) <= 60.0
    assert min(waits[-100:]) >= 30.0


def test_a_sweep_of_what_cannot_be_killed_takes_few_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [1000.0], [0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def marked(*_: object) -> frozenset[int]:
        looks[0] += 1
        return frozenset({71})

    monkeypatch.setattr(process_runtime, "clock", SimpleNamespace(boottime=lambda: now[0]))
    monkeypatch.setattr(process_runtime, "time", SimpleNamespace(sleep=sleep))
    tree = SimpleNamespace(all_processes=dict, marked=marked, signal_all=lambda *_: None)
    monkeypatch.setattr(process_runtime, "tree", tree)
    with pytest.raises(NotYet, match=r"processes \[71\] cannot be killed"):
        ProcessRuntime._sweep(cast(Any, None), AllocationFolder(str(tmp_path)))
    assert looks[0] <= 12
