"""The cluster logs of Helios (SenseTime, 2020): one line a job, with its end, submission, start and run time.

Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021,
and HeliosData. About half of the jobs use CPUs only; those, and jobs that never started, are left out.
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
    moment,
    per_gpu,
    some_gpus,
    table_reader,
)
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = ("job_id", "user", "vc", "gpu_num", "cpu_num", "state", "submit_time", "start_time", "duration")
_STATUS = {
    "COMPLETED": "succeeded",
    "CANCELLED": "cancelled",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
}

FORMAT = Format(
    name="helios",
    sentence="Helios's logs: user, virtual cluster, GPUs, CPUs, end, submission, start and run time, one line a job.",
    files=("cluster_log.csv",),
    sniff=has_columns(*_COLUMNS),
)


def _draft(row: Sequence[str], _options: ReadOptions) -> TraceJob:
    name, user, vc, gpus, cpus, state, submitted, started, duration = row
    status = _STATUS.get(state.strip().upper())
    if status is None:
        raise Unusable(f"unknown state {state!r}")
    count = some_gpus(gpus, "gpu_num")
    if is_nothing(started):
        raise Excluded("never started")
    submitted_s = moment(submitted, "submit_time")
    waited_s = moment(started, "start_time") - submitted_s
    if waited_s < 0:
        raise Unusable(f"started {-waited_s:g} s before its submission")
    return TraceJob(
        id=0,
        name=name,
        submitted_s=submitted_s,
        gpus=count,
        work=FixedWork(amount(duration, "duration")),
        vc=intern(vc),
        owner=intern(user),
        cpus=per_gpu(amount(cpus, "cpu_num"), count),
        status=status,
        waited_s=waited_s,
    )


read = table_reader(_COLUMNS, _draft, dated=True)
