"""Shockwave's traces: Gavel's, with each job's batch size mode and its planned run time.

Source: Zheng et al., "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine Learning",
NSDI 2023, and its artifact. The mode (static, accordion, gns) follows the scale factor, and the run time on V100s
precedes the submission. The work is that of a static job: changes of the batch size are not modelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.gavel import StepsTable
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Draft, Source, Unusable, amount
from scheduler.sim.trace import Trace

_COLUMNS = 12
_MODES = frozenset({"static", "accordion", "gns"})

FORMAT = Format(
    name="shockwave",
    sentence="Shockwave's traces: Gavel's, with a mode and a planned run time; needs throughputs.",
    files=("*_dynamic.trace", "*.trace"),
    sniff=lambda lines: bool(lines) and all(_looks_like(line) for line in lines),
    ordered=True,
    peer=Peer(source="Shockwave's simulator, a descendant of Gavel's", cluster="V100:8x4", round_s=120.0),
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file."""
    source = Source(path, options, ordered=True)
    steps = StepsTable(path, options, prefer=("tacc_throughputs.json", "simulation_throughputs.json"))

    def draft(row: Sequence[str]) -> Draft:
        if len(row) != _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}")
        if row[7] not in _MODES:
            raise Unusable(f"unknown mode {row[7]!r}")
        amount(row[10], "the planned run time")
        job = steps.draft(model=row[0], total=row[5], gpus=row[6], weight=row[8], slo=row[9], submitted=row[11])
        job["mode"] = row[7]
        return job

    source.add_each(((line, text.split("\t")) for line, text in source.lines()), draft)
    return replace(source.trace(), throughputs=steps.table)


def _looks_like(line: str) -> bool:
    row = line.split("\t")
    return len(row) == _COLUMNS and row[7] in _MODES
