"""Jobs and ended runs as `scheduler.predict` knows them: read from Postgres, for one estimate or for a training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from django.db import connection, transaction

from muster.common.statements import Statement
from muster.jobs.models import STEM_SQL, Job
from muster.jobs.spec.requests import gpu_type_of
from muster.jobs.spec.units import parse_duration_s
from scheduler.model.reasons import Reason, RetryOn, reasons_where
from scheduler.predict.history import EndedRun, History, RunTimeJob, stem_of

MAX_RUNS = 20
"""The latest runs of an owner, and of an owner's stem, that an estimate reads."""
_ROWS_AT_ONCE = 2000
NO_RUN = [Reason.STOPPED_EARLY.value]  # its sweep knows how long such a job would have run
STOPPED = {
    *reasons_where(lambda meaning: meaning.category in {RetryOn.INFRASTRUCTURE, RetryOn.NODE_LOST}),
    *(Reason.TIME_LIMIT, Reason.CANCELLED_BY_USER, Reason.IDLE, Reason.LOG_RULE, Reason.PREEMPTED),
    *(Reason.REQUEUED_BY_USER, Reason.RESIZE_FAILED, Reason.PAUSED),
}
"""Ends of jobs that needed longer."""

# A job that saves no checkpoints began anew in its last attempt, so that only that one counts. An elastic job counts
# with the GPU-seconds of all its sizes, over the GPUs that it asked for.
TOOK_SQL = """CASE WHEN jsonb_typeof(job.request->'elastic') = 'object'
    THEN job.attained_gpu_s / greatest(job.gpus * job.nodes, 1)
    WHEN job.checkpoints OR job.attempt_count = 1 THEN job.ran_s
    ELSE (SELECT extract(epoch FROM attempt.ended_at - attempt.placed_at)::float8 FROM jobs_attempt attempt
          WHERE attempt.job_id = job.id AND attempt.stage = 'full' ORDER BY attempt.number DESC LIMIT 1) END"""
"""The run time of a `job`, s; null if its only run was no full one."""
_COLUMNS = f"""
job.owner_id, job.tenant_id, job.vc_id, job.name, job.tags::text, job.code_id, md5(job.spec->>'command'),
job.spec->>'expected', job.gpus, job.nodes, job.gpu_type, job.time_limit_s, job.reason,
extract(epoch FROM job.submitted_at)::float8, extract(epoch FROM job.ended_at)::float8,
{TOOK_SQL}
"""
_HAS_RUN = "job.ended_at IS NOT NULL AND job.ran_s > 0 AND job.reason <> ALL (%s)"
_STEM, _ALIKE = STEM_SQL.format(name="job.name"), STEM_SQL.format(name="alike.name")
# Ranges of the indexes: with equal owners, the index of all ends has their order too, and may be read to its end for
# an owner who has none.
_HISTORY = Statement(f"""
SELECT {_COLUMNS}
FROM (
    SELECT past.id FROM unnest(%s::bigint[]) AS owner (id) CROSS JOIN LATERAL (
        SELECT job.id FROM jobs_job job
        WHERE (job.owner_id, job.ended_at) BETWEEN (owner.id, '-infinity') AND (owner.id, 'infinity') AND {_HAS_RUN}
        ORDER BY job.owner_id DESC, job.ended_at DESC LIMIT {MAX_RUNS}) past
    UNION
    SELECT past.id FROM unnest(%s::bigint[], %s::text[]) AS alike (owner_id, name) CROSS JOIN LATERAL (
        SELECT job.id FROM jobs_job job
        WHERE (job.owner_id, {_STEM}, job.ended_at) BETWEEN (alike.owner_id, {_ALIKE}, '-infinity')
            AND (alike.owner_id, {_ALIKE}, 'infinity') AND {_HAS_RUN}
        ORDER BY job.owner_id DESC, {_STEM} DESC, job.ended_at DESC LIMIT {MAX_RUNS}) past
) latest JOIN jobs_job job USING (id)
ORDER BY job.ended_at, job.id
""")  # noqa: S608 - put together of constants
_NEWEST = f"""
SELECT {_COLUMNS} FROM jobs_job job WHERE {_HAS_RUN} ORDER BY job.ended_at DESC LIMIT %s
"""  # noqa: S608 - put together of constants
_COUNT = Statement(f"""
SELECT count(*) FROM (
    SELECT FROM jobs_job job WHERE {_HAS_RUN} AND job.ended_at > %s LIMIT %s) newer
""")  # noqa: S608 - put together of constants


def history_of(jobs: Sequence[Job]) -> History:
    """The latest ended runs of the owners of these jobs, and of their stems; one query for all of them."""
    if not jobs:
        return History()
    owners = sorted({job.owner_id for job in jobs})
    alike = {(job.owner_id, stem_of(job.name)): job.name for job in jobs}
    rows = _HISTORY.rows(owners, NO_RUN, [owner_id for owner_id, _ in alike], list(alike.values()), NO_RUN)
    return History(_run(row) for row in rows)


def newest_runs(most: int) -> Iterator[EndedRun]:
    """The newest ended runs, the newest first, as the database sends them."""
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(_NEWEST, [NO_RUN, most])
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            yield from map(_run, rows)


def ended_since(moment: datetime, *, most: int) -> int:
    """The number of runs that ended after the moment, counted up to `most`."""
    ((count,),) = _COUNT.rows(NO_RUN, moment, most)
    return int(count)


def run_time_job(job: Job, *, submitted_at: float) -> RunTimeJob:
    """The facts about a job that is to be stored, or waits."""
    request = job.request
    return RunTimeJob(
        owner=str(job.owner_id),
        submitted_at=submitted_at,
        name=job.name,
        tenant=str(job.tenant_id),
        vc=str(job.vc_id),
        code=job.code_id or "",
        command=hashlib.md5(job.spec["command"].encode(), usedforsecurity=False).hexdigest(),
        tags=_words_of(job.tags),
        gpus=request.first.gpus,
        nodes=request.nodes,
        gpu_type=gpu_type_of(request),
        limit_s=job.time_limit_s,
        user_s=user_s_of(job.spec.get("expected")),
    )


def user_s_of(text: str | None) -> float | None:
    """The user's estimate; None without one, and for a text that an earlier release accepted."""
    try:
        return parse_duration_s(text) if text else None
    except ValueError:
        return None


def _run(row: tuple[Any, ...]) -> EndedRun:
    owner, tenant, vc, name, tags, code, command, expected, gpus, nodes, gpu_type, limit_s, reason, *times = row
    submitted_at, ended_at, took_s = times
    job = RunTimeJob(
        owner=str(owner),
        submitted_at=submitted_at,
        name=name,
        tenant=str(tenant),
        vc=str(vc),
        code=code or "",
        command=command or "",
        tags=_words_of(orjson.loads(tags)),
        gpus=gpus,
        nodes=nodes,
        gpu_type=gpu_type,
        limit_s=limit_s,
        user_s=user_s_of(expected),
    )
    return EndedRun(job, ended_at, -1.0 if took_s is None else took_s, reason in STOPPED)


def _words_of(tags: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(tags.items()))
