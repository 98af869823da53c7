"""The part of docs/design/measurements/policies.md about load: completion times with and without rates by GPU type."""

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
# Jobs per hour for 36 GPUs of each type: mean completion times without and with rates, h, in the authors' notebook for
# the paper's figure 8. The pool here has 16 of each, and gets as many jobs per GPU.
AUTHORS_H = {1.6: (23.57, 17.48), 3.2: (23.59, 16.08), 4.4: (23.81, 17.48), 5.2: (63.78, 22.02), 5.6: (95.99, 28.96)}
LOADS = tuple(AUTHORS_H)
SCALE = 16 / 36
SEEDS = (0, 1, 2)
COUNTED_H, END_H = range(500, 600), 650  # jobs submitted in these hours count; others come until the end
ROUND_S = 360.0

Run = tuple[float, int, bool]  # the load, the seed, whether the policy is told the rates


def completion_h(folder: Path, run: Run) -> float:
    """The mean completion time of the jobs that count, h."""
    load, seed, aware = run
    gap_s = 3600 / (load * SCALE)
    table = str(folder / "gavel" / "simulation_throughputs.json")
    params = {"jobs": round(END_H * 3600 / gap_s), "gap_s": gap_s, "multi_gpu": False, "throughputs": table}
    options = Options(policy="gavel", policy_params={"aware": aware}, round_s=ROUND_S, seed=seed)
    records = simulate(generate("gavel", params, seed), parse_cluster(CLUSTER), options).records
    counted = [one for one in records if COUNTED_H.start <= one.submitted_s / 3600 < COUNTED_H.stop]
    return fmean(one.ended_s - one.submitted_s for one in counted if one.ended_s is not None) / 3600


def page(folder: Path, text: str) -> str:
    """The page with its table of figures, and beside it the plot."""
    runs = list(product(reversed(LOADS), SEEDS, (False, True)))  # the longest ones first
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        hours = dict(zip(runs, pool.map(completion_h, [folder] * len(runs), runs), strict=True))
    draw(hours).savefig(PLOT, format="svg", metadata={"Date": None})
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table_of(hours)}{END}{after}"


def table_of(hours: Mapping[Run, float]) -> str:
    """A row for each load: the mean over the seeds, the gain of each seed, and the authors' gain."""
    lines = [
        "| jobs per hour | without rates, h | with rates, h | gain by seed, times | the authors' gain |",
        "|---|---|---|---|---|",
    ]
    for load, (theirs, informed_theirs) in AUTHORS_H.items():
        without, informed = means_of(hours, load)
        gains = ", ".join(f"{hours[load, seed, False] / hours[load, seed, True]:.2f}" for seed in SEEDS)
        authors = theirs / informed_theirs
        lines.append(f"| {load * SCALE:.2f} | {without:.1f} | {informed:.1f} | {gains} | {authors:.2f} |")
    return "\n".join(lines) + "\n"


def means_of(hours: Mapping[Run, float], load: float) -> tuple[float, float]:
    """The mean over the seeds without and with rates, h."""
    without, informed = (fmean(hours[load, seed, aware] for seed in SEEDS) for aware in (False, True))
    return without, informed


def draw(hours: Mapping[Run, float]) -> Figure:
    """Completion time over load: a thin line for each seed, a thick one for their mean, dots for the authors."""
    with mpl.rc_context({"svg.hashsalt": "gavel", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(6, 3.5), layout="constrained")
        axes = figure.add_subplot()
        loads = [load * SCALE for load in LOADS]
        for aware, colour, label in ((False, "#D55E00", "without rates"), (True, "#0072B2", "with rates")):
            for seed in SEEDS:
                axes.plot(loads, [hours[load, seed, aware] for load in LOADS], color=colour, alpha=0.3)
            mean = [means_of(hours, load)[aware] for load in LOADS]
            axes.plot(loads, mean, color=colour, linewidth=2.5, marker="o", label=label)
            theirs = [AUTHORS_H[load][aware] for load in LOADS]
            axes.plot(loads, theirs, color=colour, linestyle=":", marker="x", label=f"{label}, the authors")
        axes.set(xlabel="jobs per hour", ylabel="mean completion time, h", yscale="log")
        axes.legend()
    return figure
