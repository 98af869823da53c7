"""The look at GPUs before a start, and that what they suffered is told before the end that it explains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.gpu.emulated import EmulatedGpus
from nodeagent.launch.launcher import Launcher
from nodeagent.protocol.messages import (
    CheckOutcome,
    CheckResult,
    EndReason,
    ItemOutcome,
    LaunchSpec,
    RegisterResponse,
    Timers,
    WantedCheck,
)
from nodeagent.sync.agent import Agent
from nodeagent.sync.outbox import Entry
from nodeagent.sync.session import Session
from nodeagent.system import clock
from nodeagent.watch.checks import QUIET_S, Checks
from nodeagent.watch.sampler import Sampler
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.agent.with_timers import TIMERS
from tests.waiting import eventually

WAIT_S = TIMERS["nodeagent.watch.sampler"]["DRIVER_WAIT_S"]


def uuids(platform: FakePlatform) -> tuple[str, ...]:
    assert platform.registered is not None
    return tuple(gpu.uuid for gpu in platform.registered.inventory.gpus)


def faults_of(agent: AgentProcess) -> Path:
    """The file of the agent's emulated faults, which its jobs may write to as well."""
    path = agent.state / "emulated-faults"
    path.touch()
    path.chmod(0o666)
    return path


def inject(agent: AgentProcess, **fault: Any) -> None:
    with faults_of(agent).open("a") as file:
        file.write(json.dumps(fault) + "\n")


def told(platform: FakePlatform) -> list[tuple[str, str | None]]:
    return [(event.kind, event.gpu_uuid) for sync in platform.syncs for event in sync.health]


