"""Gavel's traces: tab-separated, no header; a job's run time follows from its steps and a table of throughputs.

Source: Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020, and
its artifact. The columns: job type, command, working directory, name of the steps argument, whether it needs data,
steps, scale factor (GPUs), weight, SLO (as a multiple of the run time; -1: none), submission in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from sys import intern

from scheduler.sim.applications import ApplicationError, read_throughputs
from scheduler.sim.readers import Format, Peer
from scheduler.sim.readers.options import ReadOptions
from scheduler.sim.readers.source import Source, Unusable, amount, gpu_count, number
from scheduler.sim.trace import Trace, TraceError, TraceJob
from scheduler.sim.work import StepsWork

_COLUMNS = 10
_REFERENCE = "V100"

GAVEL = Peer(
    source="Gavel's simulator: a round ends when its latest job does, and a restart costs nothing",
    cluster="V100:2x4,P100:4x4,K80:6x4",
    round_s=360.0,
)

FORMAT = Format(
    name="gavel",
    sentence="Gavel's traces: model, steps, GPUs, weight and submission, separated by tabs; needs throughputs.",
    files=("*.trace",),
    sniff=lambda lines: bool(lines) and all(_looks_like(line, _COLUMNS, 6) for line in lines),
    ordered=True,
    peer=GAVEL,
)


def read(path: Path, options: ReadOptions) -> Trace:
    """The jobs of such a file."""
    source = Source(path, options, ordered=True)
    steps = StepsTable(path, options)

    def draft(row: Sequence[str]) -> TraceJob:
        if len(row) != _COLUMNS:
            raise Unusable(f"{len(row)} columns, not {_COLUMNS}")
        return steps.draft(model=row[0], total=row[5], gpus=row[6], weight=row[7], slo=row[8], submitted=row[9])

    source.add_each(((line, text.split("\t")) for line, text in source.lines()), draft)
    return replace(source.trace(), throughputs=steps.table)


class StepsTable:
    """The throughputs for a trace whose jobs count steps of a model: the given table, else the one beside the trace."""

    def __init__(
        self, path: Path, options: ReadOptions, *, prefer: tuple[str, ...] = ("simulation_throughputs.json",)
    ) -> None:
        beside = [folder / name for folder in (path.parent, path.parent.parent) for name in prefer]
        where = options.throughputs or next((file for file in beside if file.is_file()), None)
        if where is None:
            raise TraceError(
                f"{path.name}, line 1: jobs count steps, so their throughputs are needed (a file, or a folder with "
                f"{' or '.join(prefer)})"
            )
        try:
            self.table = read_throughputs(where, prefer=prefer)
        except ApplicationError as error:
            raise TraceError(f"{path.name}, line 1: {error}") from None
        self._scattered = options.consolidation

    def work(self, model: str, gpus: int, steps: float) -> StepsWork:
        """`steps` steps of this model on `gpus` GPUs."""
        rates = self.table.rates(model, gpus)
        if not rates:
            raise Unusable(f"no throughput of {model!r} on {gpus} GPUs")
        scattered = self.table.scattered_rates(model, gpus) if self._scattered and gpus > 1 else None
        return StepsWork(steps, gpus, rates, scattered, reference=_REFERENCE if _REFERENCE in rates else None)

    def draft(self, *, model: str, total: str, gpus: str, weight: str, slo: str, submitted: str) -> TraceJob:
        """A job from Gavel's columns."""
        count = gpu_count(gpus, "the scale factor")
        work = self.work(model, count, amount(total, "the number of steps"))
        factor = number(slo, "the SLO")
        return TraceJob(
            id=0,
            name=model,
            submitted_s=amount(submitted, "the submission"),
            gpus=count,
            work=work,
            model=intern(model),
            weight=_weight(weight),
            deadline_s=factor * work.remaining_s(0.0) if factor > 0 else None,
        )


def _weight(text: str) -> float:
    weight = number(text, "the weight")
    if weight <= 0:
        raise Unusable(f"the weight is {text}, not above 0")
    return weight


def _looks_like(line: str, columns: int, scale: int) -> bool:
    row = line.split("\t")
    # Other logs of ten columns begin with a job number; these begin with a model.
    return len(row) == columns and row[scale].isdigit() and not row[0].strip().isdigit()
