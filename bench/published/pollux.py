"""Tiresias and Optimus on the workloads of Pollux's evaluation, job by job against its own simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from scheduler.sim.cluster import load_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.readers import ReadOptions, formats, read_trace

POLICIES = ("tiresias", "optimus")
LOADS: Mapping[str, str] = {
    "0.5": "workloads-0.5",
    "1.0": "workloads",
    "1.5": "workloads-1.5",
    "2.0": "workloads-2.0",
}
WORKLOADS = range(1, 9)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One workload under one policy, theirs and ours; times in seconds."""

    policy: str
    load: str
    workload: int
    theirs_s: Mapping[str, float]  # JCT by name of the job
    ours_s: Mapping[str, float]
    wall_s: float

    @property
    def theirs_mean_s(self) -> float:
        """Their mean JCT."""
        return fmean(self.theirs_s.values())

    @property
    def ours_mean_s(self) -> float:
        """Our mean JCT."""
        return fmean(self.ours_s.values())

    @property
    def deviation(self) -> float:
        """Our mean beside theirs: 0.01 is one percent more."""
        return self.ours_mean_s / self.theirs_mean_s - 1

    @property
    def same(self) -> int:
        """The number of jobs with the same JCT, to the second."""
        return sum(abs(self.ours_s[name] - jct_s) < 1 for name, jct_s in self.theirs_s.items())


def compare(folder: Path, policy: str, load: str, workload: int) -> Comparison:
    """Run one workload with the assumptions of Pollux's simulator."""
    root = folder / "adaptdl_osdi21"
    name = f"workload-{workload}"
    expected = json.loads((root / "results-jobload" / f"{policy}-{load}" / "summary.json").read_text())
    peer = formats()["pollux"].peer
    if peer is None or peer.cluster is None:
        raise ValueError("the format pollux says nothing of its peer")
    trace = read_trace(root / LOADS[load] / f"{name}.csv", "pollux", options=ReadOptions(whole_seconds=True))
    options = Options.like(peer, policy)
    result = simulate(trace, load_cluster(peer.cluster), options)
    ours = {record.name: record.ended_s - record.submitted_s for record in result.records if record.ended_s is not None}
    return Comparison(policy, load, workload, expected["jcts"][name], ours, result.wall_s)
