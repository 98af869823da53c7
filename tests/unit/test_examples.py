"""The example jobs, run as a node would run them, without the platform."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from muster_client.spec import read_spec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/job.yaml"))


def run(folder: str, **env: str) -> subprocess.Popen[str]:
    """The example's own command, with this Python as `python3`."""
    command = str(read_spec(EXAMPLES / folder / "job.yaml")["command"])
    words = [sys.executable if word == "python3" else word for word in command.split()]
    pipe = subprocess.PIPE
    clean = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.Popen(words, cwd=EXAMPLES / folder, env=clean, stdout=pipe, stderr=pipe, text=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_spec_names_the_job_after_its_folder_and_sends_that_folder(folder: str) -> None:
    spec = read_spec(EXAMPLES / folder / "job.yaml")
    assert (spec["name"], spec["code"]) == (folder, ".")
    assert {"gpus", "command", "time"} <= set(spec)


def test_the_page_of_the_examples_lists_all_of_them() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == FOLDERS


def test_hello_tells_its_gpus_and_gets_near_pi() -> None:
    with run("hello", CUDA_VISIBLE_DEVICES="GPU-1") as job:
        out, err = job.communicate()
    assert (job.returncode, err) == (0, "")
    assert "GPUs that I may use: GPU-1" in out
    assert re.search(r"\[100%\].* pi = 3\.14", out)


def test_failing_shows_a_traceback_after_some_progress() -> None:
    with run("failing") as job:
        out, err = job.communicate()
    assert job.returncode == 1
    assert "batch 24" in out
    assert err.rstrip().endswith("IndexError: list index out of range")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_gang_of_any_size_agrees_on_the_weights(size: int) -> None:
    port = str(free_port())
    world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [run("gang", RANK=str(rank), **world) for rank in range(size)]
    for rank, job in enumerate(ranks):
        with job:
            out, err = job.communicate()
        assert (job.returncode, err) == (0, "")
        assert f"rank {rank}: largest error of a weight 0.00" in out
        assert "ranks agree: yes" in out
