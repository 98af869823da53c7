"""Waits of a virtual cluster's jobs for each start, by cause, waiting jobs included.

While a job waits, each change of its pending reason is an event, so the time from one event to the next belongs to the
reason of the first. docs/operator/simulator.md defines both delays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import connection

from muster.usage.dimensions import BUCKETS, By
from muster.usage.periods import Period
from scheduler.model.lifecycle import HoldReason


class Delay(StrEnum):
    """The cause of a wait."""

    FAIR_SHARE = "fair_share"
    """Its quota or a cap has no room for it, or the policy serves others first."""
    FRAGMENTATION = "fragmentation"
    """It is within its quota, but the GPUs that it may use are not free, or not free together."""
    OTHER = "other"


DELAYS = dict.fromkeys(
    (HoldReason.QUOTA, HoldReason.QUOTA_TOO_SMALL, HoldReason.CAP, HoldReason.POLICY), Delay.FAIR_SHARE
) | (
    dict.fromkeys(
        (
            HoldReason.NO_FREE_GPUS,
            HoldReason.FRAGMENTED,
            HoldReason.BEHIND_HEAD,
            HoldReason.CPU_OR_MEMORY,
            HoldReason.RESERVED,
        ),
        Delay.FRAGMENTATION,
    )
)
"""The delay that a pending reason belongs to; reasons without an entry are `Delay.OTHER`."""


@dataclass(frozen=True, slots=True)
class DelayRow:
    """The starts in one day or week with the jobs that wait still, and the mean wait of both, s."""

    begins: datetime
    starts: int
    fair_share_s: float
    fragmentation_s: float
    other_s: float
    waiting: int = 0


def delays_of(vc_id: int, period: Period, by: By, *, waiting: bool = False) -> list[DelayRow]:
    """A row for each day or week of the period in which jobs of the virtual cluster started, in order.

    With `waiting`, for a period that ends now, queued jobs count in its last day or week with their wait so far.
    """
    parameters: dict[str, Any] = {"vc": vc_id, "from": period.start, "to": period.end, "waiting": waiting} | {
        str(delay): [str(reason) for reason, of in DELAYS.items() if of is delay]
        for delay in (Delay.FAIR_SHARE, Delay.FRAGMENTATION)
    }
    with connection.cursor() as cursor:
        cursor.execute(_STATEMENT.format(bucket=BUCKETS[by]), parameters)
        return [DelayRow(*row) for row in cursor.fetchall()]


_STATEMENT = """
WITH queued AS (
    SELECT id FROM jobs_job WHERE vc_id = %(vc)s AND state = 'queued' AND %(waiting)s
), told AS (
    SELECT job_id, at, kind, data->>'reason' AS reason, lead(at) OVER later AS until,
        min(at) FILTER (WHERE kind = 'attempt.placed')
            OVER (later ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS started_at
    FROM events_event
    WHERE kind IN ('job.submitted', 'job.queued', 'job.held', 'job.paused', 'job.resumed', 'attempt.placed')
        AND job_id IN (
            SELECT job.id FROM jobs_job job JOIN jobs_attempt attempt ON attempt.job_id = job.id
            WHERE job.vc_id = %(vc)s AND attempt.placed_at >= %(from)s AND attempt.placed_at < %(to)s
            UNION SELECT id FROM queued
        )
    WINDOW later AS (PARTITION BY job_id ORDER BY tx, id)
), waits AS (
    SELECT date_trunc('{bucket}', COALESCE(started_at, %(to)s), 'UTC') AS bucket, kind = 'attempt.placed' AS starts,
        CASE WHEN started_at IS NULL THEN job_id END AS waits,
        CASE
            WHEN kind <> 'job.held' THEN 'other'
            WHEN reason = ANY(%(fair_share)s) THEN 'fair_share'
            WHEN reason = ANY(%(fragmentation)s) THEN 'fragmentation'
            ELSE 'other'
        END AS delay,
        CASE
            WHEN kind = 'attempt.placed' THEN 0
            ELSE greatest(extract(epoch FROM COALESCE(until, %(to)s) - at), 0)::float8
        END AS s
    FROM told
    WHERE started_at >= %(from)s AND started_at < %(to)s OR started_at IS NULL AND job_id IN (SELECT id FROM queued)
), summed AS (
    SELECT bucket, count(*) FILTER (WHERE starts) AS starts, count(DISTINCT waits) AS waiting,
        COALESCE(sum(s) FILTER (WHERE delay = 'fair_share'), 0) AS fair_share,
        COALESCE(sum(s) FILTER (WHERE delay = 'fragmentation'), 0) AS fragmentation,
        COALESCE(sum(s) FILTER (WHERE delay = 'other'), 0) AS other
    FROM waits GROUP BY bucket
)
SELECT bucket, starts, fair_share / (starts + waiting), fragmentation / (starts + waiting),
    other / (starts + waiting), waiting
FROM summed WHERE starts + waiting > 0 ORDER BY bucket
"""
