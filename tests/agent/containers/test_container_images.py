"""Images of containers: how they are pulled, what stops a pull, and what they say that counts for nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container import pulling
from nodeagent.runtime.container.options import Options
from nodeagent.runtime.port import LaunchError
from tests.agent.conftest import KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything
from tests.agent.registry import Registry, busybox_layer, layer_of, running_registry


@pytest.fixture(params=["docker", "podman"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def under_test(kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker]) -> Iterator[RuntimeUnderTest]:
    made = runtime_under_test(kind, tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with running_registry() as made:
        yield made


def fetch(under_test: RuntimeUnderTest, image: str) -> list[str]:
    """Have the image pulled; what was told meanwhile."""
    told: list[str] = []
    spec = under_test.spec("echo pulled", image=image)
    assert under_test.runtime.lacks(spec)
    under_test.runtime.fetch(spec, None, told.append, lambda: True)
    return told


def test_an_image_is_pulled_and_how_far_it_is_is_told(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = registry.add(f"team/{under_test.name}", busybox_layer(), layer_of("data", os.urandom(200_000)))
    told = fetch(under_test, image)
    assert told[0] == f"pulling {image}"
    assert told[-1].startswith(f"pulled {image} in ")
    assert under_test.run("echo run", image=image)[1] == b"run\n"
    assert not under_test.runtime.lacks(under_test.spec("true", image=image))


def test_a_failed_pull_says_what_kind_of_failure_it_is(under_test: RuntimeUnderTest, registry: Registry) -> None:
    def reason(image: str) -> EndReason:
        with pytest.raises(LaunchError, match=r"^image ") as caught:
            fetch(under_test, image)
        return caught.value.reason

    registry.denied.add("secret/one")
    assert reason(f"{registry.address}/no/such:latest") is EndReason.IMAGE_NOT_FOUND
    assert reason(f"{registry.address}/secret/one:latest") is EndReason.IMAGE_DENIED
    assert reason("127.0.0.1:1/no/server:latest") is EndReason.IMAGE_UNREACHABLE


@pytest.mark.parametrize(("uuids", "visible", "cuda"), [((), "void", ""), (("GPU-1", "GPU-2"), "GPU-1,GPU-2", None)])
def test_what_an_image_says_of_gpus_is_overwritten(
    under_test: RuntimeUnderTest, registry: Registry, uuids: tuple[str, ...], visible: str, cuda: str | None
) -> None:
    closed = ("GDS", "GDRCOPY", "MOFED", "NVSWITCH", "IMEX_CHANNELS", "MIG_CONFIG_DEVICES", "MIG_MONITOR_DEVICES")
    said = ["NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=0", *(f"NVIDIA_{name}=enabled" for name in closed)]
    kept = ["NVIDIA_DRIVER_CAPABILITIES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4", "LR=0.1"]
    name = f"says/{under_test.name}x{len(uuids)}"
    image = registry.add(name, busybox_layer(), config={"Env": [*said, *kept]})
    fetch(under_test, image)
    _, output = under_test.run("/bin/busybox env", image=image, gpu_uuids=uuids, env={"NVIDIA_MOFED": "enabled"})
    found = dict(line.split("=", 1) for line in output.decode().splitlines() if "=" in line)
    assert found["NVIDIA_VISIBLE_DEVICES"] == visible
    assert found["CUDA_VISIBLE_DEVICES"] == (visible if cuda is None else cuda)
    assert {name: found[f"NVIDIA_{name}"] for name in closed} == dict.fromkeys(closed, "")
    assert [f"{name}={found[name]}" for name in (entry.split("=")[0] for entry in kept)] == kept


def test_a_pull_that_is_no_longer_wanted_ends(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = registry.add(f"late/{under_test.name}", busybox_layer())
    spec = under_test.spec("true", image=image)
    with pytest.raises(LaunchError, match="stopped before it started"):
        under_test.runtime.fetch(spec, None, lambda _: None, lambda: False)


@pytest.fixture(params=["at once", "in the middle"])
def silent_registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    with running_registry() as made:
        made.silent = request.param
        yield made


def test_a_registry_that_says_nothing_more_counts_as_out_of_reach(
    under_test: RuntimeUnderTest, silent_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "STALLED_S", 1.0)
    image = silent_registry.add(f"late/{under_test.name}", busybox_layer(), layer_of("data", os.urandom(200_000)))
    for name in (image, f"{image.rpartition(':')[0]}@{silent_registry.digest(f'late/{under_test.name}')}"):
        with pytest.raises(LaunchError, match="nothing came for") as caught:
            fetch(under_test, name)
        assert caught.value.reason is EndReason.IMAGE_UNREACHABLE
    assert silent_registry.asked


def test_a_pull_is_given_up_while_its_registry_says_nothing(
    under_test: RuntimeUnderTest, silent_registry: Registry
) -> None:
    asked = threading.Event()
    silent_registry.before_answer = asked.set
    image = silent_registry.add(f"late/{under_test.name}", busybox_layer())
    spec = under_test.spec("true", image=image)
    with pytest.raises(LaunchError, match="stopped before it started"):
        under_test.runtime.fetch(spec, None, lambda _: None, lambda: not asked.is_set())


def test_a_pull_is_given_up_for_the_sake_of_the_disk_as_one_that_finds_no_room(
    under_test: RuntimeUnderTest, silent_registry: Registry
) -> None:
    runtime = under_test.runtime
    devices = [os.stat(folder).st_dev for folder in runtime.disks()]
    told: list[bool] = []

    def full() -> None:
        told.extend(runtime.give_up_fetches(device, "the disk is full") for device in (-1, devices[-1]))

    silent_registry.before_answer = full
    image = silent_registry.add(f"full/{under_test.name}", busybox_layer())
    with pytest.raises(LaunchError, match="the disk is full") as caught:
        runtime.fetch(under_test.spec("true", image=image), None, lambda _: None, lambda: True)
    assert caught.value.reason is EndReason.IMAGE_NO_SPACE
    assert told[:2] == [False, True]
    assert not runtime.give_up_fetches(devices[-1], "the disk is full")


def test_a_layer_that_comes_slowly_is_waited_for(
    under_test: RuntimeUnderTest, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Podman says nothing while it copies a layer: what it reads is the sign.
    monkeypatch.setattr(pulling, "STALLED_S", 2.0)
    monkeypatch.setattr(registry, "drip_s", 0.2)
    image = registry.add(f"slow/{under_test.name}", busybox_layer(), layer_of("data", os.urandom(1_000_000)))
    assert fetch(under_test, image)[-1].startswith(f"pulled {image} in ")


@pytest.fixture
def dripping_registry() -> Iterator[Registry]:
    """One that never falls silent and never comes to an end: some bytes ten times a second."""
    with running_registry() as made:
        made.drip_s, made.piece_bytes = 0.1, 10
        yield made


def test_a_registry_that_drips_counts_as_out_of_reach(
    under_test: RuntimeUnderTest, dripping_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulling, "WINDOW_S", 1.0)
    monkeypatch.setattr(pulling, "MIN_BYTES_PER_S", 1e6)
    image = dripping_registry.add(f"drips/{under_test.name}", layer_of("data", os.urandom(3_000)))
    with pytest.raises(LaunchError, match=r"no more than \d+\.\d\d KiB/s came for") as caught:
        fetch(under_test, image)
    assert caught.value.reason is EndReason.IMAGE_UNREACHABLE


def test_an_image_without_a_shell_is_told_so(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = registry.add(f"bare/{under_test.name}", layer_of("data", b"x"))
    fetch(under_test, image)
    status, _ = under_test.run("true", image=image)
    assert (status.reason, status.started) == (EndReason.COMMAND_NOT_FOUND, False)
    assert status.detail == f"image {image} has no /bin/sh, and a command needs a shell"


def test_a_folder_that_an_image_calls_a_volume_is_as_read_only_as_the_image(
    kind: str, tmp_path: Path, forkers: Callable[[str], KeptForker], registry: Registry
) -> None:
    made = runtime_under_test(kind, tmp_path / "state", forkers, Options(network="none", read_only_root=True))
    volumes: dict[str, object] = {path: {} for path in ("/data", "/new/", "/workspace", "/tmp")}
    image = registry.add(
        f"volumes/{made.name}", busybox_layer(), layer_of("data/x", b"content\n"), config={"Volumes": volumes}
    )
    fetch(made, image)
    command = 'for place in /data /new ~ /tmp .; do echo > $place/y && echo "may $place"; done; cat /data/x'
    _, output = made.run(command, image=image)
    assert b"can't create /data/y: Read-only file system" in output
    assert output.endswith(b"No such file or directory\n" if kind == "docker" else b"content\n")
    assert [line for line in output.splitlines() if line.startswith(b"may")] == [
        b"may /muster/home",
        b"may /tmp",
        b"may .",
    ]
    stop_everything(made.runtime)
