"""The part of docs/design/measurements/estimates.md on errors of rates, by the number measured, on published tables."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean, median, quantiles

from scheduler.predict.rates import Ask, Measurement, Rates, Size, Subject

BEGIN, END = "<!-- errors -->\n", "<!-- /errors -->"
SEED = 7
SPARSE = 3  # types on which each other job was measured

Table = Mapping[str, Mapping[str, float]]  # rates by job and GPU type


@dataclass(frozen=True, slots=True)
class Error:
    """log(estimate / truth) of an entry that was held out, the same without knowing types, and the stated deviation."""

    log: float
    agnostic_log: float
    deviation: float


def gpemu(folder: Path) -> Table:
    """Samples per second of each model on each type, with the largest batch of a power of two that fits on all."""
    seconds: defaultdict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    with gzip.open(folder / "gpemu" / "compute_time.csv.gz", "rt") as lines:
        found: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
        for row in csv.DictReader(lines):
            if row["seconds"]:
                found[row["model"], row["gpu"], int(float(row["batch_size"]))].append(float(row["seconds"]))
    for (model, gpu, batch), phases in found.items():
        if len(phases) == 2 and batch.bit_count() == 1:
            seconds[model, batch][gpu] = sum(phases)
    types = max(map(len, seconds.values()))
    table: dict[str, Mapping[str, float]] = {}
    for (model, batch), by_type in sorted(seconds.items(), key=lambda one: one[0]):
        if len(by_type) == types:
            table[model] = {gpu: batch / time for gpu, time in by_type.items()}
    return table


def gavel(folder: Path) -> dict[int, Table]:
    """Steps per second of Gavel's job types, by the number of GPUs."""
    stored = json.loads((folder / "gavel" / "simulation_throughputs.json").read_text())
    tables: defaultdict[int, defaultdict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for gpu_type, jobs in stored.items():
        if "unconsolidated" in gpu_type:
            continue
        for key, rates in jobs.items():
            name, gpus = ast.literal_eval(key)
            if rates["null"] > 0:
                tables[gpus][name][gpu_type] = rates["null"]
    return {gpus: tables[gpus] for gpus in sorted(tables)}


def errors(table: Table, known: int, *, others_on: int | None = None) -> Iterator[Error]:
    """Leave each job out in turn, measure it on `known` types, and estimate the rest from the other jobs."""
    draw = Random(SEED)
    for left_out, truth in table.items():
        if len(truth) <= known:
            continue
        history = []
        for name, row in table.items():
            types = list(row) if others_on is None else draw.sample(sorted(row), min(others_on, len(row)))
            history += [] if name == left_out else [_seen(name, gpu_type, row[gpu_type]) for gpu_type in types]
        measured = draw.sample(sorted(truth), known)
        history += [_seen(left_out, gpu_type, truth[gpu_type]) for gpu_type in measured]
        level = fmean(math.log(truth[gpu_type]) for gpu_type in measured)
        sizes = tuple(Size(gpu_type, 1) for gpu_type in truth if gpu_type not in measured)
        for rate in Rates(history).estimate(Ask(_subject(left_out), sizes)).rates:
            right = truth[rate.size.gpu_type]
            yield Error(math.log(rate.per_s / right), level - math.log(right), rate.deviation / rate.per_s)


def errors_of_sizes(tables: Mapping[int, Table], gpu_type: str) -> Iterator[Error]:
    """Leave each job out in turn, measure it on the fewest GPUs of a type, and estimate its rate on more of them."""
    rows: defaultdict[str, dict[int, float]] = defaultdict(dict)
    for gpus, table in tables.items():
        for name, row in table.items():
            if gpu_type in row:
                rows[name][gpus] = row[gpu_type]
    several = {name: row for name, row in rows.items() if len(row) > 1}
    for left_out, truth in several.items():
        fewest = min(truth)
        history = [
            _seen(name, gpu_type, per_s, gpus)
            for name, row in several.items()
            for gpus, per_s in row.items()
            if name != left_out or gpus == fewest
        ]
        sizes = tuple(Size(gpu_type, gpus) for gpus in truth if gpus != fewest)
        for rate in Rates(history).estimate(Ask(_subject(left_out), sizes)).rates:
            right = truth[rate.size.gpus]
            yield Error(math.log(rate.per_s / right), math.log(truth[fewest] / right), rate.deviation / rate.per_s)


def page(folder: Path, text: str) -> str:
    """The page with its part made anew."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + part(folder) + text[end:]


def part(folder: Path) -> str:
    """The tables."""
    models, jobs = gpemu(folder), gavel(folder)
    lines = _table(
        f"GPEmu: {len(models)} models on {max(map(len, models.values()))} GPU types",
        {
            "all types": {n: list(errors(models, n)) for n in range(1, 6)},
            f"{SPARSE} types": {n: list(errors(models, n, others_on=SPARSE)) for n in range(1, 6)},
        },
    )
    lines += _table(
        f"Gavel: {len(jobs[1])} jobs on {max(map(len, jobs[1].values()))} GPU types",
        {
            "all types": {n: list(errors(jobs[1], n)) for n in (1, 2)},
            "2 types": {n: list(errors(jobs[1], n, others_on=2)) for n in (1, 2)},
        },
    )
    sizes = list(errors_of_sizes(jobs, "v100"))
    lines += [
        f"Gavel's jobs on more V100s than they were measured on: {len(sizes)} estimates, median error "
        f"{_median(sizes)}, 90 % below {_most(sizes)}; with no growth assumed {_agnostic(sizes)}.",
        "",
    ]
    return "\n".join(lines)


def _table(title: str, found: Mapping[str, Mapping[int, Sequence[Error]]]) -> list[str]:
    lines = [
        f"**{title}**",
        "",
        "| other jobs measured on | this job on | entries | median error | 90 % below | within 1 deviation | within 2 "
        "| median without types |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for others, by_known in found.items():
        lines += [
            f"| {others} | {known} | {len(some)} | {_median(some)} | {_most(some)} | {_within(some, 1)} "
            f"| {_within(some, 2)} | {_agnostic(some)} |"
            for known, some in by_known.items()
        ]
    return [*lines, ""]


def _median(some: Sequence[Error]) -> str:
    return _percent(median(_relative(one.log) for one in some))


def _most(some: Sequence[Error]) -> str:
    return _percent(quantiles([_relative(one.log) for one in some], n=10)[-1])


def _agnostic(some: Sequence[Error]) -> str:
    return _percent(median(_relative(one.agnostic_log) for one in some))


def _within(some: Sequence[Error], deviations: float) -> str:
    return _percent(fmean(abs(one.log) <= deviations * one.deviation for one in some))


def _relative(log: float) -> float:
    return abs(math.expm1(log))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _subject(name: str) -> Subject:
    return Subject(name, "", "")


def _seen(name: str, gpu_type: str, per_s: float, gpus: int = 1) -> Measurement:
    return Measurement(_subject(name), Size(gpu_type, gpus), per_s, 0.02 * per_s)
