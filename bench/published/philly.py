"""Policies on Philly's trace, and what each of its lessons is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from scheduler.sim.cluster import ClusterSpec, gpu_time_by_vc, parse_cluster, quotas_by_share
from scheduler.sim.engine import simulate
from scheduler.sim.failures import STATISTICS, Failures
from scheduler.sim.metrics import Summary, summarize
from scheduler.sim.options import Options
from scheduler.sim.readers import ReadOptions, read_trace
from scheduler.sim.trace import Trace

TRACES: Mapping[str, str] = {
    "philly_sia": "philly_sia/philly.csv.gz",
    "philly_gavel": "philly_gavel/philly_by_vc.csv.gz",
}
CLUSTERS: Mapping[str, str] = {"768 GPUs": "V100:96x8", "640 GPUs": "V100:80x8"}
OTHER_CLUSTERS: Mapping[str, str] = {"632 GPUs": "V100:79x8"}
# A preempted job starts again from its last checkpoint: half a minute without progress, as in Pollux's evaluation.
RESTART_S = 30.0
POLICIES = ("philly", "fifo", "srtf", "tiresias", "las")
# With its default quantum, `las` compares each running job once a minute: millions of decisions of this trace.
PARAMS: Mapping[str, Mapping[str, object]] = {"las": {"quantum_s": 3600}}
# Every lesson is tried on the first weeks, and on all jobs those whose run takes minutes and not a quarter of an hour.
LESSON_JOBS = 10_000
WHOLE_LESSONS = (
    "the preset",
    "long jobs wait for locality",
    "dedicated servers",
    "no retry of hopeless jobs",
)

# What the page calls each lesson of the paper (§5), and the switch of the policy `philly` that stands for it.
LESSONS: Mapping[str, tuple[str, ...]] = {
    "the preset": (),
    "long jobs wait for locality": ("long_jobs_wait_for_locality",),
    "dedicated servers": ("dedicated_nodes",),
    "moves that defragment": ("migrate_to_defragment",),
    "no retry of hopeless jobs": ("no_retry_of_hopeless",),
    "all of these": (
        "long_jobs_wait_for_locality",
        "dedicated_nodes",
        "migrate_to_defragment",
        "no_retry_of_hopeless",
    ),
}
# After table 4 of the paper, from memory, a job of two GPUs: 114.8 images/s on one server, 98.0 on two, 74.1 on two
# that others use, too.
SPREAD_PENALTY, INTERFERENCE = 1 - 98.0 / 114.8, 1 - 74.1 / 98.0
# The cost of leaving the rack and the number of eight-GPU servers per rack are not published: assumptions.
RACK_PENALTY, SERVERS_PER_RACK = 0.25, 10
RETRY_AFTER_S = 120.0  # an assumption, too


@dataclass(frozen=True, slots=True)
class Study:
    """One run: a trace, a cluster, a policy, and what is special about it."""

    trace: str
    cluster: str
    policy: str
    title: str = ""
    params: Mapping[str, object] | None = None
    options: Mapping[str, Any] | None = None
    per_rack: int = 0  # servers; 0: one rack has all
    jobs: int | None = None  # the first of the trace; None: all


def lessons() -> Mapping[int | None, tuple[str, ...]]:
    """The lessons by the number of jobs that they are tried on; None: all."""
    return {LESSON_JOBS: tuple(LESSONS), None: WHOLE_LESSONS}


def lesson(cluster: str, title: str, jobs: int | None) -> Study:
    """Philly's preset with the switches of a lesson, where jobs fail and distance slows them down."""
    return Study(
        trace="philly_sia",
        cluster=cluster,
        policy="philly",
        title=title,
        params=dict.fromkeys(LESSONS[title], True) | {"restart_s": RESTART_S},
        options={
            "failures": Failures.PHILLY,
            "retries": STATISTICS[Failures.PHILLY].attempts - 1,
            "retry_after_s": RETRY_AFTER_S,
            "spread_penalty": SPREAD_PENALTY,
            "rack_penalty": RACK_PENALTY,
            "interference": INTERFERENCE,
        },
        per_rack=SERVERS_PER_RACK,
        jobs=jobs,
    )


@cache
def read(folder: Path, name: str) -> Trace:
    """The trace; jobs of `philly_gavel` last as on the V100 that their steps were counted for.

    A tenth of those have a model that was never measured on as many GPUs as they ask for, and are left out.
    """
    gavel = name == "philly_gavel"
    throughputs = folder / "gavel" / "simulation_throughputs.json" if gavel else None
    options = ReadOptions(throughputs=throughputs)
    return read_trace(folder / TRACES[name], name.replace("sia", "csv"), skip_bad=gavel, options=options)


def quotas(trace: Trace, cluster: ClusterSpec) -> Mapping[str, Mapping[str, int]]:
    """Each virtual cluster's share by the GPU time of its jobs, but at least its largest job: else that never runs."""
    shares = quotas_by_share(cluster, gpu_time_by_vc(trace))
    largest: dict[str, int] = {}
    for job in trace.jobs:
        largest[job.vc] = max(largest.get(job.vc, 0), job.gpus)
    return {vc: {kind: max(gpus, largest[vc]) for kind, gpus in quota.items()} for vc, quota in shares.items()}


def run(folder: Path, study: Study) -> Summary:
    """Run the study; return its summary."""
    trace, cluster = read(folder, study.trace), parse_cluster({**CLUSTERS, **OTHER_CLUSTERS}[study.cluster])
    trace = replace(trace, jobs=trace.jobs[: study.jobs])
    cluster = replace(cluster, groups=tuple(replace(group, per_rack=study.per_rack) for group in cluster.groups))
    options = Options(
        policy=study.policy,
        policy_params=study.params or PARAMS.get(study.policy, {}),
        # Philly's policy keeps the quotas itself: it lends what others leave idle.
        admission="open" if study.policy == "philly" else "quota",
        quotas=quotas(trace, cluster),
        restart_s=RESTART_S,
        first_start_s=0.0,
    )
    return summarize(simulate(trace, cluster, replace(options, **(study.options or {}))))
