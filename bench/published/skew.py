"""The part of docs/design/measurements/policies.md about jobs that need one node, by `slowdown`."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.generators import generate
from scheduler.sim.options import Options
from scheduler.sim.readers import ReadOptions, read_trace
from scheduler.sim.trace import Trace

BEGIN, END = "<!-- skew -->\n", "<!-- /skew -->"
EVERY_JOB = 0.5  # below all ratios of the table
SLOWDOWNS = {0.0: "0", 1.0: "1", 1.5: "1.5", 2.0: "2", 3.0: "3", EVERY_JOB: "every job"}
GENERATED = "generated"
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs of Gavel on a cluster: one of the authors' traces, or 500 generated jobs an interval apart on average."""

    trace: str
    cluster: str
    gap_h: float = 0.0

    def trace_of(self, folder: Path, seed: int) -> Trace:
        """The jobs with their rates on the fewest nodes and on more."""
        table = folder / "gavel" / "simulation_throughputs.json"
        if self.trace == GENERATED:
            params = {"jobs": 500, "gap_s": 3600 * self.gap_h, "throughputs": str(table), "consolidation": True}
            return generate("gavel", params, seed)
        path = folder / "gavel" / "traces" / f"{self.trace}.trace"
        return read_trace(path, "gavel", options=ReadOptions(throughputs=table, consolidation=True))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its jobs."""
        return SEEDS if self.trace == GENERATED else SEEDS[:1]

    def __str__(self) -> str:
        every = f", every {self.gap_h:g} h" if self.gap_h else ""
        return f"{self.trace}{every}, {self.cluster}"


WORKLOADS = (
    Workload("max_min_fairness", "V100:4x4"),
    Workload("max_min_fairness", "V100:8x4"),
    Workload("minimize_makespan", "V100:4x4"),
    Workload("minimize_makespan", "V100:8x4"),
    Workload("max_min_fairness", "V100:2x4,P100:4x4,K80:6x4"),
    Workload("minimize_makespan", "V100:2x4,P100:4x4,K80:6x4"),
    *(Workload(GENERATED, "V100:4x8", gap_h) for gap_h in (2.0, 1.5, 1.2)),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The mean completion time, h, and the GPU time, GPU-hours."""

    jct_h: float
    gpu_h: float


def figures(folder: Path, workload: Workload, slowdown: float) -> Figures:
    """Tiresias with this slowdown: means over the seeds."""
    options = Options(policy="tiresias", policy_params={"slowdown": slowdown})
    cluster = parse_cluster(workload.cluster)
    results = [simulate(workload.trace_of(folder, seed), cluster, options) for seed in workload.seeds]
    took_s = [fmean(one.ended_s - one.submitted_s for one in each.records if one.ended_s) for each in results]
    gpu_s = [sum(one.service_gpu_s for one in each.records) for each in results]
    return Figures(fmean(took_s) / 3600, fmean(gpu_s) / 3600)


def part(folder: Path) -> str:
    """A row for each workload, a column for each slowdown."""
    runs = [(workload, slowdown) for workload in WORKLOADS for slowdown in SLOWDOWNS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(figures, [folder] * len(runs), *zip(*runs, strict=True))
        found = dict(zip(runs, results, strict=True))
    lines = [f"| jobs, cluster | {' | '.join(SLOWDOWNS.values())} |", f"|---|{'---|' * len(SLOWDOWNS)}"]
    for workload in WORKLOADS:
        cells = [found[workload, slowdown] for slowdown in SLOWDOWNS]
        lines.append(f"| {workload} | {' | '.join(f'{one.jct_h:.2f}, {one.gpu_h:,.0f}' for one in cells)} |")
    return "\n".join(lines) + "\n"


def page(folder: Path, text: str) -> str:
    """The page with this part made anew."""
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + part(folder) + text[end:]
