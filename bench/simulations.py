"""Time of the simulator for Philly's trace, each run in a process of its own so that its memory is its own."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Series
from scheduler.sim.applications import PolluxWork, load_applications
from scheduler.sim.readers import read_trace

CLUSTERS = {"2490": "P100:231x8,P40:321x2", "640": "V100:80x8"}
POLICIES = ("fifo", "srtf", "tiresias")
_TIMEOUT_S = 600


def measure(folder: Path, *, clusters: Sequence[str] = tuple(CLUSTERS)) -> Series:
    """Seconds on the clock and MiB at most, by policy and cluster, and seconds of the processor: to read the trace, and
    to tell how long each job of a published workload (80 jobs) takes alone.
    """
    trace = folder / "philly_sia" / "philly.csv.gz"
    series: Series = {
        "simulate_read_s": _times_to_read(trace),
        "simulate_alone_s": _times_alone(folder / "adaptdl_osdi21"),
    }
    with TemporaryDirectory() as scratch:
        for cluster in clusters:
            for policy in POLICIES:
                out = Path(scratch) / f"{policy}-{cluster}.json"
                command = [
                    sys.executable, "-m", "scheduler.sim", "--trace", str(trace),
                    "--format", "philly_csv", "--policy", policy, "--cluster", CLUSTERS[cluster], "--json", str(out),
                ]  # fmt: skip
                subprocess.run(command, check=True, timeout=_TIMEOUT_S, stdout=subprocess.DEVNULL)
                run = json.loads(out.read_text())["runs"][0]
                series[f"simulate_{policy}_{cluster}_s"] = [run["wall_s"]]
                series.setdefault("simulate_peak_mib", []).append(run["peak_mib"])
    return series


def _times_to_read(trace: Path, *, samples: int = 3) -> list[float]:
    read_trace(trace, limit=1)  # imports
    took = []
    for _ in range(samples):
        before = time.process_time()
        read_trace(trace)
        took.append(time.process_time() - before)
    return took


def _times_alone(folder: Path) -> list[float]:
    applications = load_applications(folder / "traces")
    took = []
    for workload in sorted((folder / "workloads-0.5").glob("workload-*.csv")):
        with workload.open() as file:
            rows = list(csv.DictReader(file))
        before = time.process_time()
        for row in rows:
            application = applications[row["application"]]
            PolluxWork(application, int(row["batch_size"]), int(row["num_replicas"]), whole_seconds=True).alone_s()
        took.append(time.process_time() - before)
    return took
