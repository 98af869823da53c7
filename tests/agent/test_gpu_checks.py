"""The look at GPUs before a start, and that what they suffered is told before the end that it explains."""

from __future__ import annotations

import json
from typing import Any

from nodeagent.protocol import EndReason
from tests.agent.conftest import AgentProcess
from tests.agent.fake_platform import FakePlatform
from tests.agent.waiting import eventually


def uuids(platform: FakePlatform) -> tuple[str, ...]:
    assert platform.registered is not None
    return tuple(gpu.uuid for gpu in platform.registered.inventory.gpus)


def inject(agent: AgentProcess, **fault: Any) -> None:
    with (agent.state / "emulated-faults").open("a") as file:
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


def test_memory_that_goes_away_in_a_moment_is_waited_for(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    first = uuids(platform)[0]
    inject(agent, gpu=0, kind="memory_left", mib=9216)
    number = platform.place("echo ran", gpu_uuids=(first,), check_gpus=True)
    eventually(agent.allocation_folder(number).exists, "it is about to start")
    inject(agent, gpu=0, kind="memory_left", mib=0)
    end = eventually(lambda: platform.allocations[number].end, "an end")
    assert end.reason is EndReason.COMPLETED


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
    faults = agent.state / "emulated-faults"
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
