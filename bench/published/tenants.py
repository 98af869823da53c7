"""Gavel's jobs of Philly in the virtual clusters of Helios's artifact."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from bench.published import philly
from scheduler.sim.cluster import ClusterSpec, parse_cluster
from scheduler.sim.options import Options
from scheduler.sim.trace import Trace

GPUS_PER_NODE = 8
LATER_S = 1.0  # a smaller difference is rounding


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way for virtual clusters to share: an admission, and jobs beyond the quota as opportunistic ones or not."""

    admission: str
    opportunistic: bool = False

    @property
    def alone(self) -> Scheme:
        """Its placement on a cluster of one tenant."""
        return Scheme("hived" if self.admission == "hived" else "quota")


@cache
def nodes_of(folder: Path) -> Mapping[str, int]:
    """The nodes of each virtual cluster of Philly, from Helios's artifact."""
    with (folder / "helios" / "philly_vc_nodes.csv").open() as file:
        return {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}


@cache
def read(folder: Path) -> Trace:
    """Gavel's jobs of Philly in these virtual clusters."""
    trace = philly.read(folder, "philly_gavel")
    return replace(trace, jobs=tuple(job for job in trace.jobs if job.vc in nodes_of(folder)))


def cluster_of(nodes: int) -> ClusterSpec:
    """This number of nodes with eight GPUs."""
    return parse_cluster(f"V100:{nodes}x{GPUS_PER_NODE}")


def options_of(scheme: Scheme, nodes: Mapping[str, int]) -> Options:
    """The assumptions of a run: jobs of up to eight GPUs run on one node, and a restart costs 30 s."""
    return Options(
        admission=scheme.admission,
        quotas={vc: {"V100": number * GPUS_PER_NODE} for vc, number in nodes.items()},
        one_node=True,
        opportunistic=scheme.opportunistic,
        restart_s=philly.RESTART_S,
        first_start_s=0.0,
    )


def part_of(trace: Trace, vc: str) -> Trace:
    """The jobs of one virtual cluster."""
    return replace(trace, jobs=tuple(job for job in trace.jobs if job.vc == vc))
