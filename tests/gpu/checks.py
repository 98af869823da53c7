"""Duties of the agent on a real NVIDIA GPU, each check beside `nvidia-smi`, CUDA or the driver.

`--rehearse` runs those that an emulated GPU and a processor can answer, so that the program itself stays sound on
machines without a GPU. A rehearsal says nothing about real GPUs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nodeagent.gpu.kernellog import KernelLog, address
from nodeagent.protocol.messages import WantedCheck
from tests.agent.fake_platform import Allocation
from tests.gpu.machine import Machine, Missed, has_nvidia_smi, nvidia_smi
from tests.oldtorch import OLD_TORCH

_MEMORY_TOLERANCE_MIB = 64


@dataclass(frozen=True)
class Result:
    """One check: its name, `held`, `missed` or `left out`, what was seen, and how long it took."""

    name: str
    outcome: str
    seen: str
    seconds: float


def inventory(machine: Machine) -> str:
    """The registered GPUs are those of nvidia-smi."""
    told = nvidia_smi("index", "uuid", "name", "memory.total", "pci.bus_id", "driver_version")
    for row, gpu in zip(told, machine.inventory.gpus, strict=True):
        index, uuid, _name, memory, bus, driver = row
        same = {
            "index": gpu.index == int(index),
            "uuid": gpu.uuid == uuid,
            "memory": abs(gpu.memory_mib - int(memory)) <= _MEMORY_TOLERANCE_MIB,
            "bus": address(gpu.pci_bus_id) == address(bus),
            "driver": machine.inventory.driver_version == driver,
        }
        wrong = [key for key, is_same in same.items() if not is_same]
        if wrong:
            raise Missed(f"{', '.join(wrong)}: the agent has {gpu}, nvidia-smi {row}")
    first = machine.inventory.gpus[0]
    return f"{len(told)} GPU, {told[0][2]} as {first.model}, {first.memory_mib} MiB, driver {told[0][5]}"


def readings(machine: Machine) -> str:
    """Memory, power, temperature and clock of a reading lie between two of nvidia-smi, or near them."""
    fields = ("memory.used", "power.draw", "temperature.gpu", "clocks.sm")
    before = nvidia_smi(*fields)[0]
    [*_, reading] = machine.readings()
    after = nvidia_smi(*fields)[0]
    ours = (reading.memory_used_mib, reading.power_w, reading.temperature_c, reading.sm_clock_mhz)
    slack = (_MEMORY_TOLERANCE_MIB + 1024, 40.0, 5.0, 2000)
    seen = []
    for name, one, low, high, room in zip(fields, ours, before, after, slack, strict=True):
        if one is None:
            if re.match(r"[\d.]", low):
                raise Missed(f"{name}: the agent has none, nvidia-smi {low}")
            seen.append(f"{name} not readable")
            continue
        ends = sorted((float(low), float(high)))
        if not ends[0] - room <= one <= ends[1] + room:
            raise Missed(f"{name}: the agent has {one}, nvidia-smi {low} before and {high} after")
        seen.append(f"{name} {one:g} (nvidia-smi {low}, {high})")
    return "; ".join(seen)


def training(machine: Machine) -> str:
    """A job trains on the GPU that it was given; readings show its use; the GPU is empty when it has ended."""
    job = machine.run("train.py", machine.train_s)
    _until_line(machine, job, r"step \d+ ")
    busy = machine.readings(2)
    _succeeded(machine.ended(job))
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", job.text)]
    if not losses[-1] < losses[0] or "sees 1 GPUs" not in job.text:
        raise Missed(f"the log says {job.text[-800:]!r}")
    used = max(reading.utilization or 0 for reading in busy)
    processes = max(reading.processes or 0 for reading in busy)
    if used <= 0:
        raise Missed(f"no reading shows a busy GPU: {busy}")
    empty = machine.readings(2)[-1]
    if empty.processes:
        raise Missed(f"{empty.processes} processes are on the GPU after the end")
    [step] = re.findall(r"([\d.]+ ms) a step", job.text)
    first = job.text.splitlines()[0]
    return f"{first}; loss {losses[0]:g} to {losses[-1]:g}, {step} a step; at most {used:g} % and {processes} processes"


def two_on_one(machine: Machine) -> str:
    """Two jobs run on one GPU at once, and the driver lists a process for each."""
    jobs = [machine.run("train.py", machine.train_s) for _ in range(2)]
    for job in jobs:
        _until_line(machine, job, r"step \d+ ")
    if any(job.end for job in jobs):
        raise Missed("one had ended before the other began")
    most = max(reading.processes or 0 for reading in machine.readings(2))
    for job in jobs:
        _succeeded(machine.ended(job))
    steps = [re.findall(r"([\d.]+ ms) a step", job.text)[0] for job in jobs]
    if most < 2:
        raise Missed(f"the readings show {most} processes on the GPU")
    return f"{most} processes at once; {steps[0]} and {steps[1]} a step"


def memory_full(machine: Machine) -> str:
    """A job that takes all memory fails, and its log is classified as the GPU's memory."""
    from scheduler.diagnosis.failures.classify import Tail, classify

    job = machine.ended(machine.run("fill.py"))
    verdict = classify([Tail(job.text.encode())], status=job.end.exit_code if job.end else None)
    if verdict.failure != "gpu_out_of_memory":
        raise Missed(f"classified as {verdict.failure}: {job.text[-800:]!r}")
    last = [line for line in job.text.splitlines() if line.strip()][-1]
    return f"{verdict.failure}; {last[:160]}"


