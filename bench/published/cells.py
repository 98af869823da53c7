"""The figures of docs/design/measurements/cells.md: virtual clusters under quotas, loans and cells."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.published import anomaly, safety
from bench.published.data import with_part
from bench.published.tenants import LATER_S, Scheme, cluster_of, nodes_of, options_of, part_of, read
from scheduler.sim.engine import simulate
from scheduler.sim.metrics import Summary, jct_s, summarize

PLOTS = Path(__file__).resolve().parents[2] / "docs" / "images"
# What the nodes of Helios's file are divided by.
DIVISORS = (4, 8)


SCHEMES: Mapping[str, Scheme] = {
    "quotas": Scheme("quota"),
    "quotas, opportunistic jobs": Scheme("borrow", opportunistic=True),
    "cells": Scheme("hived"),
    "cells, opportunistic jobs": Scheme("hived", opportunistic=True),
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run, and how much later than alone on its own nodes each job ended, s, by virtual cluster."""

    summary: Summary
    later_s: Mapping[str, Sequence[float]]

    @property
    def all_later_s(self) -> Sequence[float]:
        """The same of all jobs."""
        return [value for values in self.later_s.values() for value in values]


def run(folder: Path, divisor: int, title: str) -> Outcome:
    """The scheme on the shared cluster, beside each virtual cluster alone on as many nodes as it owns."""
    trace, scheme = read(folder), SCHEMES[title]
    nodes = {vc: number // divisor for vc, number in nodes_of(folder).items()}
    shared = simulate(trace, cluster_of(sum(nodes.values())), options_of(scheme, nodes))
    alone_s = {
        record.id: jct_s(record)
        for vc, number in nodes.items()
        for record in simulate(part_of(trace, vc), cluster_of(number), options_of(scheme.alone, {vc: number})).records
    }
    later: dict[str, list[float]] = {vc: [] for vc in nodes}
    for record in shared.records:
        later[record.vc].append(jct_s(record) - alone_s[record.id])
    return Outcome(summarize(shared), later)


Runs = Mapping[tuple[int, str], Outcome]


def page(folder: Path, text: str) -> str:
    """The page with its figures made anew, and beside it the plots."""
    runs = list(product(DIVISORS, SCHEMES))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        graces = pool.map(safety.with_grace, [folder] * len(safety.GRACES_S), safety.GRACES_S)
        losses = pool.map(safety.with_bad_nodes, [folder] * len(safety.BAD_NODES), safety.BAD_NODES)
        outcomes = pool.map(run, [folder] * len(runs), *zip(*runs, strict=True))
        found = dict(zip(runs, outcomes, strict=True))
        extra = dict(zip(safety.GRACES_S, graces, strict=True))
        lost = dict(zip(safety.BAD_NODES, losses, strict=True))
    draw(found, PLOTS / "cells-later.svg")
    anomaly.draw(PLOTS / "cells-anomaly.svg")
    safety.draw(extra, PLOTS / "cells-grace.svg")
    parts = {
        "anomaly": anomaly.table(),
        "philly": table(found),
        "tenants": tenants(found, DIVISORS[0]),
        "grace": safety.table(extra),
        "bad": safety.bad_table(lost),
    }
    for name, part in parts.items():
        text = with_part(text, name, part)
    return text


def table(found: Runs) -> str:
    """A row for each cluster and scheme."""
    lines = [
        "| GPUs | scheme | JCT mean, h | p99, h | fair-share delay, min | fragmentation delay, min | use | preemptions "
        "| later than alone | by, mean h | at most, h |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (_, title), one in found.items():
        waits = one.summary.queueing
        late_s = [value for value in one.all_later_s if value > LATER_S]
        cells = (
            f"{one.summary.gpus:,}",
            title,
            f"{(one.summary.jct_mean_s or 0) / 3600:.2f}",
            f"{(one.summary.jct_p99_s or 0) / 3600:,.1f}",
            f"{(waits.fair_share_delay_mean_s or 0) / 60:,.1f}",
            f"{(waits.fragmentation_delay_mean_s or 0) / 60:,.1f}",
            f"{one.summary.utilization or 0:.1%}",
            f"{one.summary.preemptions:,}",
            f"{len(late_s) / len(one.all_later_s):.1%}",
            f"{fmean(late_s) / 3600 if late_s else 0:,.1f}",
            f"{max(late_s, default=0) / 3600:,.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def tenants(found: Runs, divisor: int) -> str:
    """A row for each virtual cluster, a column for each scheme: mean JCT, both delays, use, latest beside alone."""
    lines = [f"| tenant | GPUs | jobs | {' | '.join(SCHEMES)} |", f"|---|---|---|{'---|' * len(SCHEMES)}"]
    runs = {title: found[divisor, title] for title in SCHEMES}
    for rows in zip(*(one.summary.by_vc for one in runs.values()), strict=True):
        cells = []
        for row, one in zip(rows, runs.values(), strict=True):
            delays = (row.fair_share_delay_mean_s or 0, row.fragmentation_delay_mean_s or 0)
            latest_s = max(0.0, *one.later_s[row.vc])
            cells.append(
                f"{(row.jct_mean_s or 0) / 3600:.1f}; {delays[0] / 3600:.1f}, {delays[1] / 3600:.1f}; "
                f"{row.quota_use or 0:.0%}; {row.preemptions}; {latest_s / 3600:.1f}"
            )
        lines.append(f"| {rows[0].vc} | {rows[0].quota_gpus} | {rows[0].jobs:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(found: Runs, path: Path) -> None:
    """Draw the number of jobs that end later than alone by at least so much, a panel for each cluster."""
    with mpl.rc_context({"svg.hashsalt": "cells", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, len(DIVISORS), sharey=True)
        for panel, divisor in zip(panels, DIVISORS, strict=True):
            for title, colour in zip(SCHEMES, _COLOURS, strict=False):
                late_h = sorted((value / 3600 for value in found[divisor, title].all_later_s), reverse=True)
                late_h = [value for value in late_h if value > LATER_S / 3600]
                panel.step(late_h, range(1, len(late_h) + 1), color=colour, label=title, where="post")
            gpus = found[divisor, next(iter(SCHEMES))].summary.gpus
            panel.set(xscale="log", yscale="log", title=f"{gpus} GPUs", xlabel="later than alone by (h)")
        panels[0].set(ylabel="jobs")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", frameon=False, ncols=2)
        figure.savefig(path, format="svg", metadata={"Date": None})
