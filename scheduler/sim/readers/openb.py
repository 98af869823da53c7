"""The pods of Alibaba's production cluster `openb` (2023), many of which share a GPU.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, and cluster-trace-gpu-v2023. A pod runs from `scheduled_time` to `deletion_time`; a pod still running
at the end of the trace is cut off there. `gpu_milli` is the share of each GPU in thousandths. Pods without GPUs, and
pods that were never scheduled, are left out. The class of service serves as the virtual cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import (
    Excluded,
    Unusable,
    amount,
    has_columns,
    is_nothing,
    per_gpu,
    some_gpus,
    table_reader,
    whole,
)
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
_STATUS = {"Succeeded": "succeeded", "Failed": "failed", "Running": "", "Pending": ""}

FORMAT = Format(
    name="openb",
    sentence="Alibaba's openb pods: GPUs or a part of one, CPUs, memory, class of service and times, one line a pod.",
    files=("openb_pod_list*.csv",),
    sniff=has_columns(*_COLUMNS),
)


def _draft(row: Sequence[str], _options: ReadOptions) -> TraceJob:
    name, cpu_milli, memory_mib, gpus, gpu_milli, spec, qos, phase, created, deleted, scheduled = row
    if phase not in _STATUS:
        raise Unusable(f"unknown pod_phase {phase!r}")
    count = some_gpus(gpus, "num_gpu")
    share = whole(gpu_milli, "gpu_milli")
    if not 0 < share <= 1000:
        raise Unusable(f"gpu_milli is {share}, not from 1 to 1000")
    if is_nothing(scheduled):
        raise Excluded("never started")
    submitted_s, started_s = amount(created, "creation_time"), amount(scheduled, "scheduled_time")
    run_s = amount(deleted, "deletion_time") - started_s
    if run_s < 0:
        raise Unusable(f"deleted {-run_s:g} s before it was scheduled")
    if started_s < submitted_s:
        raise Unusable(f"scheduled {submitted_s - started_s:g} s before its creation")
    types = tuple(intern(each) for each in spec.split("|") if each)
    return TraceJob(
        id=0,
        name=name,
        submitted_s=submitted_s,
        gpus=count,
        work=FixedWork(run_s),
        gpu_type=types[0] if len(types) == 1 else None,
        gpu_types=types if len(types) > 1 else (),
        gpu_share=share / 1000,
        vc=intern(qos),
        cpus=per_gpu(amount(cpu_milli, "cpu_milli") / 1000, count),
        memory_mib=per_gpu(amount(memory_mib, "memory_mib"), count),
        status=_STATUS[phase],
        waited_s=started_s - submitted_s,
    )


read = table_reader(_COLUMNS, _draft)