def self_test(machine: Machine) -> str:
    """The platform's check of an idle GPU multiplies matrices on it."""
    uuid = machine.inventory.gpus[0].uuid
    machine.platform.checks = (WantedCheck(1, uuid),)
    results = machine.wait(
        lambda: [check for sync in list(machine.platform.syncs) for check in sync.checks], "the check has a result", 120
    )
    machine.platform.checks = ()
    result = results[0]
    if result.outcome.value != "passed" or not result.tflops:
        raise Missed(f"{result}")
    return f"{result.how}: {result.tflops:.1f} TFLOP/s, {result.gb_s or 0:.0f} GB/s, {result.duration_s:.1f} s"


def torchrun(machine: Machine) -> str:
    """torchrun with one rank trains with DistributedDataParallel."""
    job = machine.run("ddp.py", with_torchrun=True, env={**OLD_TORCH, "STEPS": "50", "CHECKPOINTS": ""})
    _succeeded(machine.ended(job))
    begun = re.search(r"rank 0 of 1: .*", job.text)
    done = re.search(r"rank 0: done at step 50.*", job.text)
    if begun is None or done is None:
        raise Missed(f"the log says {job.text[-800:]!r}")
    return f"{begun[0]}; {done[0]}"


def health(machine: Machine) -> str:
    """Nothing is reported of a GPU on which nothing went wrong; run after the others."""
    events = machine.health()
    if events:
        raise Missed("; ".join(f"{event.kind}: {event.detail}" for event in events))
    return f"no event in {len(machine.platform.syncs)} reports"


def xid(machine: Machine) -> str:
    """A line about this GPU, as the driver would write it into the kernel's log, is read as its Xid."""
    gpu = machine.inventory.gpus[0]
    bus = address(gpu.pci_bus_id) if gpu.pci_bus_id else "0000:3b:00"
    path = machine.folder / "kmsg"
    path.write_text("")
    log = KernelLog(str(path))
    with path.open("a") as file:
        file.write(f"4,1234,5678,-;NVRM: Xid (PCI:{bus}): 79, pid=1234, name=python, made up for a check\n")
    events = log.events({bus: gpu.uuid})
    log.close()
    if [(event.xid, event.gpu_uuid) for event in events] != [(79, gpu.uuid)]:
        raise Missed(f"read as {events}")
    try:
        with Path("/dev/kmsg").open("rb", buffering=0):
            return f"Xid 79 of {bus}; /dev/kmsg can be read here"
    except OSError as error:
        return f"Xid 79 of {bus}; /dev/kmsg cannot be read here: {error.strerror}"


Check = Callable[[Machine], str]

CHECKS: dict[str, Check] = {
    "inventory": inventory,
    "readings": readings,
    "training": training,
    "two on one GPU": two_on_one,
    "memory full": memory_full,
    "self-test": self_test,
    "torchrun": torchrun,
    "made-up Xid": xid,
    "health": health,
}
REHEARSED = {"two on one GPU", "torchrun", "made-up Xid", "health"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and return 0 if all held, 1 if one did not, 2 without an NVIDIA GPU."""
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description="Check the agent on this machine's NVIDIA GPU.")
    parser.add_argument("--python", default=sys.executable, help="the Python with PyTorch that jobs run by")
    parser.add_argument("--out", type=Path, help="a file for the results, as JSON")
    parser.add_argument("--rehearse", action="store_true", help="with an emulated GPU and PyTorch on the processor")
    options = parser.parse_args(arguments)
    if not options.rehearse and not has_nvidia_smi():
        print("there is no NVIDIA GPU here: nvidia-smi is missing or fails", file=sys.stderr)
        return 2
    machine = (
        Machine("emulated:A100:1", options.python, train_s=3) if options.rehearse else Machine("nvml", options.python)
    )
    try:
        results = [
            _try(name, check, machine) for name, check in CHECKS.items() if not options.rehearse or name in REHEARSED
        ]
    finally:
        machine.close()
    if options.out:
        options.out.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    missed = sum(result.outcome != "held" for result in results)
    print(f"{len(results) - missed} held, {missed} missed")
    return int(missed > 0)


def _try(name: str, check: Check, machine: Machine) -> Result:
    """The result of a check, printed as it comes; one that fails does not keep the others from running."""
    began = time.monotonic()
    try:
        outcome, seen = "held", check(machine)
    except Exception as error:  # noqa: BLE001 - whatever a driver surprises a check with is its result
        outcome, seen = "missed", f"{type(error).__name__}: {error}"
    result = Result(name, outcome, seen, round(time.monotonic() - began, 1))
    print(f"{'✓' if outcome == 'held' else '✗'} {name:<15} {result.seconds:5.1f} s  {seen}", flush=True)
    return result


def _until_line(machine: Machine, job: Allocation, pattern: str) -> None:
    machine.wait(lambda: job.end or re.search(pattern, job.text), f"a line like {pattern!r} in the log", 90)


def _succeeded(job: Allocation) -> None:
    if job.end is None or job.end.exit_code != 0:
        raise Missed(f"the job ended with {job.end}: {job.text[-1500:]!r}")
