"""Chronus's traces: jobs of several origins with drawn models and deadlines.

Source: Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC 2021, and its
artifact. Of several deadlines the first counts, in seconds after the submission. The times of its cut of Philly look
like minutes (mean run time 260.8, while Philly's is 18,006 s), but its authors' program reads them as seconds;
`unit_s=60` reads them as minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Unusable, amount, gpu_count, has_columns, table_reader
from scheduler.sim.trace import TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = ("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list", "job_type")
_BEST_EFFORT = "best"
_KINDS = frozenset({"strict", "soft", _BEST_EFFORT})

FORMAT = Format(
    name="chronus",
    sentence="Chronus's traces: virtual cluster, GPUs, submission, model, run time and deadlines, one line a job.",
    files=("trace_job_*.csv",),
    sniff=has_columns(*_COLUMNS),
    peer=Peer(source="Chronus's simulator"),
)


def _draft(row: Sequence[str], options: ReadOptions) -> TraceJob:
    name, user, gpus, submitted, model, duration, deadlines, kind = row
    if kind not in _KINDS:
        raise Unusable(f"unknown job_type {kind!r}")
    first = None if kind == _BEST_EFFORT else amount(deadlines.partition("-")[0], "expect_time_list")
    return TraceJob(
        id=0,
        name=name,
        submitted_s=amount(submitted, "submit_time") * options.unit_s,
        gpus=gpu_count(gpus),
        work=FixedWork(amount(duration, "duration") * options.unit_s),
        vc=intern(user.removeprefix("vc_")),
        model=intern(model),
        deadline_s=None if first is None else first * options.unit_s,
    )


read = table_reader(_COLUMNS, _draft)