def test_nothing_starts_on_a_gpu_with_memory_left_behind(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first, second, _ = uuids(platform)
    inject(agent, gpu=0, kind="memory_left", mib=9216)
    number = platform.place("echo ran", gpu_uuids=(first, second), check_gpus=True)
    end = eventually(lambda: platform.allocations[number].end, "an end")
    assert (end.reason, end.started) == (EndReason.GPU_CHECK_FAILED, False)
    assert end.detail == f"GPU {first}: 9216 MiB are in use and no process is there"
    assert ("check_failed", first) in told(platform)  # before the end
    assert ("check_failed", second) not in told(platform)
    assert platform.allocations[number].text == ""


def test_memory_that_goes_away_in_a_moment_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "faults"
    driver = EmulatedGpus(("A100",), "here", str(path))
    (gpu,) = driver.inventory()
    path.write_text('{"gpu": 0, "kind": "memory_left", "mib": 9216}\n')
    spec = LaunchSpec(5, 1, 1, 0, 7, "test", "alice", "true", grace_s=1.0, gpu_uuids=(gpu.uuid,), check_gpus=True)
    happened: list[object] = []

    def goes_away(_: float) -> bool:
        happened.append("a look in vain")
        with path.open("a") as file:
            file.write('{"gpu": 0, "kind": "memory_left", "mib": 0}\n')
        return False

    def granted(entry: Entry) -> None:
        entry[1](ItemOutcome(200, launch=spec))

    def nothing(*_: object) -> None:
        """Ignore the call."""

    runtime = SimpleNamespace(prepare=nothing, lacks=nothing, launch=lambda one: happened.append(one.allocation_id))
    tasks = Tasks()
    agent = Agent(
        client=cast(Any, None),
        session=Session("boot", "state", RegisterResponse(1, 5, "node-5", "cluster", 7, Timers()), clock.boottime()),
        journal=cast(Any, SimpleNamespace(intend=nothing)),
        runtime=cast(Any, runtime),
        sampler=Sampler(driver, cast(Any, runtime)),
        post=nothing,
        stopping=cast(Any, SimpleNamespace(wait=goes_away)),
        asked=cast(Any, None),
    )
    launcher = Launcher(
        agent,
        outbox=cast(Any, SimpleNamespace(put=granted)),
        ends=cast(Any, None),
        launches=cast(Any, tasks),
        fetches=cast(Any, tasks),
        make_way=nothing,
    )
    launcher.claim(spec.allocation_id, spec.fence)
    tasks.run()  # the claim
    tasks.run()  # the start
    assert happened == ["a look in vain", spec.allocation_id]
    assert tasks.waiting == []  # no end is to be told


def test_a_platform_of_before_is_asked_nothing_of_gpus(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    inject(agent, gpu=0, kind="memory_left", mib=9216)
    number = platform.place("echo ran", gpu_uuids=uuids(platform)[:1])
    end = eventually(lambda: platform.allocations[number].end, "an end")
    assert end.reason is EndReason.COMPLETED


def test_what_a_gpu_suffered_is_told_before_the_end_of_its_job(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first = uuids(platform)[0]
    fault = json.dumps({"gpu": 0, "kind": "xid", "xid": 79, "detail": "Xid 79"})
    faults = faults_of(agent)
    told_at_end: list[int] = []
    number = platform.place(f"echo '{fault}' >> {faults}; exit 1", gpu_uuids=(first,))
    allocation = platform.allocations[number]

    def look() -> bool:
        with platform.lock:
            if allocation.end is not None and not told_at_end:
                told_at_end.append(told(platform).count(("xid", first)))
        return bool(told_at_end)

    eventually(look, "the end")
    assert told_at_end == [1]


LEFT = ({"kind": "process_left", "pid": 71}, {"kind": "list_fails"}, {"kind": "list_hangs"})


def ended_with(
    platform: FakePlatform, agent: AgentProcess, *faults: dict[str, Any], **fields: Any
) -> tuple[int, list[int]]:
    """A job that leaves these faults on the first GPU and ends well: its id, and what was told by the end of it."""
    told_at_end: list[int] = []
    first = uuids(platform)[0]
    lines = "".join(json.dumps({"gpu": 0, **fault}) + "\\n" for fault in faults)
    number = platform.place(f"printf '{lines}' >> {faults_of(agent)}", gpu_uuids=(first,), **fields)

    def look() -> bool:
        with platform.lock:
            if platform.allocations[number].end is not None and not told_at_end:
                told_at_end.append(told(platform).count(("check_failed", first)))
        return bool(told_at_end)

    eventually(look, "the end", 40)
    return number, told_at_end


@pytest.mark.parametrize("fault", LEFT, ids=lambda fault: str(fault["kind"]))
def test_a_gpu_that_is_not_seen_empty_is_out_of_service_before_the_end_is_told(
    fault: dict[str, Any], platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    number, told_at_end = ended_with(platform, agent, fault)
    assert told_at_end == [1]
    end = platform.allocations[number].end
    assert end is not None
    assert end.reason is EndReason.COMPLETED
    (detail,) = {event.detail for sync in platform.syncs for event in sync.health}
    why = {"process_left": "process 71 is on it", "list_fails": "it does not answer"}
    assert detail == "after a job had ended: " + why.get(
        fault["kind"], f"the driver has not answered within {WAIT_S:.0f} s"
    )
    # It stays so for a check, until the GPU is seen to be empty.
    want(platform, (1, uuids(platform)[0]))
    (failed,) = eventually(lambda: checked(platform), "the check", 20)
    assert failed.outcome is CheckOutcome.FAILED
    inject(agent, gpu=0, **{**fault, "pid": 0, "over": True})
    want(platform, (2, uuids(platform)[0]))
    passed = eventually(lambda: checked(platform)[1:], "the next check", 30)[0]
    assert passed.outcome is CheckOutcome.PASSED


def test_an_end_waits_until_the_platform_has_it_that_a_gpu_is_out_of_service(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    first = uuids(platform)[0]
    faults = faults_of(agent)
    left = json.dumps({"gpu": 0, "kind": "process_left", "pid": 71})
    number = platform.place(f"echo '{left}' >> {faults}; echo done", gpu_uuids=(first,))
    eventually(lambda: "done" in platform.allocations[number].text, "it is over")
    platform.fault("POST /agent/v1/sync", 503, times=1000)  # and ends would arrive
    waits = "its end waits until its GPUs are told of"
    eventually(lambda: waits in agent.output.read_text(), "the end waits", 30)
    assert platform.allocations[number].end is None
    with platform.lock:
        platform.faults.clear()
    eventually(lambda: platform.allocations[number].end, "the end", 20)
    assert ("check_failed", first) in told(platform)


def test_a_process_that_leaves_in_time_costs_nobody_a_gpu(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first = uuids(platform)[0]
    faults = faults_of(agent)
    left = json.dumps({"gpu": 0, "kind": "process_left", "pid": 71})
    number = platform.place(f"echo '{left}' >> {faults}; echo done", gpu_uuids=(first,))
    eventually((agent.allocation_folder(number) / "exit").exists, "it is over")
    assert platform.allocations[number].end is None
    inject(agent, gpu=0, kind="process_left", pid=0)
    eventually(lambda: platform.allocations[number].end, "the end")
    assert told(platform) == []


def test_who_was_on_a_gpu_before_a_job_is_not_left_of_it(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    inject(agent, gpu=0, kind="process_left", pid=71)
    number = platform.place("echo ran", gpu_uuids=uuids(platform)[:1])  # its pool has agents look at no GPU before
    end = eventually(lambda: platform.allocations[number].end, "the end")
    assert end.reason is EndReason.COMPLETED
    assert told(platform) == []


@pytest.mark.parametrize("is_over", [False, True], ids=["it runs", "it is over"])
def test_who_was_there_before_a_job_is_not_left_of_it_after_a_new_start_either(
    is_over: bool, platform: FakePlatform, agent: AgentProcess, tmp_path: Path
) -> None:
    agent.start()
    inject(agent, gpu=0, kind="process_left", pid=71)
    go_on = tmp_path / "go-on"
    command = f"echo started; until [ -e {go_on} ]; do sleep 0.02; done"
    number = platform.place(command, gpu_uuids=uuids(platform)[:1])
    eventually(lambda: "started" in platform.allocations[number].text, "it runs")
    agent.kill()
    if is_over:
        go_on.touch()
        eventually((agent.allocation_folder(number) / "exit").exists, "it is over")
    agent.start()
    go_on.touch()
    end = eventually(lambda: platform.allocations[number].end, "the end", 30)
    assert end.reason is EndReason.COMPLETED
    assert told(platform) == []


def checked(platform: FakePlatform) -> list[CheckResult]:
    return [result for sync in platform.syncs for result in sync.checks]


def want(platform: FakePlatform, *wanted: tuple[int, str]) -> None:
    platform.checks = tuple(WantedCheck(number, uuid) for number, uuid in wanted)


def test_gpus_are_checked_once_as_they_are_wanted(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first, second, _ = uuids(platform)
    inject(agent, gpu=1, kind="work_wrong")
    want(platform, (1, first), (4, second))
    eventually(lambda: len(checked(platform)) == 2, "both results")
    beats = len(platform.beats)
    eventually(lambda: len(platform.beats) > beats + 2, "beats that ask for the same")
    one, other = checked(platform)
    assert (one.number, one.gpu_uuid, one.outcome, one.how) == (1, first, CheckOutcome.PASSED, "emulated")
    assert (one.tflops, one.gb_s, one.detail) == (14.1, 1593.0, "")
    assert (other.number, other.outcome, other.detail) == (4, CheckOutcome.FAILED, "the self-test gave a wrong result")
    want(platform, (2, first), (4, second))
    eventually(lambda: len(checked(platform)) == 3, "the next check")
    assert (checked(platform)[2].number, checked(platform)[2].gpu_uuid) == (2, first)


def test_a_result_is_told_until_the_platform_has_it(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first = uuids(platform)[0]
    platform.fault("POST /agent/v1/sync", "cut", times=4)
    want(platform, (1, first))
    eventually(lambda: checked(platform), "the result")


def test_a_check_is_stopped_when_a_job_comes_and_delays_it_by_nothing(
    platform: FakePlatform, agent: AgentProcess
) -> None:
    agent.start()
    first, second, _ = uuids(platform)
    inject(agent, gpu=0, kind="work_hangs")
    # One is checked at a time: when the result of the other has come, this one is in the hands of the thread.
    want(platform, (1, second), (1, first))
    eventually(lambda: checked(platform), "the result of the other GPU")
    beats = len(platform.beats)
    eventually(lambda: len(platform.beats) > beats + 1, "beats after it")
    number = platform.place("echo ran", gpu_uuids=(first,), check_gpus=True)
    end = eventually(lambda: platform.allocations[number].end, "the end of the job", 20)
    assert end.reason is EndReason.COMPLETED
    _, result = eventually(lambda: len(checked(platform)) > 1 and checked(platform), "its result", 30)
    assert result.gpu_uuid == first
    assert (result.outcome, result.detail) == (CheckOutcome.STOPPED, "a job came first")


class Tasks:
    """A pool whose tasks are run by the test."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def submit(self, task: Callable[[], None], delay_s: float = 0.0) -> None:
        self.waiting.append((delay_s, task))

    def run(self) -> float:
        """Run the next one, and return how long it was to wait."""
        delay_s, task = self.waiting.pop(0)
        task()
        return delay_s


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> tuple[Checks, Sampler, Tasks, list[float]]:
    """Checks of two idle GPUs, and a list with the time as its only item."""
    now = [1000.0]
    monkeypatch.setattr("nodeagent.watch.checks.time.monotonic", lambda: now[0])
    driver, tasks, runtime = EmulatedGpus(("A100", "A100"), "here"), Tasks(), SimpleNamespace(usage=dict)
    sampler = Sampler(driver, cast(Any, runtime))
    checks = Checks(
        sampler=sampler,
        self_test=lambda uuid, stopper: driver.self_test(uuid, stopper.wait),
        pool=cast(Any, tasks),
        report_soon=lambda: None,
    )
    return checks, sampler, tasks, now


def test_a_gpu_that_a_job_has_is_not_checked(idle: tuple[Checks, Sampler, Tasks, list[float]]) -> None:
    checks, sampler, tasks, _ = idle
    first, second = (gpu.uuid for gpu in EmulatedGpus(("A100", "A100"), "here").inventory())
    sampler.assign(7, (first,))
    checks.want((WantedCheck(1, first), WantedCheck(1, second)))
    assert [tasks.run(), tasks.run()] == [0.0, 0.0]
    assert [(one.outcome, one.detail) for one in sampler.take({}).checks] == [
        (CheckOutcome.STOPPED, "a job has it"),
        (CheckOutcome.PASSED, ""),
    ]


def test_nothing_is_begun_while_nobody_knows_which_gpu_a_claim_is_for(
    idle: tuple[Checks, Sampler, Tasks, list[float]],
) -> None:
    checks, sampler, tasks, now = idle
    first = EmulatedGpus(("A100",), "here").inventory()[0].uuid
    checks.make_way()
    checks.want((WantedCheck(1, first),))
    tasks.run()
    now[0] += QUIET_S
    assert sampler.take({}).checks == ()
    assert tasks.run() == QUIET_S
    now[0] += 5.0
    (result,) = sampler.take({}).checks or sampler.take({}).checks
    assert result.outcome is CheckOutcome.PASSED
