"""Sharing safety as figures: what grace periods cost guaranteed jobs, and what bad nodes do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bench.published.tenants import LATER_S, Scheme, cluster_of, nodes_of, options_of, part_of, read
from scheduler.model.lifecycle import JobClass
from scheduler.sim.engine import simulate
from scheduler.sim.result import JobRecord
from scheduler.sim.trace import Trace

GRACES_S = (0.0, 60.0, 600.0, 1800.0)
BAD_NODES = (1, 2, 4)
DIVISOR, HOURS = 8, 400.0
GUESTS = "guests"
_CELLS = Scheme("hived")


def jobs(folder: Path) -> Trace:
    """The jobs of the first 400 hours."""
    trace = read(folder)
    return replace(trace, jobs=tuple(job for job in trace.jobs if job.submitted_s < HOURS * 3600))


def with_guests(trace: Trace) -> Trace:
    """Each job twice: the second one is an opportunistic job of a virtual cluster without cells."""
    last = max(job.id for job in trace.jobs)
    twins = [
        replace(job, vc=GUESTS, job_class=JobClass.OPPORTUNISTIC, id=last + number)
        for number, job in enumerate(trace.jobs, start=1)
    ]
    both = sorted([*trace.jobs, *twins], key=lambda job: (job.submitted_s, job.id))
    return replace(trace, jobs=tuple(both))


def nodes(folder: Path) -> Mapping[str, int]:
    """The nodes of each virtual cluster."""
    return {vc: number // DIVISOR for vc, number in nodes_of(folder).items()}


def alone(trace: Trace, owned: Mapping[str, int], *, fewer: int = 0) -> Mapping[int, float]:
    """The start of each job alone in a cluster of its virtual cluster's cells, or of `fewer` of them."""
    return {
        record.id: _started(record)
        for vc, number in owned.items()
        if number > fewer
        for record in simulate(
            part_of(trace, vc), cluster_of(number - fewer), options_of(_CELLS, {vc: number - fewer})
        ).records
    }


def with_grace(folder: Path, grace_s: float) -> Sequence[float]:
    """Delays beyond the start alone, s, of guaranteed jobs beside opportunistic ones with this grace period."""
    trace, owned = jobs(folder), nodes(folder)
    options = options_of(_CELLS, owned)
    options = replace(options, quotas={**options.quotas, GUESTS: {"V100": 0}}, grace_s=grace_s)
    shared = simulate(with_guests(trace), cluster_of(sum(owned.values())), options)
    starts = alone(trace, owned)
    return [_started(record) - starts[record.id] for record in shared.records if record.id in starts]


@dataclass(frozen=True, slots=True)
class Loss:
    """Delays of jobs where nodes are bad, s: beyond the start alone with all own cells, and with fewer."""

    beside_all_s: Sequence[float]
    beside_fewer_s: Sequence[float]


def with_bad_nodes(folder: Path, bad: int) -> Loss:
    """The shared cluster with this number of bad nodes."""
    trace, owned = jobs(folder), nodes(folder)
    cluster = cluster_of(sum(owned.values()))
    cluster = replace(cluster, groups=tuple(replace(group, bad=bad) for group in cluster.groups))
    starts = {one.id: _started(one) for one in simulate(trace, cluster, options_of(_CELLS, owned)).records}
    whole, fewer = alone(trace, owned), alone(trace, owned, fewer=bad)
    return Loss(
        [starts[job_id] - at for job_id, at in whole.items()], [starts[job_id] - at for job_id, at in fewer.items()]
    )


def table(found: Mapping[float, Sequence[float]]) -> str:
    """A row for each grace period."""
    lines = [
        "| grace, s | jobs that start later than alone | mean of all, s | p99, s | at most, s |",
        "|---|---|---|---|---|",
    ]
    for grace_s, extra in found.items():
        later = [max(0.0, value) for value in extra]
        share = sum(value > LATER_S for value in later) / len(later)
        lines.append(
            f"| {grace_s:g} | {share:.1%} | {fmean(later):,.1f} | {np.percentile(later, 99):,.0f} | {max(later):,.0f} |"
        )
    return "\n".join(lines) + "\n"


def bad_table(found: Mapping[int, Loss]) -> str:
    """A row for each number of bad nodes."""
    lines = [
        "| bad nodes | later than alone with all cells | at most, h | with as many fewer | at most, h |",
        "|---|---|---|---|---|",
    ]
    for bad, loss in found.items():
        both = [
            f"{sum(value > LATER_S for value in extra) / len(extra):.1%} | {max(0.0, *extra) / 3600:.1f}"
            for extra in (loss.beside_all_s, loss.beside_fewer_s)
        ]
        lines.append(f"| {bad} | {' | '.join(both)} |")
    return "\n".join(lines) + "\n"


def draw(found: Mapping[float, Sequence[float]], path: Path) -> None:
    """The share of guaranteed jobs that start later than alone by at least so much, a line for each grace period."""
    with mpl.rc_context({"svg.hashsalt": "cells", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(5.6, 3.0), layout="constrained")
        axes = figure.subplots()
        for (grace_s, extra), colour in zip(found.items(), ("#000000", "#0072B2", "#D55E00", "#009E73"), strict=True):
            later = sorted((value for value in extra if value > LATER_S), reverse=True)
            parts = [number / len(extra) * 100 for number in range(1, len(later) + 1)]
            axes.step(later, parts, where="post", color=colour, label=f"{grace_s:g} s")
        axes.set(xscale="log", xlabel="start later than alone by (s)", ylabel="guaranteed jobs (%)")
        axes.legend(title="grace")
        figure.savefig(path, format="svg", metadata={"Date": None})


def _started(record: JobRecord) -> float:
    if record.started_s is None:
        raise ValueError(f"job {record.id} has not started")
    return record.started_s
