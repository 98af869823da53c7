"""The traces of Tiresias's simulator: one line a job, with its GPUs, submission and run time.

Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019, and its artifact.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import amount, gpu_count, has_columns, table_reader
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")

FORMAT = Format(
    name="tiresias",
    sentence="Tiresias's traces: GPUs, submission, model and run time, one line a job.",
    files=("*_job.csv",),
    sniff=has_columns(*_COLUMNS, exactly=True),
    peer=Peer(
        source="Tiresias's simulator: decides at events, and a restart costs nothing",
        cluster="GPU:60x4",
        # Three queues (`num_queue = 3`): the program never uses the third limit.
        policies={"tiresias": {"limits_gpu_s": (3250.0, 7200.0), "promote_knob": 0.0, "tie": "running_first"}},
    ),
)


def _draft(row: Sequence[str], options: ReadOptions) -> TraceJob:
    name, gpus, submitted, _, model, duration, _ = row
    return TraceJob(
        id=0,
        name=name,
        submitted_s=amount(submitted, "submit_time") * options.unit_s,
        gpus=gpu_count(gpus),
        work=FixedWork(amount(duration, "duration") * options.unit_s),
        model=intern(model),
    )


read = table_reader(_COLUMNS, _draft)
