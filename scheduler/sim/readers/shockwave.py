"""Shockwave's traces: Gavel's, with each job's batch size mode and its planned run time.

Source: Zheng et al., "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine Learning",
NSDI 2023, and its artifact. The mode (static, accordion, gns) follows the scale factor, and the run time on V100s
precedes the submission. The work is that of a static job, unless the option `batch_sizes` is set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.gavel import StepsTable
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Source, Unusable, amount
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import ChangingWork, StepsWork

_COLUMNS = 12
_MODES = frozenset({"static", "accordion", "gns"})

FORMAT = Format(
    name="shockwave",
    sentence="Shockwave's traces: Gavel's, with a mode and a planned run time; needs throughputs.",
    files=("*_dynamic.trace", "*.trace"),
    sniff=lambda lines: bool(lines) and all(_looks_like(line) for line in lines),
    ordered=True,
    peer=Peer(
        source="Shockwave's simulator, a descendant of Gavel's",
        cluster="V100:8x4",
        round_s=120.0,
        restart_s=20.0,
        policies={"gavel": {"round_s": 120.0, "reset_s": 1000.0, "idle_gpus": "solved"}},
        works={"batch_sizes": True},
    ),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file."""
    source = Source(path, options, ordered=True)
    steps = StepsTable(path, options, prefer=("tacc_throughputs.json", "simulation_throughputs.json"))
    changes = _changes(path) if options.batch_sizes else {}

    def draft(row: Sequence[str]) -> TraceJob:
        *row, number = row
        if len(row) != _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}")
        if row[7] not in _MODES:
            raise Unusable(f"unknown mode {row[7]!r}")
        amount(row[10], "the planned run time")
        job = steps.draft(model=row[0], total=row[5], gpus=row[6], weight=row[8], slo=row[9], submitted=row[11])
        job = replace(job, mode=row[7])
        if int(number) in changes:
            try:
                job = replace(job, work=_changing(changes[int(number)], steps, row[0], cast(StepsWork, job.work)))
            except Unusable:
                raise
            except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
                raise Unusable(f"its batch sizes are malformed: {error!r}") from None
        return job

    rows = enumerate(source.lines())
    source.add_each(((line, [*text.split("\t"), str(number)]) for number, (line, text) in rows), draft)
    return replace(source.trace(), throughputs=steps.table)


def _changes(path: Path) -> Mapping[int, Mapping[str, Any]]:
    """The changes of each job's batch size, by its place in the trace; empty without such a file."""
    name = path.name.removesuffix(".gz").removesuffix(".trace") + ".json"
    beside = (folder / "batch_sizes" / name for folder in (path.parent, path.parent.parent))
    file = next((each for each in beside if each.is_file()), None)
    try:
        return {} if file is None else {each["job"]: each for each in json.loads(file.read_text())}
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{name}, line 1: no list of jobs with their batch sizes: {error}") from None


def _changing(changes: Mapping[str, Any], steps: StepsTable, model: str, work: StepsWork) -> StepsWork | ChangingWork:
    """The work of a job whose batch size changes; its epochs are those of its steps at the first batch size."""
    runs, samples = changes["batch_size_from_epoch"], changes["samples_per_epoch"]
    first = runs[0][1]
    name, epochs, pieces = model.split(" (", maxsplit=1)[0], work.steps * first / samples, []
    for (begin, size), (end, _) in pairwise([*runs, (epochs, None)]):
        over = min(end, epochs) - begin
        if over > 0:
            of_size = model if size == first else f"{name} (batch size {size})"
            pieces.append(steps.work(of_size, work.gpus, over * samples / size))
    return ChangingWork(tuple(pieces)) if len(pieces) > 1 else work


def _looks_like(line: str) -> bool:
    row = line.split("\t")
    return len(row) == _COLUMNS and row[7] in _MODES
