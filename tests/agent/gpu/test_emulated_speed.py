"""Emulated GPUs with a speed: profiles, the module of jobs, timelines that jobs share, the agent's part."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from nodeagent.gpu.choose import open_gpus
from nodeagent.gpu.emulated import EmulatedGpus
from nodeagent.gpu.port import GpuDriver, GpuUnavailable
from nodeagent.runtime.auto import AutoRuntime
from nodeagent.runtime.shim.folders import FolderRuntime
from scheduler.diagnosis.failures.classify import Tail, classify
from tests.agent.conftest import AgentProcess, RuntimeUnderTest
from tests.agent.fake_platform import FakePlatform
from tests.agent.loop.test_agent import finished
from tests.waiting import stretched

TABLES = {
    "compute_time": """gpu,model,phase,batch_size,seconds
NVIDIA_A100-SXM4-40GB,resnet50,forward,32,0.004
NVIDIA_A100-SXM4-40GB,resnet50,forward,64,0.008
NVIDIA_A100-SXM4-40GB,resnet50,backward,32,0.008
NVIDIA_A100-SXM4-40GB,resnet50,backward,64,0.016
Tesla_V100-PCIE-32GB,resnet50,forward,64,0.02
Tesla_V100-PCIE-32GB,resnet50,backward,64,0.04
NVIDIA_A100-SXM4-40GB,huge,forward,64,0.01
NVIDIA_A100-SXM4-40GB,huge,backward,64,
""",
    "data_transfer_time": """gpu,model,batch_size,seconds
NVIDIA_A100-SXM4-40GB,resnet50,32.0,0.001
NVIDIA_A100-SXM4-40GB,resnet50,64.0,0.002
Tesla_V100-PCIE-32GB,resnet50,64,0.005
""",
    "model_transfer_time": """gpu,model,seconds
NVIDIA_A100-SXM4-40GB,resnet50,0.03
Tesla_V100-PCIE-32GB,resnet50,0.05
""",
    "memory": """gpu,model,batch_size,peak_mib,persistent_mib
NVIDIA_A100-SXM4-40GB,resnet50,32,3000,300
NVIDIA_A100-SXM4-40GB,resnet50,64,6000,300
Tesla_V100-PCIE-32GB,resnet50,64,6000,300
NVIDIA_A100-SXM4-40GB,huge,64,102400,2048
""",
    "samples": """name,seconds
