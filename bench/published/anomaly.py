"""The sharing anomaly on a trace of five jobs: two tenants own a node of four GPUs each, by quota or by cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.result import Result
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

GPUS, GPU_TYPE = 4, "V100"
FIRST, SECOND = "first", "second"
# Name, virtual cluster, submission and run time in minutes, GPUs.
JOBS = (
    ("a1", FIRST, 0.0, 60.0, 2),
    ("b1", SECOND, 1.0, 300.0, 2),
    ("a2", FIRST, 2.0, 60.0, 2),
    ("b2", SECOND, 3.0, 300.0, 2),
    ("a3", FIRST, 30.0, 60.0, 4),
)
_COLOURS = {FIRST: "#0072B2", SECOND: "#E69F00"}


def trace(vc: str | None = None) -> Trace:
    """The jobs of both tenants, or of one."""
    jobs = tuple(
        TraceJob(number, name, 60 * at, gpus, FixedWork(60 * runs), vc=owner)
        for number, (name, owner, at, runs, gpus) in enumerate(JOBS, start=1)
        if vc in {None, owner}
    )
    return Trace("anomaly", jobs)


def runs() -> Mapping[str, Result]:
    """The first tenant alone on its node, and both on two nodes under each admission."""
    quotas = {vc: {GPU_TYPE: GPUS} for vc in (FIRST, SECOND)}
    options = Options(admission="quota", quotas=quotas, one_node=True, spans=True)
    both = parse_cluster(f"{GPU_TYPE}:2x{GPUS}")
    return {
        "the first tenant alone": simulate(trace(FIRST), parse_cluster(f"{GPU_TYPE}:1x{GPUS}"), options),
        "plain quotas": simulate(trace(), both, options),
        "cells": simulate(trace(), both, replace(options, admission="hived")),
    }


def table() -> str:
    """The waits of all jobs, in minutes."""
    found = runs()
    lines = [f"| job | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for name, vc, at, lasts, gpus in JOBS:
        cells = []
        for result in found.values():
            started = [record.started_s for record in result.records if record.name == name]
            cells.append(f"{(started[0] or 0) / 60 - at:g}" if started else "–")
        lines.append(f"| {name}: {gpus} GPUs of the {vc} tenant at {at:g}, for {lasts:g} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(path: Path) -> None:
    """Draw the GPUs that each job holds over time, a panel for each run."""
    found = runs()
    with mpl.rc_context({"svg.hashsalt": "cells", "font.size": 9}):
        figure = Figure(figsize=(7.2, 5.2), layout="constrained")
        panels = figure.subplots(len(found), 1, sharex=True, height_ratios=[1, 2, 2])
        for panel, (title, result) in zip(panels, found.items(), strict=True):
            names = {record.id: (record.name, record.vc) for record in result.records}
            for span in result.spans:
                name, vc = names[span.job_id]
                for gpu_id in span.gpu_ids:
                    start, length = span.start_s / 60, (span.end_s - span.start_s) / 60
                    panel.barh(gpu_id, length, 0.9, start, color=_COLOURS[vc], edgecolor="white")
                    panel.text(start + length / 2, gpu_id, name, ha="center", va="center", color="white", fontsize=8)
            panel.axhline(GPUS + 0.5, color="black", linewidth=0.8)
            panel.axvline(30, color="#444444", linestyle=":")
            panel.set(title=title, ylim=(result.gpus + 0.5, 0.5), yticks=range(1, result.gpus + 1), ylabel="GPU")
        panels[-1].set(xlabel="time (min); a3 is submitted at the dotted line", xlim=(0, 370))
        keys = [Patch(color=colour, label=f"the {vc} tenant") for vc, colour in _COLOURS.items()]
        figure.legend(handles=keys, loc="outside lower center", frameon=False, ncols=2)
        figure.savefig(path, format="svg", metadata={"Date": None})
