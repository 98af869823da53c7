"""NVIDIA GPUs through NVML (the module `pynvml` of nvidia-ml-py)."""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Callable, Collection, List, Mapping, Optional, Sequence, Tuple

from nodeagent.gpu.conditions import condition_of, fault_of, lists_none, occupancy_of
from nodeagent.gpu.kernellog import KernelLog, address
from nodeagent.gpu.port import NO_SUCH_GPU, GpuUnavailable, Occupancy, SelfTestResult
from nodeagent.gpu.watch import LOOK_EVERY_S, Watch
from nodeagent.protocol.messages import GpuInfo, GpuSample, HealthEvent
from nodeagent.runtime.port import Usage

try:
    pynvml: Any = importlib.import_module("pynvml")  # optional, and without type information
except ImportError:
    pynvml = None

_log = logging.getLogger("nodeagent.nvml")

_MAX_EVENTS = 64
_SILENT_READINGS = 3


@dataclass(frozen=True)
class _NvLinks:
    """The active NVLinks of one GPU: the bus ids of the GPUs at their far ends, and how many end at a switch."""

    peers: Tuple[str, ...]
    to_switches: int


class NvmlGpus:
    """The GPUs that the NVIDIA driver shows."""

    name = "nvml"

    def __init__(self) -> None:
        if pynvml is None:
            raise GpuUnavailable("the Python module pynvml (nvidia-ml-py) is not installed")
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise GpuUnavailable("NVML cannot be used: {}".format(error)) from error
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self._gpus = tuple(_info(index, handle) for index, handle in enumerate(self._handles))
        self._handle_of = {gpu.uuid: self._handles[gpu.index] for gpu in self._gpus}
        self._lost: List[str] = []
        self._silent: Counter[str] = Counter()
        self._watch = Watch()
        self._look_at = 0.0
        self._log = KernelLog()
        self._uuid_of = {address(gpu.pci_bus_id): gpu.uuid for gpu in self._gpus}
        self._unsaid: List[HealthEvent] = []
        self._events = self._watch_xids()
        self._look_whether_processes_are_listed()

    def inventory(self) -> Tuple[GpuInfo, ...]:
        """Every GPU as it was when the agent started."""
        return self._gpus

    def topology(self) -> Tuple[Tuple[str, ...], ...]:
        """NVLink where two GPUs share one or meet at NVSwitches, else the closest common part of the PCIe tree."""
        size = range(len(self._handles))
        links = [_nvlinks(handle) for handle in self._handles]
        upper = {(one, other): self._closest(links, one, other) for one in size for other in size if one < other}
        return tuple(
            tuple("X" if one == other else upper[min(one, other), max(one, other)] for other in size) for one in size
        )

    def driver_version(self) -> str:
        return _text(pynvml.nvmlSystemGetDriverVersion())

    def samples(self, usage: Mapping[str, Usage]) -> Tuple[GpuSample, ...]:
        """A reading of every GPU that answers. One that is lost, or does not answer again and again, is told once."""
        found = []
        for gpu in self._gpus:
            handle = self._handle_of[gpu.uuid]
            try:
                used = pynvml.nvmlDeviceGetMemoryInfo(handle).used
            except pynvml.NVMLError as error:
                self._lose(gpu, error)
                continue
            self._silent.pop(gpu.uuid, None)
            rates = _try(pynvml.nvmlDeviceGetUtilizationRates, handle)
            power_mw = _try(pynvml.nvmlDeviceGetPowerUsage, handle)
            temperature_c = _try(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
            processes = _try(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
            ecc = [_try(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC) for kind in _ecc()]
            found.append(
                GpuSample(
                    uuid=gpu.uuid,
                    utilization=None if rates is None else float(rates.gpu),
                    memory_used_mib=used >> 20,
                    power_w=None if power_mw is None else power_mw / 1000.0,
                    temperature_c=None if temperature_c is None else float(temperature_c),
                    processes=None if processes is None else len(processes),
                    sm_clock_mhz=_try(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
                    memory_clock_mhz=_try(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM),
                    ecc_corrected=ecc[0],
                    ecc_uncorrected=ecc[1],
                )
            )
        return tuple(found)

    def health(self) -> Tuple[HealthEvent, ...]:
        """New events since the last call, from the kernel's log, from NVML's events and from its counters."""
        events, self._unsaid = [*self._unsaid, *self._log.events(self._uuid_of)], []
        # The kernel's words say more, and are there first.
        logged = {(event.gpu_uuid, event.xid) for event in events}
        for _ in range(_MAX_EVENTS if self._events is not None else 0):
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except pynvml.NVMLError:  # a timeout: nothing (more) happened
                break
            told = self._event(event)
            if told.xid is None or (told.gpu_uuid, told.xid) not in logged:
                events.append(told)
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            there = [gpu for gpu in self._gpus if gpu.uuid not in self._lost]
            conditions = [condition_of(pynvml, _try, gpu.uuid, self._handle_of[gpu.uuid]) for gpu in there]
            events.extend(self._watch.look(conditions, now))
        return tuple(events)

    def occupancy(self, uuids: Sequence[str]) -> Mapping[str, Occupancy]:
        """The processes that the driver lists. A GPU that does not answer has a `problem` instead."""
        return {uuid: occupancy_of(pynvml, handle) for uuid, handle in self._handle_of.items() if uuid in uuids}

    def faults(self, uuids: Sequence[str], alone: Collection[str]) -> Tuple[Tuple[str, str], ...]:
        """GPUs unfit for a start now, and why; on GPUs in `alone`, any process is a fault."""
        found = [
            (uuid, fault_of(pynvml, _try, uuid, is_alone=uuid in alone) if uuid in self._handle_of else NO_SUCH_GPU)
            for uuid in uuids
        ]
        return tuple((uuid, why) for uuid, why in found if why)

    def self_test(self, uuid: str, wait: Callable[[float], bool]) -> Optional[SelfTestResult]:
        """NVML only monitors GPUs: `SelfTest` runs the computation."""
        return None

    def furnish(self, uuids: Sequence[str], folder: str) -> None:
        """Jobs find the machine's own driver."""

    def close(self) -> None:
        """Let go of NVML and of the kernel's log."""
        self._log.close()
        if self._events is not None:
            pynvml.nvmlEventSetFree(self._events)
        pynvml.nvmlShutdown()

    def _closest(self, links: Sequence[_NvLinks], one: int, other: int) -> str:
        """The closest link of two GPUs. A link that only one end sees as active does not count."""
        buses = [_bus(gpu.pci_bus_id) for gpu in self._gpus]
        shared = min(links[one].peers.count(buses[other]), links[other].peers.count(buses[one]))
        if not shared and self._meet_at_switches(one, other):
            shared = min(links[one].to_switches, links[other].to_switches)
        return "NV{}".format(shared) if shared else self._pcie(one, other)

    def _meet_at_switches(self, one: int, other: int) -> bool:
        """True if the driver lets the two talk over NVLink: an NVSwitch may keep its GPUs apart."""
        handles = self._handles[one], self._handles[other]
        status = _try(pynvml.nvmlDeviceGetP2PStatus, *handles, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
        return bool(status == pynvml.NVML_P2P_STATUS_OK)

    def _pcie(self, one: int, other: int) -> str:
        level = _try(pynvml.nvmlDeviceGetTopologyCommonAncestor, self._handles[one], self._handles[other])
        names = {
            pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",
            pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
            pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
            pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
            pynvml.NVML_TOPOLOGY_NODE: "NODE",
        }
        return names.get(level, "SYS")

    def _watch_xids(self) -> Any:
        try:
            events = pynvml.nvmlEventSetCreate()
            kinds = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError
            for handle in self._handles:
                wanted = kinds & pynvml.nvmlDeviceGetSupportedEventTypes(handle)
                if wanted:
                    pynvml.nvmlDeviceRegisterEvents(handle, wanted, events)
        except pynvml.NVMLError as error:
            _log.warning("Xid errors cannot be watched: %s", error)
            return None
        return events

    def _look_whether_processes_are_listed(self) -> None:
        """Log once that this driver lists no processes, so that an emptied GPU cannot be verified."""
        for gpu in self._gpus:
            try:
                pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle_of[gpu.uuid])
            except pynvml.NVMLError as error:
                if lists_none(pynvml, error):
                    _log.warning("no process of GPU %s can be seen, nor whether one is left there: %s", gpu.uuid, error)

    def _event(self, event: Any) -> HealthEvent:
        uuid = _try(pynvml.nvmlDeviceGetUUID, event.device)
        uuid = None if uuid is None else _text(uuid)
        if event.eventType == pynvml.nvmlEventTypeDoubleBitEccError:
            return HealthEvent("ecc", uuid, "double-bit ECC error")
        return HealthEvent("xid", uuid, "Xid {}".format(event.eventData), int(event.eventData))

    def _lose(self, gpu: GpuInfo, error: Any) -> None:
        """Tell that a GPU is lost; one may be unable to answer for a moment, as while it is reset."""
        self._silent[gpu.uuid] += 1
        is_lost = error.value == pynvml.NVML_ERROR_GPU_IS_LOST or self._silent[gpu.uuid] >= _SILENT_READINGS
        if is_lost and gpu.uuid not in self._lost:
            self._lost.append(gpu.uuid)
            self._unsaid.append(HealthEvent("gpu_lost", gpu.uuid, str(error)))


def _info(index: int, handle: Any) -> GpuInfo:
    bus = _text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
    return GpuInfo(
        index=index,
        uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
        model=_model(_text(pynvml.nvmlDeviceGetName(handle))),
        memory_mib=pynvml.nvmlDeviceGetMemoryInfo(handle).total >> 20,
        pci_bus_id=bus,
        numa_node=_numa_node(bus),
    )


def _model(name: str) -> str:
    """The short name that jobs use: `NVIDIA A100-SXM4-80GB` is `A100`, `NVIDIA GeForce RTX 4090` is `RTX4090`."""
    words = [
        word for word in name.split() if word not in ("NVIDIA", "Tesla", "GeForce", "Quadro", "Graphics", "Device")
    ]
    joined = "".join(words[:2]) if words and words[0] in ("RTX", "GTX", "TITAN") else "".join(words[:1])
    return joined.split("-")[0] or name


def _numa_node(bus: str) -> Optional[int]:
    """The NUMA node in sysfs, where the PCI domain has four digits and not NVML's eight."""
    path = "/sys/bus/pci/devices/{}/numa_node".format(_bus(bus))
    if not os.path.exists(path):
        return None
    with open(path, encoding="ascii") as file:
        node = int(file.read())
    return node if node >= 0 else None


def _nvlinks(handle: Any) -> _NvLinks:
    """The far ends of a GPU's active NVLinks. The far end of a link to an NVSwitch is the switch, and no GPU."""
    peers, to_switches = [], 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if not _try(pynvml.nvmlDeviceGetNvLinkState, handle, link):
            continue
        if _try(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link) == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            to_switches += 1
            continue
        peer = _try(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if peer is not None:
            peers.append(_bus(_text(peer.busId)))
    return _NvLinks(tuple(peers), to_switches)


def _ecc() -> Tuple[int, int]:
    """The kinds of memory errors: those that were corrected and those that were not."""
    return pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED


def _bus(bus: str) -> str:
    """A bus id such that equal ones are equal: drivers differ in the case and in the digits of the domain."""
    return bus.lower()[-12:]


def _try(read: Callable[..., Any], *arguments: Any) -> Any:
    """A reading, or None where this GPU does not have it."""
    try:
        return read(*arguments)
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str:
    """Old versions of pynvml answer in bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
