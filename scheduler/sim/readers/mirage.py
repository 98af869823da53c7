"""The queue of Lonestar 6's A100 partition, as Mirage's authors published it: nodes, limits, submission, start, end.

Source: Ding et al., "Mirage: Towards Low-interruption Services on Batch GPU Clusters with Reinforcement Learning", SC
2023. Two lines of header, then columns separated by tabs. Jobs get whole nodes, of three A100 each by default; jobs
that had not started or ended are left out. Only the exit code says why a job ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from sys import intern

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import (
    Excluded,
    Source,
    Unusable,
    amount,
    gpu_count,
    is_nothing,
    moment,
    whole,
)
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = 10
_JOB = re.compile(r"\s*\d\S*\t.*\t\d+\t\d+\t\d+:\d+\t\d+\s*")
_HEADER = ("JobID", "JobName", "UID", "Start", "Submit", "End")

FORMAT = Format(
    name="mirage",
    sentence="Mirage's log of Lonestar 6: submission, start, end, limit and nodes, one line a job.",
    files=("ls6-a100.log", "*.log"),
    sniff=lambda lines: any(tuple(line.split()[: len(_HEADER)]) == _HEADER or _looks_like(line) for line in lines),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file that ran and ended."""
    if options.gpus_per_node < 1:
        raise TraceError(f"{path.name}: gpus_per_node is {options.gpus_per_node}, not at least 1")
    source = Source(path, options, dated=True)

    def draft(row: Sequence[str]) -> TraceJob:
        if len(row) > _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}: JobName contains a tab")
        if len(row) != _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}")
        job_id, name, user, started, submitted, ended, priority, limit, exit_code, count = row
        if is_nothing(started) or is_nothing(ended):
            raise Excluded("never started" if is_nothing(started) else "had not ended")
        submitted_s, started_s = moment(submitted, "Submit"), moment(started, "Start")
        run_s = moment(ended, "End") - started_s
        if run_s < 0 or started_s < submitted_s:
            raise Unusable("submission, start and end are not in this order")
        nodes = gpu_count(count, "NNodes")
        return TraceJob(
            id=0,
            name=intern(name.strip() or job_id),
            submitted_s=submitted_s,
            gpus=nodes * options.gpus_per_node,
            work=FixedWork(run_s),
            owner=intern(user),
            nodes=nodes,
            split=False,
            priority=whole(priority, "Priority"),
            time_limit_s=amount(limit, "TimelimitRaw") * 60,
            status="succeeded" if exit_code == "0:0" else "failed",
            waited_s=started_s - submitted_s,
        )

    rows = ((line, text.split("\t")) for line, text in source.lines() if not _is_header(text))
    source.add_each(rows, draft)
    return source.trace()


def _looks_like(line: str) -> bool:
    """True if the line is a job: its number first, its limit, exit code and nodes last."""
    return bool(_JOB.fullmatch(line))


def _is_header(text: str) -> bool:
    return text.lstrip().startswith(("JobID", "--"))
