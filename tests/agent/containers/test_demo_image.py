"""The image of the demonstration, which is made of this machine's programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from muster.local.demo.image import IMAGE, NoContainers, prepare_image
from muster_client.local.spec import read_spec
from tests import engines
from tests.agent.conftest import DOCKER_BY_AUTO, KeptForker, runtime_under_test, stop_everything

EXAMPLE = Path(__file__).parents[3] / "examples" / "container"


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_example_runs_in_it(
    engine: str, tmp_path: Path, forkers: Callable[[str], KeptForker], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = DOCKER_BY_AUTO if engine == "docker" else engine
    made = runtime_under_test(kind, tmp_path / "state", forkers)
    if engine == "docker":
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engines.docker_socket()}")
    else:
        for name, value in engines.podman_environment().items():
            monkeypatch.setenv(name, value)
    spec = read_spec(EXAMPLE / "job.yaml")
    assert spec["image"] == IMAGE
    for _ in range(2):  # the second one finds it
        prepare_image(engine)
    files = {"show.sh": (EXAMPLE / "show.sh").read_bytes()}
    number = made.start(str(spec["command"]), files=files, image=IMAGE, gpu_uuids=("GPU-1",))
    assert made.exit(number).exit_code == 0
    said = made.output(number).decode()
    assert "runs in the image of the Muster demonstration, as user" in said
    assert "GPUs that I may use: GPU-1\nmy files: show.sh\n" in said
    stop_everything(made.runtime)


def test_an_engine_that_starts_nothing_is_named_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(NoContainers, match=r"^docker answers, but runs no container: "):
        prepare_image("docker")
