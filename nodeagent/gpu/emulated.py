"""Declared GPUs without hardware: the inventory is made up, the readings follow what really runs on them.

A GPU's utilisation is its share of the processor time of its job, or the share of time for which jobs kept it busy
where that is more (`speed.py`). Its memory is the job's; its power, its temperature and its clock follow the
utilisation. Faults are injected from outside by appending JSON lines such as
`{"gpu": 0, "kind": "xid", "xid": 79, "detail": "Xid 79"}` to the fault file; the kinds are those of `HealthEvent`.
After `gpu_lost` a GPU gives no readings any more, after `throttle` its clock is half of what it would be, and each
`ecc` counts one error that was not corrected. Without an event errors are counted that were corrected,
`{"gpu": 0, "kind": "ecc_corrected", "count": 12}`, and memory is left behind, of which only a check tells:
`{"gpu": 0, "kind": "memory_left", "mib": 9216}`; with 0 it is gone again. In the same way a process is left there,
`{"gpu": 0, "kind": "process_left", "pid": 71}`. `list_fails` has the driver give no list of the GPU's processes, and
`list_hangs` has it not answer who asks for one, until the same comes with `"over": true`. `work_wrong` makes the next
`count` self-tests give a wrong result, and `work_hangs` makes them hang.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from nodeagent.gpu.layouts import DEFAULT_LAYOUT, PER_SOCKET, matrix
from nodeagent.gpu.port import NO_SUCH_GPU, GpuUnavailable, Occupancy, SelfTestResult
from nodeagent.gpu.speed import EmulatedSpeed
from nodeagent.protocol.messages import GpuInfo, GpuSample, HealthEvent
from nodeagent.runtime.port import Usage

_CONTEXT_MIB = 400
_IDLE_TEMPERATURE_C, _TEMPERATURE_RANGE_C = 30.0, 45.0
_IDLE_CLOCK_MHZ = 210
_HANGS_S = 60.0
_LOOK_EVERY_S = 0.05
_LIST_KINDS = ("list_fails", "list_hangs")


@dataclass(frozen=True)
class _Model:
    memory_mib: int
    idle_w: float
    full_w: float
    sm_clock_mhz: int
    memory_clock_mhz: int


_DEFAULT_MODEL = _Model(16384, 25.0, 250.0, 1500, 5000)
_MODELS = {
    "A100": _Model(81920, 55.0, 400.0, 1410, 1593),
    "B200": _Model(183359, 140.0, 1000.0, 1965, 3996),
    "H100": _Model(81559, 70.0, 700.0, 1980, 2619),
    "H200": _Model(143771, 75.0, 700.0, 1980, 3201),
    "K80": _Model(11441, 26.0, 150.0, 875, 2505),
    "L4": _Model(23034, 16.0, 72.0, 2040, 6251),
    "L40S": _Model(46068, 35.0, 350.0, 2520, 9001),
    "M40": _Model(24576, 16.0, 250.0, 1114, 3004),
    "P100": _Model(16384, 30.0, 250.0, 1328, 715),
    "RTX4090": _Model(24564, 20.0, 450.0, 2520, 10501),
    "RTX6000": _Model(24576, 22.0, 260.0, 1770, 7001),
    "T4": _Model(15360, 10.0, 70.0, 1590, 5001),
    "V100": _Model(32768, 40.0, 300.0, 1530, 877),
}


class EmulatedGpus:
    """GPUs of declared models and counts; the same identity always gives the same uuids."""

    name = "emulated"

    def __init__(
        self,
        models: Sequence[str],
        identity: str,
        fault_path: str = "",
        layout: str = DEFAULT_LAYOUT,
        speed: Optional[EmulatedSpeed] = None,
    ) -> None:
        self._gpus = tuple(
            GpuInfo(
                index=index,
                uuid=_uuid(identity, index),
                model=model,
                memory_mib=_MODELS.get(model, _DEFAULT_MODEL).memory_mib,
                pci_bus_id="00000000:{:02X}:00.0".format(index + 1),
                numa_node=index // PER_SOCKET,
            )
            for index, model in enumerate(models)
        )
        self._topology = matrix(layout, models)
        self._speed = speed
        self._fault_path = fault_path
        self._faults_read = 0
        self._lost: Set[str] = set()
        self._throttled: Set[str] = set()
        self._left_mib: Dict[str, int] = {}
        self._left_pid: Dict[str, int] = {}
        self._list_faults: Set[Tuple[str, str]] = set()
        self._spoilt: Counter[Tuple[str, str]] = Counter()
        self._errors: Counter[Tuple[str, str]] = Counter()
        self._unsaid: List[HealthEvent] = []

    def inventory(self) -> Tuple[GpuInfo, ...]:
        return self._gpus

    def topology(self) -> Tuple[Tuple[str, ...], ...]:
        """The declared links between GPUs: the layout's, or the file's."""
        return self._topology

    def driver_version(self) -> str:
        """A version that says what it is."""
        return "emulated"

    def samples(self, usage: Mapping[str, Usage]) -> Tuple[GpuSample, ...]:
        """Readings computed from what runs on each GPU."""
        self._read_faults()
        return tuple(
            self._sample(gpu, usage.get(gpu.uuid, Usage())) for gpu in self._gpus if gpu.uuid not in self._lost
        )

    def health(self) -> Tuple[HealthEvent, ...]:
        """The faults that were injected since the last call."""
        self._read_faults()
        events, self._unsaid = tuple(self._unsaid), []
        return events

    def occupancy(self, uuids: Sequence[str]) -> Mapping[str, Occupancy]:
        """The leftover processes that were injected; a process that ended holds no memory here."""
        self._read_faults()
        return {gpu.uuid: self._occupancy(gpu.uuid) for gpu in self._gpus if gpu.uuid in uuids}

    def faults(self, uuids: Sequence[str], alone: Collection[str]) -> Tuple[Tuple[str, str], ...]:
        """Those that are lost, and on those `alone` memory that was left behind."""
        self._read_faults()
        found = [(uuid, self._fault(uuid, uuid in alone)) for uuid in uuids]
        return tuple((uuid, why) for uuid, why in found if why)

    def self_test(self, uuid: str, wait: Callable[[float], bool]) -> Optional[SelfTestResult]:
        """Passes at the speed of its model, unless a fault was injected."""
        if self._take(uuid, "work_hangs") and wait(_HANGS_S):
            return None
        model = next(gpu.model for gpu in self._gpus if gpu.uuid == uuid)
        clocks = _MODELS.get(model, _DEFAULT_MODEL)
        return SelfTestResult(
            is_right=not self._take(uuid, "work_wrong"),
            detail="",
            tflops=round(clocks.sm_clock_mhz / 100, 1),
            gb_s=float(clocks.memory_clock_mhz),
            how="emulated",
        )

    def furnish(self, uuids: Sequence[str], folder: str) -> None:
        """With a speed, jobs get `muster_gpu`."""
        if self._speed is not None:
            gpus = {gpu.uuid: gpu for gpu in self._gpus}
            self._speed.furnish([gpus[uuid] for uuid in uuids if uuid in gpus], self._topology, folder)

    def _take(self, uuid: str, kind: str) -> bool:
        """Use up an injected fault of this kind; False if there is none."""
        if not self._spoilt[uuid, kind]:
            return False
        self._spoilt[uuid, kind] -= 1
        return True

    def close(self) -> None:
        """Nothing to let go of."""

    def _occupancy(self, uuid: str) -> Occupancy:
        while (uuid, "list_hangs") in self._list_faults:
            time.sleep(_LOOK_EVERY_S)
            self._read_faults()
        if uuid in self._lost or (uuid, "list_fails") in self._list_faults:
            return Occupancy(problem="it does not answer")
        pid = self._left_pid.get(uuid, 0)
        return Occupancy(frozenset({pid} if pid else ()))

    def _fault(self, uuid: str, is_alone: bool) -> str:
        if uuid not in {gpu.uuid for gpu in self._gpus}:
            return NO_SUCH_GPU
        if uuid in self._lost:
            return "it does not answer"
        if not is_alone:
            return ""
        there = self._occupancy(uuid)
        if there.pids or there.problem:
            return there.problem or there.words
        left_mib = self._left_mib.get(uuid, 0)
        return "{} MiB are in use and no process is there".format(left_mib) if left_mib else ""

    def _sample(self, gpu: GpuInfo, usage: Usage) -> GpuSample:
        model = _MODELS.get(gpu.model, _DEFAULT_MODEL)
        share = min(1.0, usage.cpu_fraction)
        if self._speed is not None:
            share = max(share, self._speed.busy_fraction(gpu.uuid))
        used_mib = self._left_mib.get(gpu.uuid, 0)
        used_mib += _CONTEXT_MIB + usage.rss_mib if usage.processes else 0
        clock_mhz = model.sm_clock_mhz if usage.processes else _IDLE_CLOCK_MHZ
        return GpuSample(
            uuid=gpu.uuid,
            utilization=round(100.0 * share, 1),
            memory_used_mib=min(gpu.memory_mib, used_mib),
            power_w=round(model.idle_w + share * (model.full_w - model.idle_w), 1),
            temperature_c=round(_IDLE_TEMPERATURE_C + share * _TEMPERATURE_RANGE_C, 1),
            processes=usage.processes,
            sm_clock_mhz=clock_mhz // 2 if gpu.uuid in self._throttled else clock_mhz,
            memory_clock_mhz=model.memory_clock_mhz,
            ecc_corrected=self._errors[gpu.uuid, "ecc_corrected"],
            ecc_uncorrected=self._errors[gpu.uuid, "ecc"],
        )

    def _read_faults(self) -> None:
        if not self._fault_path or not os.path.exists(self._fault_path):
            return
        with open(self._fault_path, "rb") as file:
            if os.fstat(file.fileno()).st_size < self._faults_read:
                self._faults_read = 0  # another file
            file.seek(self._faults_read)
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._faults_read += len(complete)
        for line in filter(None, complete.splitlines()):
            fault: Dict[str, Any] = json.loads(line)
            self._suffer(fault["kind"], self._gpus[fault["gpu"]].uuid, fault)

    def _suffer(self, kind: str, uuid: str, fault: Dict[str, Any]) -> None:
        """Apply a fault to the readings, and report its event."""
        if kind == "memory_left":
            self._left_mib[uuid] = fault.get("mib", 0)
            return
        if kind == "process_left":
            self._left_pid[uuid] = fault.get("pid", 0)
            return
        if kind in _LIST_KINDS:
            change = self._list_faults.discard if fault.get("over") else self._list_faults.add
            change((uuid, kind))
            return
        if kind in ("work_wrong", "work_hangs"):
            self._spoilt[uuid, kind] += fault.get("count", 1)
            return
        self._errors[uuid, kind] += fault.get("count", 1)
        if kind == "ecc_corrected":
            return
        if kind == "gpu_lost":
            self._lost.add(uuid)
        if kind == "throttle":
            self._throttled.add(uuid)
        self._unsaid.append(HealthEvent(kind, uuid, fault.get("detail", ""), fault.get("xid")))


def parse_models(text: str) -> Tuple[str, ...]:
    """The models that `A100:4,V100:2` declares, one for each GPU."""
    models: List[str] = []
    for part in text.split(","):
        model, colon, count = part.strip().rpartition(":")
        if not colon or not model or not count.isdigit() or not 0 < int(count) <= 64:
            raise GpuUnavailable("{!r} is not MODEL:COUNT with a count from 1 to 64".format(part))
        models += [model] * int(count)
    return tuple(models)


def _uuid(identity: str, index: int) -> str:
    digest = hashlib.sha256("{}/{}".format(identity, index).encode()).hexdigest()
    return "GPU-emu-{}-{}".format(digest[:8], digest[8:16])
