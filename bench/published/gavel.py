"""The part of docs/policies/gavel.md about load: completion times with and without rates by GPU type."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.figure import Figure

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.generators import generate
from scheduler.sim.options import Options

BEGIN, END = "<!-- load -->\n", "<!-- /load -->"
PLOT = Path(__file__).resolve().parents[2] / "docs" / "images" / "gavel-load.svg"
CLUSTER = "V100:4x4,P100:4x4,K80:4x4"
GAPS_S = (7200.0, 3600.0, 2400.0, 1800.0, 1500.0, 1300.0)  # between two submissions, on average
SEEDS = (0, 1, 2)
JOBS, WINDOW = 260, range(100, 200)  # jobs drawn, and those that count: neither the first nor the last ones
ROUND_S = 360.0

Run = tuple[float, int, bool]  # the gap, the seed, whether the policy is told the rates


def completion_h(folder: Path, run: Run) -> float:
    """The mean completion time of the jobs that count, h."""
    gap_s, seed, aware = run
    table = str(folder / "gavel" / "simulation_throughputs.json")
    trace = generate("gavel", {"jobs": JOBS, "gap_s": gap_s, "throughputs": table}, seed)
    options = Options(policy="gavel", policy_params={"aware": aware}, round_s=ROUND_S, seed=seed)
    records = simulate(trace, parse_cluster(CLUSTER), options).records
    ended = [(one.ended_s, one.submitted_s) for one in records[WINDOW.start : WINDOW.stop]]
    return fmean(end - submitted for end, submitted in ended if end is not None) / 3600


def page(folder: Path, text: str) -> str:
    """The page with its table of figures, and beside it the plot."""
    runs = list(product(GAPS_S, SEEDS, (False, True)))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        hours = dict(zip(runs, pool.map(completion_h, [folder] * len(runs), runs), strict=True))
    draw(hours).savefig(PLOT, format="svg", metadata={"Date": None})
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table_of(hours)}{END}{after}"


def table_of(hours: Mapping[Run, float]) -> str:
    """A row for each load: the mean over the seeds, and the gain of each seed."""
    lines = ["| mean gap, s | without rates, h | with rates, h | gain by seed, times |", "|---|---|---|---|"]
    for gap_s in GAPS_S:
        without, informed = (fmean(hours[gap_s, seed, aware] for seed in SEEDS) for aware in (False, True))
        gains = ", ".join(f"{hours[gap_s, seed, False] / hours[gap_s, seed, True]:.2f}" for seed in SEEDS)
        lines.append(f"| {gap_s:,.0f} | {without:.1f} | {informed:.1f} | {gains} |")
    return "\n".join(lines) + "\n"


def draw(hours: Mapping[Run, float]) -> Figure:
    """Completion time over load; a thin line for each seed, a thick one for their mean."""
    with mpl.rc_context({"svg.hashsalt": "gavel", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot()
        loads = [3600 / gap_s for gap_s in GAPS_S]
        for aware, colour, label in ((False, "#D55E00", "without rates"), (True, "#0072B2", "with rates")):
            for seed in SEEDS:
                axes.plot(loads, [hours[gap_s, seed, aware] for gap_s in GAPS_S], color=colour, alpha=0.3)
            mean = [fmean(hours[gap_s, seed, aware] for seed in SEEDS) for gap_s in GAPS_S]
            axes.plot(loads, mean, color=colour, linewidth=2.5, marker="o", label=label)
        axes.set(xlabel="jobs per hour", ylabel="mean completion time, h", yscale="log")
        axes.legend()
    return figure
