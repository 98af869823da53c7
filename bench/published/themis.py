"""The figures of docs/design/measurements/policies.md: the auction beside other policies, and its parameters."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.published import lies
from bench.published.data import with_part
from scheduler.sim.application_metrics import applications_of
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.generators import generate
from scheduler.sim.metrics import jct_s, summarize
from scheduler.sim.options import Options
from scheduler.sim.result import Result
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

PLOT = Path(__file__).resolve().parents[2] / "docs" / "images" / "themis-trade.svg"
CLUSTER, GPUS = "V100:32x8", 256
APPLICATIONS = 40
SEEDS = (0, 1, 2)
CONTENTIONS = (1.0, 2.0, 4.0)
ROUND_S = 1200.0  # a lease of the auction, a round of the linear program, a quantum of `las`
RESTART_S = 30.0  # after a preemption

FAIRNESS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.95)
LEASES_S = (300.0, 600.0, 1200.0, 2400.0)
TRADE_CONTENTION, TRADE_APPLICATIONS, TRADE_SEED = 2.0, 30, 0

SPLIT_JOBS, SPLIT_RUN_S, SPLIT_CLUSTER = 1000, 600.0, "V100:16x4"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy with its parameters."""

    name: str
    params: Mapping[str, object] = field(default_factory=dict)


