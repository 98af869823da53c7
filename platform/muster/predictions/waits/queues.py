"""The queue of a pool as forecasts of waits see it, read from Postgres into columns in a few statements."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache

import numpy as np

from muster.common.statements import Statement
from muster.jobs.models import Job
from muster.jobs.spec.requests import gpu_type_of
from scheduler.model.lifecycle import ATTEMPT_LIVE, JobClass, JobState
from scheduler.predict.waits.state import MAX_STARTED, Floats, Jobs, QueueState, WaitJob, kind_of

_CLASSES = {JobClass.GUARANTEED: 1.0}
"""The rank of a class among the waiting jobs; others have 0."""

# The columns are those of WaitJob, with the id of the job in front, and its name in the place of its kind.
_COLUMNS = """job.id, job.owner_id, job.gpus * job.nodes, extract(epoch FROM {eligible})::float8, job.name, job.vc_id,
COALESCE(array_position(%s::text[], job.gpu_type), 0) - 1, CASE WHEN job.klass = 'guaranteed' THEN 1 ELSE 0 END,
job.priority, job.nodes, job.time_limit_s, job.expected_s,
extract(epoch FROM {started})::float8, extract(epoch FROM {ended})::float8"""
_OPEN = "greatest(job.submitted_at, job.eligible_at)"
_WAITING = Statement(f"""
SELECT {_COLUMNS.format(eligible=_OPEN, started="NULL::timestamptz", ended="NULL::timestamptz")}
FROM jobs_job job
WHERE job.pool_id = %s AND job.startable AND job.stage = 'full' AND job.eligible_at <= %s
""")
_RUNNING = Statement(f"""
SELECT {_COLUMNS.format(eligible=_OPEN, started="attempt.placed_at", ended="NULL::timestamptz")}
FROM jobs_job job JOIN jobs_attempt attempt ON attempt.job_id = job.id
WHERE job.pool_id = %s AND job.state = '{JobState.ACTIVE}' AND attempt.stage = 'full' AND attempt.state = ANY(%s)
    AND attempt.placed_at <= %s
""")
_STARTED = Statement(f"""
SELECT {_COLUMNS.format(eligible="wait.eligible_at", started="wait.over_at", ended="job.ended_at")}
FROM (
    SELECT job_id, eligible_at, over_at FROM predictions_waitrecord
    WHERE pool_id = %s AND outcome = 'started' AND over_at <= %s AND eligible_at IS NOT NULL
    ORDER BY over_at DESC LIMIT {MAX_STARTED}
) wait JOIN jobs_job job ON job.id = wait.job_id
ORDER BY wait.over_at
""")
_GPUS = Statement("""
SELECT gpu.type, count(*) FROM fleet_gpu gpu JOIN fleet_node node ON node.id = gpu.node_id
WHERE node.pool_id = %s AND gpu.present AND node.admin = 'active' AND node.health = 'ready'
GROUP BY gpu.type ORDER BY gpu.type
""")


@dataclass(frozen=True, slots=True)
class Queue:
    """The state of a pool's queue, the jobs of its rows, and the numbers by which it knows GPU types."""

    state: QueueState
    ids: Floats
    types: dict[str, int]

    def without(self, job_id: int) -> QueueState:
        """The state as if this job was not there."""
        state, others = self.state, self.ids != job_id
        waiting, running, started = (rows[others[rows]] for rows in (state.waiting, state.running, state.started))
        return replace(state, waiting=waiting, running=running, started=started)

    def job(self, job: Job) -> WaitJob:
        """A job as the state describes jobs; one that is not stored waits from the moment of the state on."""
        request = job.request
        eligible_at = max(job.submitted_at, job.eligible_at).timestamp()
        return WaitJob(
            owner=job.owner_id,
            gpus=float(job.gpus_total),
            eligible_at=eligible_at,
            kind=_kind_of(job.owner_id, job.name),
            vc=job.vc_id,
            gpu_type=self.types.get(gpu_type_of(request), -1),
            job_class=_CLASSES.get(JobClass(job.klass), 0.0),
            priority=float(job.priority),
            nodes=float(request.nodes),
            limit_s=_number(job.time_limit_s),
            p50_s=_number(job.expected_s),
        )


def queue_of(pool_id: int, now: datetime) -> Queue:
    """The queue of the pool at this moment, which is about the present."""
    gpus = dict(_GPUS.rows(pool_id))
    types = {name: number for number, name in enumerate(gpus)}
    names = list(types)
    waiting = _WAITING.rows(names, pool_id, now)
    running = _RUNNING.rows(names, pool_id, sorted(ATTEMPT_LIVE), now)
    started = _STARTED.rows(names, pool_id, now)
    rows = [(*row[:4], _kind_of(row[1], row[4]), *row[5:]) for row in (*waiting, *running, *started)]
    table = np.array(rows, dtype=np.float64).reshape(-1, _WIDTH).T.copy()
    ends = np.cumsum([len(waiting), len(running), len(started)])
    places = np.arange(table.shape[1])
    state = QueueState(
        now.timestamp(),
        Jobs(*table[1:]),
        places[: ends[0]],
        places[ends[0] : ends[1]],
        places[ends[1] :],
        {types[name]: float(count) for name, count in gpus.items()} | {-1: float(sum(gpus.values()))},
    )
    return Queue(state, table[0], types)


_WIDTH = 1 + len(fields(Jobs))
_kind_of = lru_cache(maxsize=1 << 14)(kind_of)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
