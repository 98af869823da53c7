"""Small traces for the simulator's tests: a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.sim.cluster import ClusterSpec, parse_cluster
from scheduler.sim.engine import simulate
from scheduler.sim.options import Options
from scheduler.sim.result import JobRecord, Result
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork

ONE_NODE = parse_cluster("A100:1x4")


def job(number: int, *, at: float = 0.0, gpus: int = 1, runs: float = 100.0, **fields: Any) -> TraceJob:
    """A job that is submitted `at` and has work for `runs` seconds on its GPUs."""
    values = {"name": f"job{number}", "work": FixedWork(runs)} | fields
    return TraceJob(id=number, submitted_s=at, gpus=gpus, **values)


def play(jobs: Iterable[TraceJob], cluster: ClusterSpec | str = ONE_NODE, **options: Any) -> Result:
    """Simulate the jobs."""
    spec = parse_cluster(cluster) if isinstance(cluster, str) else cluster
    return simulate(Trace("story", tuple(jobs)), spec, Options(**options))


def by_id(result: Result) -> dict[int, JobRecord]:
    """The records of a result by the id of the job."""
    return {record.id: record for record in result.records}


def ends(result: Result) -> dict[int, float | None]:
    """The end of each job."""
    return {record.id: record.ended_s for record in result.records}