decode-dali,0.01
decode-dali,0.03
epoch_pinned,300
epoch_pageable,360
""",
}


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    folder = tmp_path / "profiles"
    folder.mkdir()
    for name, content in TABLES.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


def driver_of(profiles: Path, spec: str = "emulated:A100:4,V100:1") -> GpuDriver:
    return open_gpus(spec, "here", str(profiles.parent / "emulated-faults"), str(profiles))


def furnished(driver: GpuDriver, folder: Path, *indexes: int) -> ModuleType:
    """The module as a job on these GPUs imports it."""
    folder.mkdir()
    driver.furnish([driver.inventory()[index].uuid for index in indexes], str(folder))
    spec = importlib.util.spec_from_file_location("muster_gpu", folder / "muster_gpu.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_mean_step_takes_what_the_profile_says(profiles: Path, tmp_path: Path) -> None:
    model = furnished(driver_of(profiles), tmp_path / "job", 0).device().model("resnet50", batch_size=64)
    model.load()
    began = time.monotonic()
    for _ in range(200):
        model.train()
    assert (time.monotonic() - began) / 200 == pytest.approx(0.026, rel=0.03)


def test_the_time_between_phases_is_the_jobs_own(profiles: Path, tmp_path: Path) -> None:
    model = furnished(driver_of(profiles), tmp_path / "job", 0).device().model("resnet50", batch_size=32)
    began = time.monotonic()
    for _ in range(20):
        model.forward()
        time.sleep(0.02)
    assert time.monotonic() - began >= 20 * 0.024


def test_it_takes_values_between_batch_sizes_and_refuses_those_outside(profiles: Path, tmp_path: Path) -> None:
    module = furnished(driver_of(profiles), tmp_path / "job", 0)
    assert module.device().model("resnet50", batch_size=48).train() == pytest.approx(0.0195)
    for size in (16, 65):
        with pytest.raises(module.ProfileError, match=f"on A100 for batch sizes from 32 to 64, not for {size}"):
            module.device().model("resnet50", batch_size=size).train()


@pytest.mark.parametrize(
    ("gpu", "model", "named"),
    [
        (0, "bert", "no bert on A100; it has huge, resnet50"),
        (4, "huge", "no huge on V100; it has resnet50"),
        (0, "huge", r"no backward of huge on A100 \(batch size 64\)"),
    ],
)
def test_a_hole_in_the_profile_is_named(profiles: Path, tmp_path: Path, gpu: int, model: str, named: str) -> None:
    (profiles / "memory.csv").write_text(TABLES["memory"].replace("102400", "4096"))
    module = furnished(driver_of(profiles), tmp_path / "job", gpu)
    with pytest.raises(module.ProfileError, match=named):
        module.device().model(model, batch_size=64).backward()


def test_a_type_without_a_profile_is_named_to_the_job(profiles: Path, tmp_path: Path) -> None:
    module = furnished(driver_of(profiles, "emulated:H100:1"), tmp_path / "job", 0)
    with pytest.raises(module.ProfileError, match="no resnet50 on H100; it has no model"):
        module.device().model("resnet50", batch_size=64)


def test_a_script_outside_of_such_a_job_is_told_so(profiles: Path, tmp_path: Path) -> None:
    module = furnished(driver_of(profiles), tmp_path / "job")
    with pytest.raises(module.ProfileError, match="this job has no GPU"):
        module.device()
    (tmp_path / "job" / "muster_gpu.json").unlink()
    with pytest.raises(module.ProfileError, match="no emulated GPU"):
        module.device()


def test_a_peak_above_the_card_is_the_error_of_pytorch(profiles: Path, tmp_path: Path) -> None:
    module = furnished(driver_of(profiles), tmp_path / "job", 0)
    with pytest.raises(module.OutOfMemoryError) as raised:
        module.device().model("huge", batch_size=64).forward()
    assert str(raised.value) == (
        "CUDA out of memory. Tried to allocate 98.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 78.00 GiB "
        "is free."
    )


def test_jobs_on_one_gpu_take_turns(profiles: Path, tmp_path: Path) -> None:
    driver = driver_of(profiles)
    models = [
        furnished(driver, tmp_path / name, 0).device().model("resnet50", batch_size=64) for name in ("one", "other")
    ]
    steps = [0, 0]
    end = time.monotonic() + 2.6

    def train(at: int) -> None:
        while time.monotonic() < end:
            models[at].train()
            steps[at] += 1

    threads = [threading.Thread(target=train, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(steps) == pytest.approx(101, abs=3)
    assert abs(steps[0] - steps[1]) <= 2


def test_jobs_on_two_gpus_do_not_wait_for_each_other(profiles: Path, tmp_path: Path) -> None:
    driver = driver_of(profiles)
    devices = [furnished(driver, tmp_path / name, at).device() for at, name in enumerate(("one", "other"))]
    threads = [threading.Thread(target=device.work, args=(0.3,)) for device in devices]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - began < stretched(0.5)


def test_a_timeline_of_an_earlier_boot_holds_nothing_up(profiles: Path, tmp_path: Path) -> None:
    device = furnished(driver_of(profiles), tmp_path / "job", 0).device()
    (timeline,) = (tmp_path / "job").glob("*.timeline")
    timeline.write_bytes(struct.pack("<dd", time.monotonic() + 1e6, 0.0))
    began = time.monotonic()
    device.work(0.01)
    assert time.monotonic() - began < stretched(1)


def test_several_gpus_take_the_time_of_the_slowest_and_the_memory_of_the_smallest(
    profiles: Path, tmp_path: Path
) -> None:
    device = furnished(driver_of(profiles), tmp_path / "job", 0, 4).device()
    assert device.types == ("A100", "V100")
    assert device.memory_mib == 32768
    assert device.model("resnet50", batch_size=64).train() == pytest.approx(0.065)


def test_an_all_reduce_costs_what_the_model_says(
    profiles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (profiles / "links.csv").write_text("link,gb_s,latency_us\nNV,20,5\nnetwork,1,100\n")
    module = furnished(driver_of(profiles), tmp_path / "job", 0, 1, 2, 3)
    # Four GPUs with four NVLinks each: 2 * 3 latencies and 2 * 3/4 of the bytes by 80 GB/s.
    assert module.device().all_reduce_s(8e9) == pytest.approx(6 * 5e-6 + 1.5 * 8e9 / 80e9)
    assert module.device(2).all_reduce_s(8e9) == 0
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert module.device(0, 1, 2, 3).all_reduce_s(8e9) == pytest.approx(14 * 100e-6 + 14 / 8 * 8e9 / 1e9)
    assert module.device(0).all_reduce(1e6) == pytest.approx(2 * 100e-6 + 1e6 / 1e9)
    with pytest.raises(ValueError, match="nan"):
        module.device().all_reduce(float("nan"))


def test_gpus_of_two_models_are_linked_by_what_they_share(profiles: Path, tmp_path: Path) -> None:
    device = furnished(driver_of(profiles), tmp_path / "job", 3, 4).device()
    assert device.all_reduce_s(8e9) == pytest.approx(2 * 10e-6 + 1.0)


def test_samples_are_taken_in_turn(profiles: Path, tmp_path: Path) -> None:
    module = furnished(driver_of(profiles), tmp_path / "job", 0)
    device = module.device()
    assert [device.sample("decode-dali") for _ in range(3)] == [0.01, 0.03, 0.01]
    with pytest.raises(module.ProfileError, match="no samples of norm-ffcv"):
        device.sample("norm-ffcv")


def test_a_step_without_pinned_memory_is_slower_by_the_ratio_of_the_samples(profiles: Path, tmp_path: Path) -> None:
    model = furnished(driver_of(profiles), tmp_path / "job", 0).device().model("resnet50", 64, pinned=False)
    assert model.train() == pytest.approx(1.2 * 0.026)


def test_the_readings_follow_how_busy_jobs_keep_the_gpu(profiles: Path, tmp_path: Path) -> None:
    driver = driver_of(profiles)
    assert isinstance(driver, EmulatedGpus)
    device = furnished(driver, tmp_path / "job", 0).device()
    driver.samples({})
    device.work(0.2)
    time.sleep(0.2)
    first, second, *_ = driver.samples({})
    assert first.utilization == pytest.approx(50, abs=15)
    assert second.utilization == 0


def test_profiles_may_be_compressed(profiles: Path, tmp_path: Path) -> None:
    with gzip.open(profiles / "compute_time.csv.gz", "wt") as file:
        file.write(TABLES["compute_time"])
    (profiles / "compute_time.csv").unlink()
    model = furnished(driver_of(profiles), tmp_path / "job", 0).device().model("resnet50", batch_size=64)
    assert model.train() == pytest.approx(0.026)


@pytest.mark.parametrize(
    ("table", "old", "new", "named"),
    [
        ("compute_time", "32,0.004", "32,fast", "compute_time.csv, line 2: seconds 'fast' is not a number"),
        ("model_transfer_time", "0.03", "nan", "seconds 'nan' is not a number above 0 and up to 60"),
        ("compute_time", "32,0.004", "1.5,1", "batch_size 1.5 is not a whole number"),
        ("compute_time", "32,0.004", "64,1", "line 3: a second row of the same value"),
        ("compute_time", "50,forward,32", "50,sideways,32", "'sideways' is neither forward nor backward"),
        ("compute_time", "32,0.004", "32", "line 2: it has not 5 values"),
        ("compute_time", "gpu,model", "gpu,what", "its first line is not gpu,model,phase,batch_size,seconds"),
        ("data_transfer_time", "A100-SXM4-40GB,resnet50,64", "A100-PCIE-80GB,resnet50,64", "are both A100"),
    ],
)
def test_an_agent_does_not_start_with_a_wrong_profile(
    profiles: Path, table: str, old: str, new: str, named: str
) -> None:
    path = profiles / f"{table}.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(GpuUnavailable, match=named):
        driver_of(profiles)


@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "61"])
def test_an_impossible_value_is_a_hole_that_log_and_job_are_told_of(
    profiles: Path, tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    (profiles / "compute_time.csv").write_text(TABLES["compute_time"].replace("32,0.004", f"32,{value}"))
    module = furnished(driver_of(profiles), tmp_path / "job", 0)
    assert f"1 values of the GPU profiles are left out; the first: {profiles}/compute_time.csv, line 2" in caplog.text
    assert module.device().model("resnet50", batch_size=64).forward() == pytest.approx(0.008)
    with pytest.raises(module.ProfileError, match="has forward of resnet50 on A100 for batch sizes from 64 to 64, not"):
        module.device().model("resnet50", batch_size=32).forward()


def test_profiles_are_for_emulated_gpus_alone(profiles: Path) -> None:
    with pytest.raises(GpuUnavailable, match="--gpu-profiles is for emulated GPUs"):
        driver_of(profiles, "none")
    with pytest.raises(GpuUnavailable, match="no such folder"):
        driver_of(profiles / "nowhere")


TRAIN = """python3 -c '
import json, os, time
import muster_gpu
model = muster_gpu.device().model("{model}", batch_size=64)
began = time.monotonic()
for _ in range({steps}):
    model.train()
