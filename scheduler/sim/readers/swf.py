"""The Standard Workload Format of the Parallel Workloads Archive: 18 columns, comments behind semicolons.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999.
`processors_per_gpu` processors are read as one GPU; unknown values are -1. The queue is the virtual cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from sys import intern

from scheduler.sim.readers import Format
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Excluded, Source, Unusable, amount, gpu_count, number, per_gpu
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import FixedWork

_COLUMNS = 18
_UNKNOWN = -1
_STATUS = {-1: "", 0: "failed", 1: "succeeded", 5: "cancelled"}
_PARTIAL = frozenset({2, 3, 4})  # parts of a swapped-out job: the whole job has a line of its own

FORMAT = Format(
    name="swf",
    sentence="The Standard Workload Format: 18 numbers a job, processors read as GPUs.",
    files=("*.swf",),
    sniff=lambda lines: bool(lines) and all(_looks_like(line) for line in lines),
    ordered=True,
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file that ran."""
    if options.processors_per_gpu < 1:
        raise TraceError(f"{path.name}: processors_per_gpu is {options.processors_per_gpu}, not at least 1")
    source = Source(path, options, ordered=True)

    def draft(row: Sequence[str]) -> TraceJob:
        if len(row) != _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}")
        status = int(number(row[10], "the status"))
        if status in _PARTIAL:
            raise Excluded("is a part of a job")
        if status not in _STATUS:
            raise Unusable(f"unknown status {status}")
        run_s, limit_s = _known(row[3], "the run time"), _known(row[8], "the requested time")
        if run_s is None:
            raise Excluded("never ran")
        processors = next((field for field in (row[4], row[7]) if _known(field, "the number of processors")), "0")
        queue, user = row[14], row[11]
        return TraceJob(
            id=0,
            name=row[0],
            submitted_s=amount(row[1], "the submission"),
            gpus=per_gpu(gpu_count(processors, "the number of processors"), options.processors_per_gpu),
            work=FixedWork(run_s),
            vc="default" if queue == "-1" else intern(f"queue-{queue}"),
            owner="owner" if user == "-1" else intern(f"user-{user}"),
            time_limit_s=limit_s,
            status=_STATUS[status],
            waited_s=_known(row[2], "the wait"),
        )

    source.add_each(((line, text.split()) for line, text in source.lines() if not text.startswith(";")), draft)
    return source.trace()


def _known(text: str, what: str) -> float | None:
    return None if number(text, what) == _UNKNOWN else amount(text, what)


def _looks_like(line: str) -> bool:
    # Broken numbers are reported later, by the reader.
    row = line.split()
    return line.startswith(";") or (len(row) == _COLUMNS and row[0].isdigit())
