"""Declared GPUs without hardware: the inventory is made up, the readings follow what really runs on them.

A GPU's utilisation is its share of the processor time of its job, its memory the job's, its power and temperature
follow the utilisation. Faults are injected from outside by appending JSON lines such as
`{"gpu": 0, "kind": "xid", "detail": "Xid 79"}` to the fault file; after `gpu_lost` a GPU gives no readings any more.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

from nodeagent.gpu.port import GpuUnavailable
from nodeagent.protocol import GpuInfo, GpuSample, HealthEvent
from nodeagent.runtime.port import Usage

_LINK_GROUP = 4
_CONTEXT_MIB = 400
_IDLE_TEMPERATURE_C, _TEMPERATURE_RANGE_C = 30.0, 45.0


@dataclass(frozen=True)
class _Model:
    memory_mib: int
    idle_w: float
    full_w: float


_DEFAULT_MODEL = _Model(16384, 25.0, 250.0)
_MODELS = {
    "A100": _Model(81920, 55.0, 400.0),
    "B200": _Model(183359, 140.0, 1000.0),
    "H100": _Model(81559, 70.0, 700.0),
    "H200": _Model(143771, 75.0, 700.0),
    "K80": _Model(11441, 26.0, 150.0),
    "L4": _Model(23034, 16.0, 72.0),
    "L40S": _Model(46068, 35.0, 350.0),
    "P100": _Model(16384, 30.0, 250.0),
    "RTX4090": _Model(24564, 20.0, 450.0),
    "T4": _Model(15360, 10.0, 70.0),
    "V100": _Model(32768, 40.0, 300.0),
}


class EmulatedGpus:
    """GPUs of declared models and counts; the same identity always gives the same uuids."""

    name = "emulated"

    def __init__(self, models: Sequence[str], identity: str, fault_path: str = "") -> None:
        self._gpus = tuple(
            GpuInfo(
                index=index,
                uuid=_uuid(identity, index),
                model=model,
                memory_mib=_MODELS.get(model, _DEFAULT_MODEL).memory_mib,
                pci_bus_id="00000000:{:02X}:00.0".format(index + 1),
                numa_node=index // _LINK_GROUP,
            )
            for index, model in enumerate(models)
        )
        self._fault_path = fault_path
        self._faults_read = 0
        self._lost: Set[str] = set()
        self._unsaid: List[HealthEvent] = []

    def inventory(self) -> Tuple[GpuInfo, ...]:
        """Every declared GPU, by index."""
        return self._gpus

    def topology(self) -> Tuple[Tuple[str, ...], ...]:
        """Groups of four of one model are linked by NVLink; all else goes through the system."""
        return tuple(tuple(_link(one, other) for other in self._gpus) for one in self._gpus)

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

    def busy(self, uuids: Sequence[str]) -> bool:
        """Never: without hardware, a process that is gone holds nothing."""
        return False

    def close(self) -> None:
        """Nothing to let go of."""

    def _sample(self, gpu: GpuInfo, usage: Usage) -> GpuSample:
        model = _MODELS.get(gpu.model, _DEFAULT_MODEL)
        share = min(1.0, usage.cpu_fraction)
        used_mib = _CONTEXT_MIB + usage.rss_mib if usage.processes else 0
        return GpuSample(
            uuid=gpu.uuid,
            utilization=round(100.0 * share, 1),
            memory_used_mib=min(gpu.memory_mib, used_mib),
            power_w=round(model.idle_w + share * (model.full_w - model.idle_w), 1),
            temperature_c=round(_IDLE_TEMPERATURE_C + share * _TEMPERATURE_RANGE_C, 1),
            processes=usage.processes,
        )

    def _read_faults(self) -> None:
        if not self._fault_path or not os.path.exists(self._fault_path):
            return
        with open(self._fault_path, "rb") as file:
            file.seek(self._faults_read)
            content = file.read()
        complete = content[: content.rfind(b"\n") + 1]
        self._faults_read += len(complete)
        for line in complete.splitlines():
            fault: Dict[str, Any] = json.loads(line)
            uuid = self._gpus[fault["gpu"]].uuid
            if fault["kind"] == "gpu_lost":
                self._lost.add(uuid)
            self._unsaid.append(HealthEvent(fault["kind"], uuid, fault.get("detail", "")))


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


def _link(one: GpuInfo, other: GpuInfo) -> str:
    if one.index == other.index:
        return "X"
    same_group = one.index // _LINK_GROUP == other.index // _LINK_GROUP
    return "NV4" if same_group and one.model == other.model else "SYS"