POLICIES: Mapping[str, Policy] = {
    "themis": Policy("themis"),
    "themis-lp": Policy("gavel", {"objective": "finish_time", "round_s": ROUND_S}),
    "las": Policy("las", {"quantum_s": ROUND_S}),
    "drf": Policy("drf"),
    "tiresias": Policy("tiresias"),
    "fifo": Policy("fifo"),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Generated sweeps: whose sizes and run times, and whether scattered gangs are slower."""

    source: str
    slower: bool

    def trace_of(self, folder: Path, contention: float, seed: int, applications: int = APPLICATIONS) -> Trace:
        """The sweeps; they bring `contention` times the work that the cluster does while they arrive."""
        params = {
            "applications": applications,
            "source": self.source,
            "contention": contention,
            "gpus": GPUS,
            "throughputs": str(folder / "gavel" / "simulation_throughputs.json"),
            "consolidation": self.slower,
        }
        return generate("sweeps", params, seed)

    def __str__(self) -> str:
        return f"{self.source.capitalize()}'s jobs, {'S of the table' if self.slower else 'S = 1'}"


WORKLOADS = (Workload("gavel", False), Workload("gavel", True), Workload("philly", True))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run for its applications."""

    rho_max: float
    rho_max_long: float  # of those that take longer than a lease alone on their share
    rho_mean: float
    jain: float
    gpu_hours: float
    restarts: int

    @classmethod
    def of(cls, result: Result) -> Outcome:
        """The figures of a run in which all applications ended."""
        summary = summarize(result)
        if summary.application_rho_max is None or summary.application_rho_mean is None or summary.unfinished:
            raise ValueError(f"{summary.policy}: {summary.unfinished} of {summary.jobs} jobs have not ended")
        long = [one for one in applications_of(result.records) if one.isolated_s(result.gpus) > ROUND_S]
        return cls(
            rho_max=summary.application_rho_max,
            rho_max_long=max((one.rho(result.gpus) or 0.0 for one in long), default=0.0),
            rho_mean=summary.application_rho_mean,
            jain=summary.application_jain or 0.0,
            gpu_hours=summary.gpu_hours,
            restarts=summary.preemptions + summary.moves,
        )


def run(trace: Trace, policy: Policy, seed: int, cluster: str = CLUSTER) -> Outcome:
    """The policy on these jobs; each start after a preemption costs 30 s."""
    options = Options(
        policy=policy.name, policy_params=policy.params, restart_s=RESTART_S, first_start_s=0.0, seed=seed
    )
    return Outcome.of(simulate(trace, parse_cluster(cluster), options))


Compared = tuple[Workload, float, str, int]  # workload, contention, policy, seed
Traded = tuple[float, float]  # fairness, lease


def compared(folder: Path, what: Compared) -> Outcome:
    """One policy on one workload."""
    workload, contention, policy, seed = what
    return run(workload.trace_of(folder, contention, seed), POLICIES[policy], seed)


def traded(folder: Path, what: Traded) -> Outcome:
    """The auction with these parameters on sweeps whose scattered gangs are slower."""
    fairness, lease_s = what
    policy = Policy("themis", {"fairness": fairness, "lease_s": lease_s})
    trace = Workload("gavel", True).trace_of(folder, TRADE_CONTENTION, TRADE_SEED, TRADE_APPLICATIONS)
    return run(trace, policy, TRADE_SEED)


@dataclass(frozen=True, slots=True)
class Split:
    """Two tenants with as much work: the mean and the last end of each one's jobs, h."""

    mean_h: Mapping[str, float]
    last_h: Mapping[str, float]


def split(
    policy: Policy, *, whole: bool, jobs: int = SPLIT_JOBS, cluster: str = SPLIT_CLUSTER, others: int | None = None
) -> Split:
    """Two tenants with a sweep each, or the first with a job for each member of its sweep (`whole` false)."""
    sizes = {"first": jobs, "second": jobs if others is None else others}
    names = [tenant for tenant, size in sizes.items() for _ in range(size)]
    trace = Trace(
        "split",
        tuple(
            TraceJob(
                id=number,
                name=tenant,
                submitted_s=0.0,
                gpus=1,
                work=FixedWork(SPLIT_RUN_S * (0.5 + number % 11 / 10)),
                vc=tenant,
                owner=tenant,
                group="sweep" if whole or tenant == "second" else "",
            )
            for number, tenant in enumerate(names, start=1)
        ),
    )
    options = Options(policy=policy.name, policy_params=policy.params, restart_s=RESTART_S, first_start_s=0.0)
    records = simulate(trace, parse_cluster(cluster), options).records
    took_h = {tenant: [jct_s(record) / 3600 for record in records if record.vc == tenant] for tenant in sizes}
    return Split(
        {tenant: fmean(hours) for tenant, hours in took_h.items()},
        {tenant: max(hours) for tenant, hours in took_h.items()},
    )


def page(folder: Path, text: str) -> str:
    """The page with its figures made anew, and beside it the plot."""
    runs: list[Compared] = list(product(WORKLOADS, CONTENTIONS, POLICIES, SEEDS))
    grid: list[Traded] = list(product(FAIRNESS, LEASES_S))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        trade = pool.map(traded, [folder] * len(grid), grid)
        beside = pool.map(compared, [folder] * len(runs), runs)
        found, tried = dict(zip(runs, beside, strict=True)), dict(zip(grid, trade, strict=True))
    draw(tried, PLOT)
    parts = {"lies": f"{lies.table()}\n", "policies": policies(found), "trade": trades(tried), "split": splits()}
    for name, part in parts.items():
        text = with_part(text, name, part)
    return text


def policies(found: Mapping[Compared, Outcome]) -> str:
    """A row for each workload and policy; a cell has a value for each contention."""
    lines = [
        "| sweeps | policy | max rho | above a lease | mean rho | Jain | GPU-hours | restarts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workload, policy in product(WORKLOADS, POLICIES):
        runs = [[found[workload, contention, policy, seed] for seed in SEEDS] for contention in CONTENTIONS]
        cells = (
            ", ".join(f"{max(one.rho_max for one in seeds):.2f}" for seeds in runs),
            ", ".join(f"{max(one.rho_max_long for one in seeds):.2f}" for seeds in runs),
            ", ".join(f"{fmean(one.rho_mean for one in seeds):.2f}" for seeds in runs),
            ", ".join(f"{fmean(one.jain for one in seeds):.2f}" for seeds in runs),
            "; ".join(f"{fmean(one.gpu_hours for one in seeds):,.0f}" for seeds in runs),
            "; ".join(f"{fmean(one.restarts for one in seeds):,.0f}" for seeds in runs),
        )
        lines.append(f"| {workload} | {policy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def trades(found: Mapping[Traded, Outcome]) -> str:
    """A row for each fairness, a column for each lease: max rho and GPU-hours."""
    columns = " | ".join(f"{lease_s / 60:g} min" for lease_s in LEASES_S)
    lines = [f"| fairness | {columns} |", f"|---|{'---|' * len(LEASES_S)}"]
    for fairness in FAIRNESS:
        cells = [found[fairness, lease_s] for lease_s in LEASES_S]
        lines.append(f"| {fairness:g} | {' | '.join(f'{one.rho_max:.2f}, {one.gpu_hours:,.0f}' for one in cells)} |")
    return "\n".join(lines) + "\n"


def splits() -> str:
    """A row for each policy: when the tenants' jobs end if the first has one sweep, and if it has a job for each."""
    lines = [
        "| policy | one sweep: first, second tenant | a thousand jobs: first, second tenant |",
        "|---|---|---|",
    ]
    for name, policy in POLICIES.items():
        cells = [_ends(split(policy, whole=whole)) for whole in (True, False)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ends(found: Split) -> str:
    return ", ".join(f"{found.mean_h[tenant]:.2f} ({found.last_h[tenant]:.2f})" for tenant in ("first", "second"))


def draw(found: Mapping[Traded, Outcome], path: Path) -> None:
    """Max rho and GPU-hours over the fairness, a line for each lease."""
    with mpl.rc_context({"svg.hashsalt": "themis", "font.size": 10, "axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for lease_s, (colour, marker) in zip(LEASES_S, _STYLES, strict=True):
            runs = [found[fairness, lease_s] for fairness in FAIRNESS]
            style = {"color": colour, "marker": marker, "label": f"{lease_s / 60:g} min"}
            left.plot(FAIRNESS, [one.rho_max for one in runs], **style)
            right.plot(FAIRNESS, [one.gpu_hours for one in runs], **style)
        left.set(xlabel="fairness", ylabel="max rho")
        right.set(xlabel="fairness", ylabel="GPU-hours")
        right.legend(title="lease", loc="lower right")
        figure.savefig(path, format="svg", metadata={"Date": None})


_STYLES: Sequence[tuple[str, str]] = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))
