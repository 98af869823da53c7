"""Philly's jobs as extended by Gavel's authors: a model drawn at random, and the steps that fill the run time.

One file for all virtual clusters, each of which counts its time from its own first job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from sys import intern

from scheduler.sim.readers import Format
from scheduler.sim.readers.gavel import GAVEL, StepsTable
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Source, amount, gpu_count, has_columns, number
from scheduler.sim.trace import Trace, TraceJob

_COLUMNS = ("vc", "arrival_s", "num_gpus", "gavel_job_type", "total_steps", "priority_weight")

FORMAT = Format(
    name="philly_gavel",
    sentence="Philly with a model for each job: virtual cluster, submission, GPUs, model and steps, one line a job.",
    files=("philly_by_vc.csv",),
    sniff=has_columns(*_COLUMNS),
    peer=GAVEL,
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file."""
    source = Source(path, options)
    steps = StepsTable(path, options)

    def draft(row: Sequence[str]) -> TraceJob:
        vc, submitted, gpus, model, total, weight = row
        count = gpu_count(gpus)
        return TraceJob(
            id=0,
            name="philly",
            submitted_s=amount(submitted, "arrival_s"),
            gpus=count,
            work=steps.work(model, count, amount(total, "total_steps")),
            vc=intern(vc),
            model=intern(model),
            weight=number(weight, "priority_weight"),
        )

    source.add_each(source.table(_COLUMNS), draft)
    return replace(source.trace(), throughputs=steps.table)
