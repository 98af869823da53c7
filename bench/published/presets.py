"""The figures of the presets of pools: what each is worth on published traces, with the estimates of production."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from bench.published import philly
from bench.published.data import with_part
from scheduler.presets import BATCH_RESEARCH, FAIR_TEAMS, MIXED_TYPES, Preset
from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.generators import generate
from scheduler.sim.metrics import Summary, jct_s, summarize
from scheduler.sim.options import Options, Oracle
from scheduler.sim.readers import read_trace

CLUSTER = philly.CLUSTERS["640 GPUs"]
TACC_CLUSTER = "A100:40x3"
FAIR_JOBS = 5_000  # the first of the trace
MIXED_CLUSTER, MIXED_JOBS, MIXED_SEEDS = "V100:4x4,P100:4x4,K80:4x4", 200, (0, 1)
MIXED_LOADS = (3.2, 5.2)  # jobs per hour for 36 GPUs of each type; the cluster has 16
# The standard deviation of log(rate that the policy is told / rate). docs/design/measurements/estimates.md has errors
# of 10 % in the median and 30 % in one of ten.
RATE_NOISE = 0.2


@dataclass(frozen=True, slots=True)
class Way:
    """A way to decide: a policy with its parameters, an admission, and what it knows of run times."""

    policy: str
    params: Mapping[str, object] = field(default_factory=dict)
    admission: str = "quota"
    oracle: Oracle = Oracle.LEARNED

    @classmethod
    def of(cls, preset: Preset) -> Way:
        """The preset's."""
        return cls(preset.policy, preset.policy_params, preset.admission)

    def options(self, **more: Any) -> Options:
        """The assumptions of a run: a start after a preemption costs 30 s."""
        return Options(
            policy=self.policy,
            policy_params=self.params,
            admission=self.admission,
            oracle=self.oracle,
            restart_s=philly.RESTART_S,
            first_start_s=0.0,
            **more,
        )


