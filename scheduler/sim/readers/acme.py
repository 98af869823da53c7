"""Acme's Kalos trace (Shanghai AI Laboratory, 2023), as converted for simulators: iterations of workers with GPUs.

Source: Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024. A job's run time
is its iterations times the computing time of one, by the conversion; how it ended is unknown. Each worker is a rank on
a node of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import amount, gpu_count, has_columns, per_gpu, table_reader
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = (
    "job_id", "arrival_time", "num_iteration", "iteration_computing_time", "gpu_workers", "gpu_per_worker",
    "cpu_per_gpu_worker",
)  # fmt: skip

FORMAT = Format(
    name="acme",
    sentence="Acme's converted Kalos trace: submission, iterations, workers and GPUs of each, one line a job.",
    files=("converted_kalos_trace.csv",),
    sniff=has_columns(*_COLUMNS),
)


def _draft(row: Sequence[str], _options: ReadOptions) -> TraceJob:
    name, submitted, iterations, iteration_s, workers, gpus, cpus = row
    nodes = gpu_count(workers, "gpu_workers")
    run_s = amount(iterations, "num_iteration") * amount(iteration_s, "iteration_computing_time")
    return TraceJob(
        id=0,
        name=name,
        submitted_s=amount(submitted, "arrival_time"),
        gpus=nodes * gpu_count(gpus, "gpu_per_worker"),
        work=FixedWork(run_s),
        nodes=nodes,
        split=False,
        cpus=per_gpu(amount(cpus, "cpu_per_gpu_worker"), 1),
    )


read = table_reader(_COLUMNS, _draft)
