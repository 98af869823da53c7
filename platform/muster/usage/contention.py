"""The mean number of applications in a pool while one of them was there.

An application is a group, or a job outside of any, that asks for GPUs; it is there from its submission to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from scheduler.model.lifecycle import JOB_TERMINAL, JobState


@dataclass(frozen=True, slots=True)
class Stay:
    """The time of an application in the pool of its virtual cluster."""

    pool_id: int
    vc_id: int
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Contention:
    """The time-averages of the number of applications in the pool and in the virtual cluster, this one included."""

    of_pool: float = 1.0
    of_vc: float = 1.0


def contention_of(stays: Sequence[Stay]) -> list[Contention]:
    """The contention of each stay, in one query for all of them."""
    found = [Contention()] * len(stays)
    if not stays:
        return found
    values = {name: [getattr(stay, name) for stay in stays] for name in ("pool_id", "vc_id", "begins", "ends")}
    bounds = {"since": min(values["begins"]), "until": max(values["ends"])}
    with connection.cursor() as cursor:
        cursor.execute(_CONTENTION, values | bounds)
        for number, stayed_s, of_pool_s, of_vc_s in cursor.fetchall():
            if stayed_s > 0:
                found[number - 1] = Contention(of_pool_s / stayed_s, of_vc_s / stayed_s)
    return found


_LIVE = ", ".join(f"'{state.value}'" for state in sorted(set(JobState) - JOB_TERMINAL))
# 1. `there`: the live applications, and those that ended later than the first stay began. There is an index for each.
# 2. `marks`: applications come and go, and stays begin and end.
# 3. `clock`: at each mark the seconds that all applications together had been there by then, those of the pool and
#    those of the virtual cluster. A stay has the difference between its two marks.
_CONTENTION = f"""
WITH asked AS (
    SELECT * FROM unnest(%(pool_id)s::bigint[], %(vc_id)s::bigint[], %(begins)s::timestamptz[], %(ends)s::timestamptz[])
        WITH ORDINALITY AS asked (pool_id, vc_id, begins, ends, number)
), there AS (
    SELECT vc_id, submitted_at, ended_at FROM jobs_job WHERE state IN ({_LIVE}) AND gpus > 0 AND group_id IS NULL
    UNION ALL
    SELECT vc_id, submitted_at, ended_at FROM jobs_job WHERE ended_at > %(since)s AND gpus > 0 AND group_id IS NULL
    UNION ALL
    SELECT vc_id, submitted_at, ended_at FROM jobs_jobgroup one WHERE coalesce(ended_at > %(since)s, true)
        AND (SELECT gpus FROM jobs_job WHERE group_id = one.id LIMIT 1) > 0
), present AS (
    SELECT vc.pool_id, there.vc_id, greatest(there.submitted_at, %(since)s) AS begins,
           least(coalesce(there.ended_at, %(until)s), %(until)s) AS ends
    FROM there JOIN tenants_virtualcluster vc ON vc.id = there.vc_id
    WHERE vc.pool_id IN (SELECT pool_id FROM asked) AND there.submitted_at < %(until)s
), marks AS (
    SELECT pool_id, vc_id, NULL::bigint AS number, begins AS at, 1 AS step FROM present
    UNION ALL SELECT pool_id, vc_id, NULL, ends, -1 FROM present
    UNION ALL SELECT pool_id, vc_id, number, begins, 0 FROM asked
    UNION ALL SELECT pool_id, vc_id, number, ends, 0 FROM asked
), timed AS (
    SELECT pool_id, vc_id, number, step, extract(epoch FROM at - %(since)s::timestamptz)::float8 AS at_s FROM marks
), clock AS (
    SELECT number, at_s, at_s * sum(step) OVER in_pool - sum(step * at_s) OVER in_pool AS of_pool_s,
           at_s * sum(step) OVER in_vc - sum(step * at_s) OVER in_vc AS of_vc_s
    FROM timed WINDOW in_pool AS (PARTITION BY pool_id ORDER BY at_s), in_vc AS (PARTITION BY vc_id ORDER BY at_s)
)
SELECT number, max(at_s) - min(at_s), max(of_pool_s) - min(of_pool_s), max(of_vc_s) - min(of_vc_s)
FROM clock WHERE number IS NOT NULL GROUP BY number
"""
