"""Chronus's traces: jobs of several origins with drawn models and deadlines.

Source: Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC 2021, and its
artifact. Of several deadlines the first counts, in seconds after the submission. The times of its cut of Philly look
like minutes (mean run time 260.8, while Philly's is 18,006 s), but its authors' program reads them as seconds;
`unit_s=60` reads them as minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sys import intern

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Draft, Source, Unusable, amount, gpu_count, has_columns
from scheduler.sim.trace import Trace
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


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file."""
    source = Source(path, options)
    unit_s = options.unit_s

    def draft(row: Sequence[str]) -> Draft:
        name, user, gpus, submitted, model, duration, deadlines, kind = row
        if kind not in _KINDS:
            raise Unusable(f"unknown job_type {kind!r}")
        first = None if kind == _BEST_EFFORT else amount(deadlines.partition("-")[0], "expect_time_list")
        return {
            "name": name,
            "submitted_s": amount(submitted, "submit_time") * unit_s,
            "gpus": gpu_count(gpus),
            "work": FixedWork(amount(duration, "duration") * unit_s),
            "vc": intern(user.removeprefix("vc_")),
            "model": intern(model),
            "deadline_s": None if first is None else first * unit_s,
        }

    source.add_each(source.table(_COLUMNS), draft)
    return source.trace()
