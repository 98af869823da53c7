"""The example jobs, run as a node would run them, without the platform."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from muster.jobs.spec.spec import parse_spec
from muster.local.demo.cluster import PROFILES
from muster.sweeps.spec import params_of, parse_sweep
from muster_client.local.spec import read_spec
from nodeagent import jobside
from nodeagent.gpu.choose import open_gpus
from tests.pytorch import python_with_torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/job.yaml"))


def run(folder: str, *, python: str = sys.executable, **env: str) -> subprocess.Popen[str]:
    """The example's own command, with a Python of the test's choice as `python3`."""
    command = str(read_spec(EXAMPLES / folder / "job.yaml")["command"])
    words = [python if word == "python3" else word for word in Template(command).safe_substitute(env).split()]
    pipe = subprocess.PIPE
    clean = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.Popen(words, cwd=EXAMPLES / folder, env=clean, stdout=pipe, stderr=pipe, text=True)


def output(job: subprocess.Popen[str], *, status: int = 0) -> str:
    """The output of a job until its end, which must be this one."""
    with job:
        out, err = job.communicate()
    assert (job.returncode, err) == (status, "")
    return out


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_spec_names_the_job_after_its_folder_and_sends_that_folder(folder: str) -> None:
    spec = read_spec(EXAMPLES / folder / "job.yaml")
    assert (spec["name"], spec["code"]) == (folder, ".")
    assert {"gpus", "command", "time"} <= set(spec)
    if "sweep" in spec:
        sweep = parse_sweep(spec.pop("sweep"))
        spec["params"] = params_of(sweep)[0]
    parse_spec({**spec, "code": {"upload": "0" * 64}})


def test_the_page_of_the_examples_lists_all_of_them() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == FOLDERS


def test_hello_tells_its_gpus_and_gets_near_pi() -> None:
    with run("hello", CUDA_VISIBLE_DEVICES="GPU-1") as job:
        out, err = job.communicate()
    assert (job.returncode, err) == (0, "")
    assert "GPUs that I may use: GPU-1" in out
    assert re.search(r"\[100%\].* pi = 3\.14", out)


def test_two_speeds_takes_the_time_of_its_gpu_type(tmp_path: Path) -> None:
    driver = open_gpus("emulated:A100:1,V100:1", "here", str(tmp_path / "faults"), str(PROFILES))
    rates = []
    for gpu in driver.inventory():
        modules = tmp_path / gpu.model
        jobside.unpack(str(modules))
        driver.furnish([gpu.uuid], str(modules))
        env = {"PYTHONPATH": str(modules), "MUSTER_METRICS": str(modules / "metrics"), "STEPS": "20"}
        rates.append(float(re.findall(r"([0-9.]+) steps/s", output(run("two-speeds", **env)))[-1]))
        assert json.loads((modules / "metrics").read_text().splitlines()[-1])["total"] == 20
    assert rates[0] / rates[1] == pytest.approx(2.5, rel=0.05)


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


def test_a_member_of_the_sweep_reports_its_metric(tmp_path: Path) -> None:
    told = []
    for rate in ("1", "0.01"):
        metrics = tmp_path / rate
        env = {"lr": rate, "momentum": "0.9", "STEP_SECONDS": "0", "MUSTER_METRICS": str(metrics)}
        output(run("sweep", **env, PYTHONPATH=str(Path(jobside.__file__).parent)))
        told.append([json.loads(line) for line in metrics.read_text().splitlines()])
    good, bad = told
    assert (good[-1]["step"], good[-1]["total"]) == (45, 45)
    assert good[4]["val_loss"] < bad[4]["val_loss"]


def test_data_are_prepared_by_whoever_comes_next(tmp_path: Path) -> None:
    env = {"TARGET": str(tmp_path / "data"), "MAX_FILES": "40", "MUSTER_CPUS": "2"}
    env["MUSTER_PROGRESS"] = str(tmp_path / "progress")
    first = output(run("prepare-data", **env))
    made = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    assert len(made) == 18
    assert (tmp_path / "progress").read_text().split() == [str(number) for number in range(1, 17)]
    for name in ("shard-03.tokens", "manifest.json"):
        (tmp_path / "data" / name).unlink()
    (tmp_path / "data" / "shard-03.draft").write_bytes(b"half")
    second = output(run("prepare-data", **env))
    assert re.findall(r"^shard +(\d+):", second, re.MULTILINE) == ["3"]
    assert second.splitlines()[-1] == first.splitlines()[-1]
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == made


def test_fine_tuning_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    python = python_with_torch()
    env = {"EPOCHS": "6", "MUSTER_JOB_ID": "7", "OMP_NUM_THREADS": "1"}
    whole = run("finetune", python=python, **env)
    env |= {"CHECKPOINTS": str(tmp_path), "MUSTER_PROGRESS": str(tmp_path / "progress")}
    env |= {"MUSTER_METRICS": str(tmp_path / "metrics"), "PYTHONPATH": str(Path(jobside.__file__).parent)}
    with run("finetune", python=python, **env, EPOCH_SECONDS="60") as job:
        assert job.stdout is not None
        before = [job.stdout.readline() for _ in range(2)]
        job.send_signal(signal.SIGUSR1)
        rest, err = job.communicate()
    assert (job.returncode, err, rest) == (143, "", "stopped after epoch 1\n")
    after = output(run("finetune", python=python, **env)).splitlines()
    assert re.fullmatch(r"resumed after epoch 1, best accuracy 0\.\d+", after[1])
    assert (tmp_path / "progress").read_text().split() == ["6"]
    told = [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]
    assert [line["step"] for line in told if "loss" in line] == [1, 2, 3, 4, 5, 6]
    assert {line["total"] for line in told if "loss" in line} == {6}
    assert sum("checkpoint_s" in line for line in told) == 6
    assert output(whole).splitlines() == [*"".join(before).splitlines(), *after[2:]]
