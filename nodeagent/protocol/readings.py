"""Readings of the agent: allocations, GPUs, the host, and their faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent.protocol.terms import CheckOutcome, EndReason, Observed
from nodeagent.protocol.wire import MAX_DETAIL_CHARACTERS, Message, sentence, text


@dataclass(frozen=True)
class KeptReport(Message):
    """The failure of a retained allocation's command; its surroundings stay for `left_s` more seconds."""

    left_s: float
    reason: EndReason
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))


@dataclass(frozen=True)
class AllocationReport(Message):
    """The agent's report of one allocation; `log_size` counts every byte that the job has written.

    `job_id` tells a platform that was restored from a backup which job it does not know; null = not known.
    An allocation that is `kept` is reported as `running` too, and its end follows.
    """

    id: int
    fence: int
    observed: Observed
    exit_code: Optional[int] = None
    log_size: int = 0
    kept: Optional[KeptReport] = None
    job_id: Optional[int] = None


@dataclass(frozen=True)
class GpuSample(Message):
    """A reading of one GPU; `utilization` is in percent, `processes` a number of processes; null = not readable.

    `ecc_corrected` and `ecc_uncorrected` count the memory errors since the driver was loaded.
    """

    uuid: str = field(metadata=text(80))
    utilization: Optional[float] = None
    memory_used_mib: Optional[int] = None
    power_w: Optional[float] = None
    temperature_c: Optional[float] = None
    processes: Optional[int] = None
    sm_clock_mhz: Optional[int] = None
    memory_clock_mhz: Optional[int] = None
    ecc_corrected: Optional[int] = None
    ecc_uncorrected: Optional[int] = None


@dataclass(frozen=True)
class HostSample(Message):
    """A reading of the host; null = not readable.

    `disk_mib` and `disk_free_mib` are those of the disk that jobs fill, where there are several of the one with the
    least left; `disk_full` says that less is free on one of them than the agent keeps in reserve: nothing new should
    start here.
    """

    cpu_percent: Optional[float] = None
    memory_used_mib: Optional[int] = None
    load1: Optional[float] = None
    disk_mib: Optional[int] = None
    disk_free_mib: Optional[int] = None
    disk_full: Optional[bool] = None


@dataclass(frozen=True)
class UsageSample(Message):
    """Resources that one allocation uses, and its progress; `cpu_cores` is 1.0 for one busy core; null = not known.

    `memory_mib` is what its processes hold of their own; `page_cache_mib` is what the kernel keeps of files for it.
    Disk rates count what reached a disk, and network rates what passed the allocation's own interfaces. `progress` is
    the number that the job itself wrote last, in a unit of its own, and `progress_s` its growth per second.
    """

    id: int
    fence: int
    processes: Optional[int] = None
    cpu_cores: Optional[float] = None
    memory_mib: Optional[float] = None
    page_cache_mib: Optional[float] = None
    disk_read_bytes_s: Optional[float] = None
    disk_write_bytes_s: Optional[float] = None
    net_receive_bytes_s: Optional[float] = None
    net_transmit_bytes_s: Optional[float] = None
    progress: Optional[float] = None
    progress_s: Optional[float] = None


@dataclass(frozen=True)
class MetricPoint(Message):
    """A figure that a job reported, such as its loss, at a step of its own count, if it said one.

    A `value` that is not finite is null, and `odd` says which: nan, inf or -inf. A number beyond 9e18 counts as
    infinite.
    """

    name: str = field(metadata=text(200))
    value: Optional[float] = None
    step: Optional[float] = None
    odd: str = field(default="", metadata=text(10))


@dataclass(frozen=True)
class ReportedMetrics(Message):
    """Metrics that one allocation reported since the last sync, in its order."""

    id: int
    fence: int
    points: Tuple[MetricPoint, ...] = ()


@dataclass(frozen=True)
class HealthEvent(Message):
    """Something that went wrong with a GPU (or, with `gpu_uuid` null, with the node).

    `kind` is one of xid, gpu_lost, ecc, row_remap_pending, row_remap_failed, throttle, nvlink, memory_held,
    check_failed, disk_full, other; `detail` is a sentence, such as "Xid 79", and `xid` the number of an Xid. A lasting
    condition is reported again.
    """

    kind: str = field(metadata=sentence(60))
    gpu_uuid: Optional[str] = field(default=None, metadata=text(80))
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))
    xid: Optional[int] = None


@dataclass(frozen=True)
class CheckResult(Message):
    """The result of a wanted check. `how` says what was done: `nvml` where the GPU was only looked at."""

    number: int
    gpu_uuid: str = field(metadata=text(80))
    outcome: CheckOutcome
    how: str = field(default="", metadata=text(40))
    detail: str = field(default="", metadata=sentence(MAX_DETAIL_CHARACTERS))
    duration_s: float = 0.0
    tflops: Optional[float] = None
    gb_s: Optional[float] = None


@dataclass(frozen=True)
class ProgressNote(Message):
    """The progress of one allocation's start, such as the pulling of its image; one sentence, for people."""

    id: int
    fence: int
    text: str = field(metadata=sentence(MAX_DETAIL_CHARACTERS))