print(json.dumps(time.monotonic() - began))
'"""


def test_a_job_on_each_type_runs_at_its_speed(platform: FakePlatform, agent: AgentProcess, profiles: Path) -> None:
    agent.options += ["--gpu-profiles", str(profiles)]
    agent.start()
    assert platform.registered is not None
    uuids = {gpu.model: gpu.uuid for gpu in platform.registered.inventory.gpus}
    command = TRAIN.format(model="resnet50", steps=40)
    placed = {name: platform.place(command, gpu_uuids=(uuids[name],)) for name in ("A100", "V100")}
    took = {name: json.loads(finished(platform, number, 30).text) for name, number in placed.items()}
    assert took["A100"] / 40 == pytest.approx(0.026, rel=0.05)
    assert took["V100"] / took["A100"] == pytest.approx(0.065 / 0.026, rel=0.05)


def test_a_job_that_needs_more_memory_than_its_card_is_out_of_memory(
    platform: FakePlatform, agent: AgentProcess, profiles: Path
) -> None:
    agent.options += ["--gpu-profiles", str(profiles)]
    agent.start()
    assert platform.registered is not None
    uuid = platform.registered.inventory.gpus[0].uuid
    allocation = finished(platform, platform.place(TRAIN.format(model="huge", steps=1), gpu_uuids=(uuid,)))
    assert allocation.end is not None
    assert allocation.end.exit_code == 1
    failure = classify([Tail(allocation.text.encode())]).failure
    assert failure is not None
    assert failure == "gpu_out_of_memory"


