"""Microsoft's Philly trace as cut by Sia's authors: one line a job, with its run time but without its end.

Source: Jeon et al., ATC 2019, filtered for Jayaram Subramanya et al. (Sia), SOSP 2023: 93 % of the jobs have one GPU,
while the full trace has a mean of 1.93. Times are the cluster's local ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import amount, gpu_count, has_columns, moment, table_reader
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")

FORMAT = Format(
    name="philly_csv",
    sentence="Philly as cut for Sia: submission, run time, GPUs and virtual cluster, one line a job.",
    files=("philly*.csv",),
    sniff=has_columns(*_COLUMNS),
    peer=Peer(
        source="Sia's simulator",
        round_s=60.0,
        restart_s=30.0,
    ),
)


def _draft(row: Sequence[str], _options: ReadOptions) -> TraceJob:
    submitted, duration, gpus, vc = row
    return TraceJob(
        id=0,
        name="philly",
        submitted_s=moment(submitted, "timestamp"),
        gpus=gpu_count(gpus),
        work=FixedWork(amount(duration, "duration")),
        vc=intern(vc),
    )


read = table_reader(_COLUMNS, _draft, dated=True)
