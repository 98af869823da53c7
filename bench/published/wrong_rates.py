"""The part of docs/design/measurements/estimates.md about completion times of gavel that is told wrong rates."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import fmean

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.readers import ReadOptions, formats, read_trace

BEGIN, END = "<!-- cost -->\n", "<!-- /cost -->"
OBJECTIVES = ("max_min", "makespan", "throughput")
NOISES = (0.0, 0.1, 0.3, 0.5, 0.7, 1.5)
SEEDS = (0, 1, 2)

Figures = tuple[float, float]  # the mean completion time and the makespan, h


def figures(folder: Path, objective: str, *, noise: float = 0.0, aware: bool = True, seed: int = 0) -> Figures:
    """The authors' trace for makespans on their cluster."""
    peer = formats()["gavel"].peer
    if peer is None or peer.cluster is None:
        raise RuntimeError("the format gavel names no cluster")
    read = ReadOptions(throughputs=folder / "gavel" / "simulation_throughputs.json")
    trace = read_trace(folder / "gavel" / "traces" / "minimize_makespan.trace", "gavel", options=read)
    options = Options(
        policy="gavel",
        policy_params={"objective": objective, "aware": aware},
        round_s=peer.round_s or 0.0,
        rate_noise=noise,
        seed=seed,
    )
    result = simulate(trace, parse_cluster(peer.cluster), options)
    took_s = [one.ended_s - one.submitted_s for one in result.records if one.ended_s is not None]
    return fmean(took_s) / 3600, result.makespan_s / 3600


def part(folder: Path) -> str:
    """A row for each error of the rates, and one for no rates."""
    lines = [
        f"| error of log(rate) | {' | '.join(OBJECTIVES)} |",
        f"|---|{'---|' * len(OBJECTIVES)}",
    ]
    found = {
        (noise, objective, seed): figures(folder, objective, noise=noise, seed=seed)
        for noise, objective, seed in product(NOISES, OBJECTIVES, SEEDS)
    }
    for noise in NOISES:
        cells = [_cell([found[noise, objective, seed] for seed in SEEDS]) for objective in OBJECTIVES]
        lines.append(f"| {noise:g} | {' | '.join(cells)} |")
    without = [
        _cell([figures(folder, objective, aware=False, seed=seed) for seed in SEEDS]) for objective in OBJECTIVES
    ]
    return "\n".join([*lines, f"| no rates | {' | '.join(without)} |"]) + "\n"


def page(folder: Path, text: str) -> str:
    """The page with this part made anew."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + part(folder) + text[end:]


def _cell(some: list[Figures]) -> str:
    jct_h, makespan_h = (fmean(values) for values in zip(*some, strict=True))
    return f"{jct_h:.2f}, {makespan_h:.2f}"
