"""The condition of a GPU by NVML: error counts, remapped rows, throttling, and memory that no process holds."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from nodeagent.gpu.port import Occupancy
from nodeagent.gpu.watch import Condition

# With no process on it a GPU has its driver's own memory in use, which is less than this.
_DRIVERS_OWN_MIB = 2048

_RECOVERIES: Dict[int, str] = {
    1: "a reset of the GPU",
    2: "a restart of the machine",
    3: "no use with other GPUs",
    4: "a drain and a reset",
}

Try = Callable[..., Any]


def condition_of(pynvml: Any, attempt: Try, uuid: str, handle: Any) -> Condition:
    """The condition of a GPU; `attempt` calls a function of NVML and is None where this GPU does not have it."""
    errors = attempt(
        pynvml.nvmlDeviceGetTotalEccErrors, handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    rows = attempt(pynvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    return Condition(
        uuid=uuid,
        ecc_uncorrected=errors,
        nvlink_errors=_nvlink_errors(pynvml, attempt, handle),
        remap_pending=bool(rows[2]),
        remap_failed=bool(rows[3]),
        slowdown=_slowdown(pynvml, attempt, handle),
        held_mib=_held_mib(pynvml, attempt, handle),
    )


def fault_of(pynvml: Any, attempt: Try, uuid: str, *, is_alone: bool) -> str:
    """The reason that a GPU is unfit for a start at this moment; empty if it is fit.

    The GPU is looked up by its name each time: a handle from before a reset may be that of a lost GPU.
    """
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        named = pynvml.nvmlDeviceGetUUID(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        return "it does not answer: {}".format(error)
    named = named.decode() if isinstance(named, bytes) else str(named)
    if named != uuid:
        return "the driver shows {} in its place".format(named)
    wanted = _wanted_recovery(pynvml, attempt, handle)
    if wanted:
        return "the driver asks for {}".format(wanted)
    rows = attempt(pynvml.nvmlDeviceGetRemappedRows, handle) or (0, 0, 0, 0)
    if rows[3]:
        return "a row of its memory could not be remapped"
    return _occupant(pynvml, attempt, handle) if is_alone else ""


def occupancy_of(pynvml: Any, handle: Any) -> Occupancy:
    """The processes on a GPU; empty where the driver never lists processes."""
    try:
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError as error:
        return Occupancy() if lists_none(pynvml, error) else Occupancy(problem="it does not answer: {}".format(error))
    return Occupancy(frozenset(int(process.pid) for process in processes))


def lists_none(pynvml: Any, error: Any) -> bool:
    """True if this is no failure: a virtual GPU lists no processes, and a closed container may not see them."""
    return error.value in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION)


def _occupant(pynvml: Any, attempt: Try, handle: Any) -> str:
    """The processes that hold the GPU's memory. A display may hold a little for good, and is no fault."""
    there = occupancy_of(pynvml, handle)
    if there.pids or there.problem:
        return there.problem or there.words
    held_mib = _held_mib(pynvml, attempt, handle)
    return "{} MiB are in use and no process is there".format(held_mib) if held_mib else ""


def _wanted_recovery(pynvml: Any, attempt: Try, handle: Any) -> str:
    """The action by which the driver wants to recover, as Xid 154 names it; older drivers do not say."""
    field = getattr(pynvml, "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", None)
    answer = None if field is None else attempt(pynvml.nvmlDeviceGetFieldValues, handle, [field])
    if not answer or answer[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return ""
    action = int(answer[0].value.uiVal)
    return _RECOVERIES.get(action, "action {}".format(action)) if action else ""


def _nvlink_errors(pynvml: Any, attempt: Try, handle: Any) -> Optional[int]:
    """Recoveries and replays of all its active links: what a sound link does not have."""
    counters = (pynvml.NVML_NVLINK_ERROR_DL_RECOVERY, pynvml.NVML_NVLINK_ERROR_DL_REPLAY)
    found = [
        attempt(pynvml.nvmlDeviceGetNvLinkErrorCounter, handle, link, counter)
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
        if attempt(pynvml.nvmlDeviceGetNvLinkState, handle, link)
        for counter in counters
    ]
    known = [count for count in found if count is not None]
    return sum(known) if known else None


def _slowdown(pynvml: Any, attempt: Try, handle: Any) -> str:
    """The reason that the hardware slows the GPU down. A power limit that software has set is no fault."""
    reasons = attempt(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0
    names = {
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown: "too hot",
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown: "power brake",
        pynvml.nvmlClocksThrottleReasonHwSlowdown: "hardware slowdown",
        pynvml.nvmlClocksThrottleReasonSwThermalSlowdown: "near its thermal limit",
    }
    return ", ".join(name for bit, name in names.items() if reasons & bit)


def _held_mib(pynvml: Any, attempt: Try, handle: Any) -> int:
    lists = (pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetGraphicsRunningProcesses)
    processes = [attempt(listed, handle) for listed in lists]
    memory = attempt(pynvml.nvmlDeviceGetMemoryInfo, handle)
    if memory is None or processes[0] is None or any(processes):
        return 0
    used_mib = int(memory.used >> 20)
    return used_mib if used_mib > _DRIVERS_OWN_MIB else 0
