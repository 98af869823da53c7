"""How NVML says that a GPU is: errors it counts, rows it remaps, why it is slow, and memory that nobody holds."""

from __future__ import annotations

from typing import Any, Callable, Optional

from nodeagent.gpu.watch import Condition

# With no process on it a GPU has its driver's own memory in use, which is less than this.
_DRIVERS_OWN_MIB = 2048

Try = Callable[..., Any]


def condition_of(pynvml: Any, attempt: Try, uuid: str, handle: Any) -> Condition:
    """The condition of a GPU; `attempt` calls a function of NVML and is None where this GPU does not have it."""
    errors = attempt(
        pynvml.nvmlDeviceGetTotalEccErrors,
        handle,
        pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        pynvml.NVML_VOLATILE_ECC,
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
    """Why the hardware slows it down. That it reaches its power limit, as software set it, is no fault."""
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
