"""The whole agent with a container engine, against a platform that checks every message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.choose import RuntimeOptions, open_runtime
from tests import engines
from tests.agent.conftest import AgentProcess, stop_everything
from tests.agent.fake_platform import Allocation, FakePlatform
from tests.agent.registry import busybox_layer, running_registry
from tests.waiting import eventually


@pytest.fixture(params=["docker", "podman"])
def agent(
    request: pytest.FixtureRequest, platform: FakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AgentProcess]:
    """An agent with this runtime that is not started yet. What its jobs leave is stopped in the end."""
    made = AgentProcess(platform, tmp_path / "state")
    options = RuntimeOptions(name=str(request.param))
    made.options += ["--runtime", options.name, "--network", "none", "--gang-network", "none"]
    if options.name == "docker":
        options = RuntimeOptions(name="docker", docker_socket=engines.docker_socket())
        made.options += ["--docker-socket", options.docker_socket]
    else:
        environment = engines.podman_environment()
        made.environment |= environment
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()
    identity = (made.state / "identity").read_text()
    runtime = open_runtime(
        options, state=str(made.state), identity=identity, emulated_gpus=True, listener=lambda _id, _kind: None
    )
    stop_everything(runtime)


def finished(platform: FakePlatform, allocation_id: int) -> Allocation:
    allocation = platform.allocations[allocation_id]
    eventually(lambda: allocation.end and allocation.finish, f"the end of {allocation_id}", 30.0)
    return allocation


def test_it_tells_which_runtime_it_has(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    assert platform.registered is not None
    inventory = platform.registered.inventory
    (runtime,) = inventory.runtimes
    assert runtime in agent.options
    assert inventory.labels["isolation"] == "enforced"
    assert inventory.labels["limits"] == "enforced"
    assert inventory.labels[runtime][0].isdigit()


def test_a_killed_agent_adopts_the_container_and_its_log_is_exact(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    command = "for i in $(seq 1 200); do echo line $i; sleep 0.005; done; head -c 300000 /dev/zero; exit 3"
    number = platform.place(command, image=engines.IMAGE)
    allocation = platform.allocations[number]
    eventually(lambda: "line 20\n" in allocation.text, "the log", 20.0)
    agent.kill()
    agent.start()
    finished(platform, number)
    expected = "".join(f"line {i}\n" for i in range(1, 201)).encode() + b"\0" * 300_000
    assert bytes(allocation.log) == expected
    assert allocation.finish is not None
    assert (allocation.finish.holes, bool(allocation.finish.sha256)) == ((), True)
    assert allocation.end is not None
    assert (allocation.end.exit_code, allocation.ends) == (3, 1)


def test_what_nobody_wants_any_more_is_stopped_after_a_restart(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    number = platform.place("echo ready; sleep 1000", image=engines.IMAGE)
    allocation = platform.allocations[number]
    eventually(lambda: "ready" in allocation.text, "the log", 20.0)
    agent.kill()
    platform.forget(number)
    agent.start()
    # Its exit status is there for a moment only: the platform does not want it.
    eventually(lambda: not agent.allocation_folder(number).exists(), "the removal of the unwanted folder", 30.0)


def test_a_pull_is_told_step_by_step_and_its_failure_by_its_kind(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    with running_registry() as registry:
        image = registry.add("team/tool", busybox_layer())
        good = finished(platform, platform.place("echo run", image=image))
        bad = finished(platform, platform.place("echo never", image=f"{registry.address}/team/none:latest"))
    assert good.text == "run\n"
    assert bad.end is not None
    assert (bad.end.reason, bad.end.started) == (EndReason.IMAGE_NOT_FOUND, False)
    assert bad.end.detail.startswith(f"image {registry.address}/team/none:latest: ")

    def told() -> list[str]:
        return [note.text for sync in platform.syncs for note in sync.notes]

    eventually(lambda: any(text.startswith(f"pulled {image} in ") for text in told()), "the notes")
    assert told().count(f"pulling {image}") == 1


def test_a_job_without_an_image_is_refused_by_the_fields_name(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    end = finished(platform, platform.place("echo never")).end
    assert end is not None
    assert (end.reason, end.started) == (EndReason.SPEC_REFUSED, False)
    assert end.detail == "image: this node runs jobs in containers, and the job names none"


def wait_for_pulls(platform: FakePlatform, numbers: list[int]) -> None:
    """Return when all of these are being started, and some of them pull."""
    eventually(lambda: all("starting" in platform.allocations[number].observed for number in numbers), "starts", 20.0)
    eventually(lambda: sum(len(sync.notes) for sync in platform.syncs) >= 2, "two pulls", 20.0)


def test_a_registry_that_says_nothing_leaves_room_for_others(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    with running_registry() as silent, running_registry(host="127.0.0.2") as other:
        silent.silent = "at once"
        image = other.add("team/tool", busybox_layer())
        stuck = [
            platform.place("echo never", image=f"{silent.address}/team/x{number}:latest", owner=f"owner{number}")
            for number in range(5)
        ]
        wait_for_pulls(platform, stuck)
        good = finished(platform, platform.place("echo run", image=image))
        assert good.text == "run\n"
        # Those who wait for a turn, and those who wait for the registry.
        for number in stuck:
            platform.stop(number)
        ends = [finished(platform, number).end for number in stuck]
    assert [(end.reason, end.started) for end in ends if end] == [(EndReason.NEVER_STARTED, False)] * len(stuck)


def test_a_member_whose_pulls_hang_leaves_room_for_others(platform: FakePlatform, agent: AgentProcess) -> None:
    agent.start()
    with running_registry() as one, running_registry(host="127.0.0.3") as two, running_registry(host="127.0.0.2") as ok:
        one.silent = two.silent = "at once"
        image = ok.add("team/tool", busybox_layer())
        stuck = [
            platform.place("echo never", image=f"{silent.address}/team/x{number}:latest", owner="mallory")
            for number in range(3)
            for silent in (one, two)
        ]
        wait_for_pulls(platform, stuck)
        assert finished(platform, platform.place("echo run", image=image)).text == "run\n"
        for number in stuck:
            platform.stop(number)
        for number in stuck:
            finished(platform, number)
