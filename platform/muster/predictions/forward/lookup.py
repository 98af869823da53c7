"""Forecasts of waits by the newest run of a pool's policy forward. Nothing is simulated here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import orjson

from muster.common.clock import database_now
from muster.common.statements import Statement
from muster.dispatch.snapshot.snapshot import job_view
from muster.jobs.models import Job
from scheduler.forward.answer import Forward, ForwardError, Starts, from_json, kind_of
from scheduler.predict.waits.forecast import MAX_WAIT_S, WaitForecast, WaitSource

log = logging.getLogger(__name__)

MAX_AGE = timedelta(minutes=30)
"""A run that is older tells nothing of the present queue."""

_NEWEST = Statement("""
SELECT data::text, (SELECT jsonb_object_agg(id, jobs -> id) FROM unnest(%s::text[]) id WHERE jobs ? id)::text
FROM predictions_poolforward WHERE pool_id = %s AND data IS NOT NULL AND at > %s
""")


def forward_of(job: Job) -> WaitForecast | None:
    """The forecast of the whole wait of a job, stored or not, by the pool's newest run; None without a fresh one."""
    return forwards_of(job.vc.pool_id, [job])[0]


def forwards_of(pool_id: int, jobs: Sequence[Job]) -> list[WaitForecast | None]:
    """The forecasts of the whole waits of jobs of one pool: those that waited at the run, and others by their kind."""
    forward = _newest(pool_id, [job.pk for job in jobs if job.pk is not None])
    if forward is None:
        return [None] * len(jobs)
    return [_forecast(forward, job) for job in jobs]


def _newest(pool_id: int, job_ids: Sequence[int]) -> Forward | None:
    """The newest run of the pool, with those of these jobs that waited then; None if it is old or failed."""
    found = _NEWEST.rows([str(job_id) for job_id in job_ids], pool_id, database_now() - MAX_AGE)
    if not found:
        return None
    ((data, jobs),) = found
    try:
        return from_json(orjson.loads(data) | {"jobs": orjson.loads(jobs or "{}")})
    except ForwardError as error:
        log.warning("forward_unreadable pool=%s why=%s", pool_id, error)
        return None


def _forecast(forward: Forward, job: Job) -> WaitForecast | None:
    starts, waited_s = forward.jobs.get(job.pk or 0), 0.0
    if starts is None:
        starts = forward.of_kind(kind_of(job_view(job, job_id=0, now=forward.at)))
    else:
        waited_s = max(0.0, forward.at - max(job.submitted_at, job.eligible_at).timestamp())
    return None if starts is None else _wait(starts, waited_s, forward.draws)


def _wait(starts: Starts, waited_s: float, draws: int) -> WaitForecast:
    p10_s, p50_s, p90_s = (
        min(waited_s + start_s, MAX_WAIT_S) for start_s in (starts.p10_s, starts.p50_s, starts.p90_s)
    )
    # What no draw shows is not impossible: Laplace's rule of succession.
    quick = (starts.quick * draws + 1) / (draws + 2)
    return WaitForecast(quick, p10_s, p50_s, p90_s, WaitSource.FORWARD)