def test_two_processes_share_a_gpu_evenly(profiles: Path, tmp_path: Path) -> None:
    driver = driver_of(profiles)
    code = "import muster_gpu, time; m = muster_gpu.device().model('resnet50', 64); began = time.monotonic()\n"
    code += "for _ in range(40): m.train()\n"
    code += "print(time.monotonic() - began)"
    running = []
    for name in ("one", "other"):
        furnished(driver, tmp_path / name, 0)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / name)}
        running.append(
            subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        )
    took = [float(process.communicate(timeout=30)[0]) for process in running]
    assert statistics.mean(took) == pytest.approx(80 * 0.026, rel=0.15)


def test_each_runtime_brings_the_module_and_the_shared_timeline(
    under_test: RuntimeUnderTest, profiles: Path, tmp_path: Path
) -> None:
    driver = driver_of(profiles)
    uuid = driver.inventory()[0].uuid
    runtime = under_test.runtime
    assert isinstance(runtime, FolderRuntime | AutoRuntime)
    runtime.furnish = driver.furnish
    timeline = f"$HOME/.muster-modules/{uuid}.timeline"
    commands = (f"cat $HOME/.muster-modules/muster_gpu.* | wc -c; echo one >> {timeline}", f"cat {timeline}")
    first, second = (under_test.run(command, gpu_uuids=(uuid,)) for command in commands)
    assert (first[0].exit_code, second[0].exit_code) == (0, 0), (first, second)
    assert int(first[1]) > 10_000
    assert second[1] == b"one\n"
