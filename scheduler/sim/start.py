"""The stored snapshot of a pool as the beginning of a simulation: nodes, quotas, jobs that wait and run there.

A snapshot tells what the scheduler knows, so the work of a job is what it is predicted to be: its run time on its first
choice, its speeds by size and its rates by GPU type. Nothing arrives later.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.engine.cycle import CycleConfig
from scheduler.model import Job, Running, Snapshot
from scheduler.model.codec import CodecError, from_json, to_json
from scheduler.model.request import Over
from scheduler.sim.cluster import ClusterSpec, NodeGroup
from scheduler.sim.trace import Trace, TraceJob
from scheduler.sim.work import FixedWork, ScalingWork, Work

UNKNOWN_S = 3600.0
"""The run time that is assumed of a job of which no prediction is known."""


WorkOf = Callable[[Job, Running | None], tuple[float, float]]
"""The work of a job that waits, or runs as told, and how much of it is done, in seconds on its first choice."""


class StartError(ValueError):
    """A file that is no start of a simulation; the message says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """A pool at one moment, how it decides, and its jobs as a trace with the work that they have `done`."""

    snapshot: Snapshot
    config: CycleConfig
    trace: Trace
    done: Mapping[int, float]
    unknown: int
    """The number of jobs whose run time is assumed."""

    @property
    def cluster(self) -> ClusterSpec:
        """Its nodes by GPU type and number of GPUs."""
        sizes = Counter((node.gpus[0].type, len(node.gpus)) for node in self.snapshot.nodes if node.gpus)
        return ClusterSpec(tuple(NodeGroup(kind, nodes, gpus) for (kind, gpus), nodes in sorted(sizes.items())))


def start_to_json(snapshot: Snapshot, config: CycleConfig) -> str:
    """The content of a file that `read_start` reads."""
    return json.dumps({"snapshot": to_json(snapshot), "config": to_json(config)})


def read_start(path: Path, *, unknown_s: float = UNKNOWN_S) -> Start:
    """The start that a file holds; jobs without a prediction run for `unknown_s`.

    Raises:
        StartError: it cannot be read, or has another content.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.keys() != {"snapshot", "config"}:
            raise StartError(
                f"{path.name}: not a snapshot with its configuration, as manage.py replay CYCLE FILE writes it"
            )
        return start_of(
            from_json(Snapshot, data["snapshot"]), from_json(CycleConfig, data["config"]), path.name, unknown_s
        )
    except OSError as error:
        raise StartError(f"{path.name}: {error.strerror}") from None
    except (CodecError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise StartError(f"{path.name}: {error}") from None


def start_of(
    snapshot: Snapshot,
    config: CycleConfig,
    name: str,
    unknown_s: float = UNKNOWN_S,
    work_of: WorkOf | None = None,
) -> Start:
    """The start at a snapshot; without `work_of`, the work of each job is what it is predicted to be."""
    known: dict[int, tuple[Job, Running | None]] = {job.id: (job, None) for job in snapshot.waiting}
    known |= {run.job.id: (run.job, run) for run in snapshot.running}
    jobs, done = [], {}
    there = Counter(gpu.type for gpu in snapshot.gpu_by_id.values())
    for job_id, (job, run) in sorted(known.items()):
        total_s, done[job_id] = _work_s(job, run, snapshot.now, unknown_s) if work_of is None else work_of(job, run)
        jobs.append(_traced(job, total_s, snapshot, there))
    unknown = sum(job.expected_s is None for job, _ in known.values())
    return Start(snapshot, config, Trace(name, tuple(jobs)), done, unknown)


def _work_s(job: Job, run: Running | None, now: float, unknown_s: float) -> tuple[float, float]:
    """The job's work and how much of it is done, in seconds. A job that outlives its prediction runs as long again."""
    ran_s = job.ran_s if run is None else run.ran_s(now)
    left_s = job.remaining_s if run is None else run.remaining_s(now)
    if left_s is None:
        left_s = (unknown_s if job.expected_s is None else job.expected_s) - (ran_s if job.checkpoints or run else 0.0)
    if left_s <= 0:
        left_s = max(ran_s, 1.0)
    total_s = max(left_s, job.expected_s or 0.0)
    return total_s, total_s - left_s


def _traced(job: Job, total_s: float, snapshot: Snapshot, there: Counter[str]) -> TraceJob:
    request = job.request
    types = request.types_among(tuple(there))
    elastic = request.elastic if job.speeds else None
    return TraceJob(
        id=job.id,
        name=f"job {job.id}",
        submitted_s=job.submitted_at,
        gpus=request.gpus_total,
        work=_work(job, total_s, types, most=there.total()),
        vc=snapshot.vc_by_id[job.vc_id].name,
        owner=f"user {job.owner_id}",
        gpu_types=tuple(types),
        nodes=request.nodes,
        split=request.divisible,
        max_gpus=0 if elastic is None else request.max_gpus,
        min_gpus=1 if elastic is None else request.min_gpus,
        over=Over.NODE if elastic is None else elastic.over,
        checkpoints=job.checkpoints,
        time_limit_s=job.time_limit_s,
        expected_s=job.expected_s,
        gpu_utilization=job.utilization,
        gpu_memory_mib=request.gpu_memory_mib,
        deadline_s=None if job.deadline_at is None else job.deadline_at - job.submitted_at,
    )


def _work(job: Job, total_s: float, types: Sequence[str], *, most: int) -> Work:
    asked = job.request.gpus_total
    if job.speeds and job.request.elastic is not None:
        most = max(most, asked, job.request.max_gpus)
        return ScalingWork(total_s, asked, tuple(job.speed_on(gpus) for gpus in range(1, most + 1)))
    if not job.expected_rate:
        return FixedWork(total_s)
    known = {one.gpu_type: one.rate.mean / job.expected_rate for one in job.rates if one.gpus == asked}
    return FixedWork(total_s, {kind: known.get(kind, 1.0) for kind in types})