BATCH: Mapping[str, Way] = {
    "fifo": Way("fifo"),
    "srtf, all run times known": Way("srtf", oracle=Oracle.PERFECT),
    "tiresias": Way("tiresias"),
    "srtf": Way("srtf"),
    "srsf": Way("srsf"),
    BATCH_RESEARCH.title: Way.of(BATCH_RESEARCH),
}
WITHIN_QUOTAS: Mapping[str, Way] = {"fifo": Way("fifo"), BATCH_RESEARCH.title: Way.of(BATCH_RESEARCH)}
MIXED: Mapping[str, Way] = {
    "fifo": Way("fifo"),
    "tiresias": Way("tiresias"),
    BATCH_RESEARCH.title: Way.of(BATCH_RESEARCH),
    "gavel, aware false": Way("gavel", {"aware": False}),
    MIXED_TYPES.title: Way.of(MIXED_TYPES),
}
FAIR: Mapping[str, Way] = {
    "fifo, admission quota": Way("fifo"),
    "fifo, admission open": Way("fifo", admission="open"),
    "fair, admission open": Way("fair", admission="open"),
    "philly, admission open": Way("philly", admission="open"),
    FAIR_TEAMS.title: Way.of(FAIR_TEAMS),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run on Philly's trace, and the completion times of its jobs by virtual cluster, s."""

    summary: Summary
    jct_s: Mapping[str, Sequence[float]]


def on_philly(folder: Path, way: Way, jobs: int | None, within_quotas: bool) -> Outcome:
    """The first jobs of Philly's trace, all if None; without quotas each virtual cluster may use the whole cluster."""
    trace, cluster = philly.read(folder, "philly_sia"), parse_cluster(CLUSTER)
    trace = replace(trace, jobs=trace.jobs[:jobs])
    quotas = philly.quotas(trace, cluster) if within_quotas else {}
    result = simulate(trace, cluster, way.options(quotas=quotas))
    times: dict[str, list[float]] = {}
    for record in result.records:
        times.setdefault(record.vc, []).append(jct_s(record))
    return Outcome(summarize(result), times)


def on_tacc(folder: Path, way: Way) -> Summary:
    """The jobs of TACC's Lonestar 6, which have users, names and limits; on so few nodes that they wait."""
    trace = read_trace(folder / "mirage_tacc" / "ls6-a100.log.gz", "mirage", skip_bad=True)
    return summarize(simulate(trace, parse_cluster(TACC_CLUSTER), way.options(skip_infeasible=True)))


def on_mixed(folder: Path, way: Way, load: float, seed: int) -> Summary:
    """Generated jobs on three GPU types, with rates that are known about as well as production knows them."""
    params = {
        "jobs": MIXED_JOBS,
        "gap_s": 3600 / (load * 16 / 36),
        "throughputs": str(folder / "gavel" / "simulation_throughputs.json"),
    }
    options = way.options(rate_noise=RATE_NOISE, seed=seed)
    return summarize(simulate(generate("gavel", params, seed), parse_cluster(MIXED_CLUSTER), options))


def page(folder: Path, text: str) -> str:
    """The page with its tables made anew."""
    mixed = list(product(MIXED, MIXED_LOADS, MIXED_SEEDS))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        batch = {name: pool.submit(on_philly, folder, way, None, False) for name, way in BATCH.items()}
        quotas = {name: pool.submit(on_philly, folder, way, None, True) for name, way in WITHIN_QUOTAS.items()}
        fair = {name: pool.submit(on_philly, folder, way, FAIR_JOBS, True) for name, way in FAIR.items()}
        types = {what: pool.submit(on_mixed, folder, MIXED[what[0]], *what[1:]) for what in mixed}
        tacc = {name: pool.submit(on_tacc, folder, way) for name, way in WITHIN_QUOTAS.items()}
        parts = {
            "batch": batch_table({name: run.result().summary for name, run in batch.items()}),
            "batch-clusters": clusters_table(
                *((runs["fifo"].result(), runs[BATCH_RESEARCH.title].result()) for runs in (batch, quotas))
            ),
            "mixed": mixed_table({what: run.result() for what, run in types.items()}),
            "fair": fair_table({name: run.result() for name, run in fair.items()}),
            "tacc": batch_table({name: run.result() for name, run in tacc.items()}),
        }
    for name, part in parts.items():
        text = with_part(text, name, part)
    return text


def batch_table(found: Mapping[str, Summary]) -> str:
    """A row for each way."""
    base = found["fifo"]
    head = ("policy or preset", "mean, s", "÷ fifo", "p50, s", "p99, s", "÷ fifo", "preemptions")
    return _table(
        head,
        (
            (
                name,
                f"{_known(one.jct_mean_s):,.0f}",
                f"{_known(one.jct_mean_s) / _known(base.jct_mean_s):.2f}",
                f"{_known(one.jct_p50_s):,.0f}",
                f"{_known(one.jct_p99_s):,.0f}",
                f"{_known(one.jct_p99_s) / _known(base.jct_p99_s):.2f}",
                f"{one.preemptions:,}",
            )
            for name, one in found.items()
        ),
    )


def clusters_table(*pairs: tuple[Outcome, Outcome]) -> str:
    """A row for each virtual cluster: what it had under fifo, and has with the preset, by pairs of runs."""
    head = ["virtual cluster", "jobs"]
    for where in ("", " in quotas"):
        head += [f"fifo{where}: mean, h", "preset ÷ fifo, mean", "p99"]
    return _table(
        head,
        (
            (
                vc,
                f"{len(pairs[0][0].jct_s[vc]):,}",
                *(cell for before, after in pairs for cell in _gain(before, after, vc)),
            )
            for vc in sorted(pairs[0][0].jct_s, key=lambda vc: -len(pairs[0][0].jct_s[vc]))
        ),
    )


def _gain(before: Outcome, after: Outcome, vc: str) -> tuple[str, str, str]:
    old, new = before.jct_s[vc], after.jct_s[vc]
    late = np.percentile(new, 99) / np.percentile(old, 99)
    return f"{fmean(old) / 3600:,.1f}", f"{fmean(new) / fmean(old):.2f}", f"{late:.2f}"


def mixed_table(found: Mapping[tuple[str, float, int], Summary]) -> str:
    """A row for each way: means over the seeds, at each load."""
    head = [
        "policy or preset",
        *(f"{what} at {load * 16 / 36:.1f} jobs an hour, h" for load in MIXED_LOADS for what in ("mean", "p99")),
    ]
    rows = []
    for name in MIXED:
        row = [name]
        for load in MIXED_LOADS:
            runs = [found[name, load, seed] for seed in MIXED_SEEDS]
            row += [f"{fmean(_known(one.jct_mean_s) for one in runs) / 3600:.1f}"]
            row += [f"{fmean(_known(one.jct_p99_s) for one in runs) / 3600:.0f}"]
        rows.append(row)
    return _table(head, rows)


def fair_table(found: Mapping[str, Outcome]) -> str:
    """A row for each way: how the virtual clusters fared by their own quotas."""
    rows = []
    for name, outcome in found.items():
        rhos = [one.rho_quota_mean for one in outcome.summary.by_vc if one.rho_quota_mean is not None]
        rows.append(
            (
                name,
                f"{max(rhos):,.1f}",
                f"{np.median(rhos):,.2f}",
                f"{sum(rho > 1.1 for rho in rhos)} of {len(rhos)}",
                f"{_known(outcome.summary.jct_mean_s) / 3600:.1f}",
                f"{_known(outcome.summary.jct_p99_s) / 3600:,.0f}",
                f"{outcome.summary.preemptions:,}",
            )
        )
    return _table(
        ("policy or preset", "worst rho", "median rho", "above 1.1", "mean, h", "p99, h", "preemptions"), rows
    )


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("no job has ended")
    return value


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
