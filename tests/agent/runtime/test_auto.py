"""The runtime `auto`, where jobs in containers and jobs as processes are on one node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodeagent.protocol.messages import EndReason, LaunchSpec, VolumeMount
from nodeagent.runtime.auto import AutoRuntime
from nodeagent.runtime.container.engine import NO_ENGINE, About
from nodeagent.runtime.container.runtime import ContainerRuntime
from nodeagent.runtime.port import LABELS, LaunchError, Phase, RuntimeUnavailable
from nodeagent.runtime.process.runtime import ProcessRuntime
from tests import engines
from tests.agent.conftest import DOCKER_BY_AUTO, KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything

WAITS = "echo ready; while :; do sleep 0.05; done"


@pytest.fixture
def both(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[RuntimeUnderTest]:
    """A runtime whose engine answers while its socket is at the path `docker.sock`."""
    socket = tmp_path / "docker.sock"
    socket.symlink_to(engines.docker_socket())
    made = runtime_under_test(DOCKER_BY_AUTO, tmp_path / "state", forkers, socket=str(socket))
    yield made
    if not socket.is_symlink():
        socket.symlink_to(engines.docker_socket())
        made.restart()
    stop_everything(made.runtime)
    assert cast(AutoRuntime, made.runtime).containers() == ()


def test_each_job_runs_where_it_asks_to_and_stays_there_over_a_restart(both: RuntimeUnderTest) -> None:
    contained = both.start(f"cat /proc/1/comm; {WAITS}")
    plain = both.start(f"cat /proc/1/comm; {WAITS}", image="")
    for number in (contained, plain):
        both.printed(number, b"ready")
    assert both.runtime.offers() == ("process", "docker")
    assert both.runtime.labels()["isolation"] == "advisory"  # a process can open the GPUs of a container
    both.restart()
    assert set(both.runtime.usage()) == {contained, plain}
    assert both.work(contained) == "/workspace"
    assert [both.runtime.usage()[number].page_cache_mib is None for number in (contained, plain)] == [False, True]
    for number in (contained, plain):
        assert both.runtime.observe(number).phase is Phase.RUNNING
        both.runtime.adopt(number)
        both.runtime.stop(number, "KILL", 0.0)
        assert both.exit(number).signal == 9
        both.runtime.remove(number)
    both.runtime.clear()
    assert both.runtime.allocations() == ()


def test_a_job_in_a_container_is_answered_for_while_its_engine_is_down(both: RuntimeUnderTest, tmp_path: Path) -> None:
    contained, plain = both.start(WAITS), both.start(WAITS, image="")
    for number in (contained, plain):
        both.printed(number, b"ready")
    (tmp_path / "docker.sock").unlink()
    both.restart()
    assert both.runtime.offers() == ("process",)
    assert "docker" in both.runtime.labels()["containers"]
    with pytest.raises(LaunchError, match="image: this node offers no containers") as caught:
        both.start("true")
    assert caught.value.reason is EndReason.LAUNCH_FAILED  # so it is tried on another node
    assert set(both.runtime.usage()) == {contained, plain}
    assert both.runtime.change() == ""
    (tmp_path / "docker.sock").symlink_to(engines.docker_socket())
    assert both.runtime.change() == "docker answers now"
    both.restart()
    assert both.runtime.offers() == ("process", "docker")
    for number in (contained, plain):
        assert both.runtime.observe(number).phase is Phase.RUNNING


@pytest.fixture
def process(tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[ProcessRuntime]:
    made = runtime_under_test("process", tmp_path / "state", forkers).runtime
    assert isinstance(made, ProcessRuntime)
    yield made
    made.close()


def offering(process: ProcessRuntime, answers: dict[str, About | None]) -> AutoRuntime:
    """The runtime on a machine whose engines are these; None for one that does not answer."""

    def ask(name: str) -> About:
        about = answers.get(name)
        if about is None:
            raise RuntimeUnavailable(f"{name} is not installed")
        return about

    def open_engine(name: str, *, waits: bool) -> ContainerRuntime:
        about = ask(name)
        runtime = SimpleNamespace(name=name, about=about, ask_engine=lambda: ask(name), close=lambda: None)
        return cast(ContainerRuntime, runtime)

    return AutoRuntime(process, open_engine)


def test_docker_comes_before_podman(process: ProcessRuntime) -> None:
    podman, docker = About("4.3.1", knows_cdi=True), About("20.10", knows_cdi=False)
    assert offering(process, {"docker": docker, "podman": podman}).offers() == ("process", "docker")
    assert offering(process, {"docker": None, "podman": podman}).offers() == ("process", "podman")
    none = offering(process, {})
    assert none.offers() == ("process",)
    assert none.labels()["containers"] == "docker is not installed; podman is not installed"
    assert set(none.labels()) <= set(LABELS)


def test_an_engine_that_comes_changes_or_is_silent_twice_is_a_change(process: ProcessRuntime) -> None:
    answers: dict[str, About | None] = {"docker": None}
    runtime = offering(process, answers)
    assert runtime.change() == ""
    answers["podman"] = NO_ENGINE
    assert runtime.change() == "podman answers now"
    runtime = offering(process, answers)
    answers["docker"] = NO_ENGINE
    assert runtime.change() == ""  # a node has one engine
    answers["podman"] = replace(NO_ENGINE, version="5.0")
    assert runtime.change() == "podman has changed"
    answers["podman"] = None
    looks = [runtime.change() for _ in range(2)]
    assert looks == ["", "podman is not installed"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"image": "busybox"}, "image"),
        ({"mounts": (VolumeMount("data", "/data", "/srv/data"),)}, "mounts"),
        ({"shm_mib": 64}, "shm"),
    ],
)
def test_a_job_that_needs_a_container_names_the_field_where_there_is_no_engine(
    process: ProcessRuntime, fields: dict[str, object], field: str
) -> None:
    spec = replace(SPEC, **fields)
    with pytest.raises(LaunchError, match=f"^{field}: this node offers no containers: docker is not installed"):
        offering(process, {}).prepare(spec)


SPEC = LaunchSpec(
    allocation_id=1,
    job_id=1,
    attempt=1,
    rank=0,
    fence=1,
    name="test",
    owner="alice",
    command="true",
    uid=4321 if os.geteuid() == 0 else None,
)
