"""The platform's own history, exported and simulated, comes to what really happened."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from statistics import fmean, median

import pytest

from scheduler.sim.cluster import parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.readers import read_trace
from tests.faults.cluster import FIRST_USER, Cluster
from tests.faults.layout import GPU_TYPE, GPUS_PER_NODE, NODES

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[2]
# Long enough that what starts and ends take of themselves does not count for much.
JOBS, MIN_JOB_S, MAX_JOB_S = 14, 4.0, 8.0


def test_a_history_that_is_simulated_has_the_same_completion_times(cluster: Cluster, tmp_path: Path) -> None:
    chance = random.Random(7)
    [(since,)] = cluster.sql("SELECT now()")
    jobs = [
        cluster.submit(
            f"sleep {chance.uniform(MIN_JOB_S, MAX_JOB_S):.2f}", gpus=chance.choice([1, 1, 2, 3]), memory="64MiB"
        )
        for _ in range(JOBS)
    ]
    for job in jobs:
        assert cluster.wait(job, within_s=90)["state"] == "succeeded", cluster.story(job)
    history = tmp_path / "history.jsonl"
    command = [sys.executable, "manage.py", "export_trace", str(history), "--since", since.isoformat()]
    told = subprocess.run(command, cwd=ROOT, env=cluster.environment(), check=True, capture_output=True, text=True)
    assert told.stdout == f"{JOBS} jobs written to {history}\n"

    trace = read_trace(history)
    assert trace.quotas.keys() >= {FIRST_USER}
    options = Options(policy="fifo", first_start_s=hand_over_s(cluster))
    result = simulate(trace, parse_cluster(f"{GPU_TYPE}:{len(NODES)}x{GPUS_PER_NODE}"), options)
    simulated = fmean(record.ended_s - record.submitted_s for record in result.records if record.ended_s is not None)
    [(real,)] = cluster.sql(
        "SELECT avg(extract(epoch FROM ended_at - submitted_at))::float FROM jobs_job WHERE submitted_at >= %s", since
    )
    assert result.unfinished == 0
    # Real hand-overs differ from their median, each by a part of a second; a job waits for several of them.
    assert simulated == pytest.approx(real, rel=0.1)


def hand_over_s(cluster: Cluster) -> float:
    """Seconds from a job's end to the next one's start: 0 in a simulator, many on a busy machine."""
    gaps = cluster.sql(
        "SELECT extract(epoch FROM claimed_at - (SELECT max(before.released_at) FROM jobs_gpuclaim before"
        " WHERE before.released_at <= claim.claimed_at))::float FROM jobs_gpuclaim claim"
        " WHERE claimed_at > (SELECT min(released_at) FROM jobs_gpuclaim)"
    )
    return median(gap for (gap,) in gaps)
