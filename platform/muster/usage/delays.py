"""Waits of jobs for each start, by their delays; `scheduler.model.delays` defines these.

While a job waits, each change of its pending reason or delay is an event, so the time from one event to the next
belongs to the delay of the first. `sum_starts` sums the events before each start up once, in the background; reports
read these sums, and the events only of what started since, and of jobs that wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson
from django.db import connection

from muster.common.errors import Invalid
from muster.events.models import Event
from muster.events.reading import read_new
from muster.jobs.models import Job
from muster.usage.models import DelayReader
from muster.usage.periods import Period
from muster.usage.scope import Scope
from scheduler.model.delays import DELAY_OF, Delay
from scheduler.model.lifecycle import JOB_TERMINAL, JobState

BATCH = 500
MAX_ROWS = 10_000


class DelayBy(StrEnum):
    """The columns by which delays can be grouped."""

    TENANT = "tenant"
    VC = "vc"
    USER = "user"
    SIZE = "size"
    DAY = "day"
    WEEK = "week"


@dataclass(frozen=True, slots=True)
class Delays:
    """A wait by its delays, s."""

    not_eligible_s: float = 0.0
    fair_share_s: float = 0.0
    capacity_s: float = 0.0
    apart_s: float = 0.0
    order_s: float = 0.0
    other_s: float = 0.0

    @property
    def fragmentation_s(self) -> float:
        """The wait within the quota: the fragmentation delay of Philly's authors."""
        return self.capacity_s + self.apart_s + self.order_s

    def figures(self) -> dict[str, float]:
        """All parts and the sum within the quota, in milliseconds' precision."""
        parts = asdict(self) | {"fragmentation_s": self.fragmentation_s}
        return {name: round(value, 3) for name, value in parts.items()}


@dataclass(frozen=True, slots=True)
class DelayRow:
    """The starts with these values in common, the jobs that still wait, and the mean wait of both.

    A day or a week is the moment at which it begins, in UTC.
    """

    values: Mapping[DelayBy, str | datetime]
    starts: int
    waiting: int
    mean: Delays


@dataclass(frozen=True, slots=True)
class JobWait:
    """A wait of one job, for the attempt with this number; None: it still waits."""

    attempt: int | None
    begins: datetime
    ends: datetime
    delays: Delays


def delays(
    period: Period, scope: Scope, by: Sequence[DelayBy], *, waiting: bool = False
) -> tuple[DelayRow, list[DelayRow]]:
    """All starts of the period, and a row for each group; by time, then by name or size.

    With `waiting`, for a period that ends now, queued jobs count in its last day or week with their wait so far.
    """
    where = f" AND {scope.sql}" if scope.sql else ""
    columns = ", ".join(f"{_COLUMNS[one]} AS by_{one}" for one in by)
    groups = ", ".join(f"by_{one}" for one in by)
    statement = _REPORT.format(
        scope=where,
        columns=f"{columns}, " if by else "",
        groups=f"GROUP BY {groups}" if by else "",
        names=f"{', '.join(map(_shown, by))}, " if by else "",
        joins="".join(_join(one) for one in by if one in _NAMES),
        most=MAX_ROWS + 1,
    )
    parameters = _PARAMETERS | {"from": period.start, "to": period.end, "waiting": waiting} | scope.parameters
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        found = cursor.fetchall()
    rows = []
    for row in found:
        values, (starts, still), parts = row[: len(by)], row[len(by) : len(by) + 2], row[len(by) + 2 :]
        if starts + still:  # without columns, there is a row of nothing
            rows.append(DelayRow(dict(zip(by, values, strict=True)), starts, still, Delays(*parts)))
    if len(rows) > MAX_ROWS:
        raise Invalid.field("by", f"that makes more than {MAX_ROWS} rows; ask for a shorter period, or for less")
    return _together(rows), sorted(rows, key=lambda row: _order(row, by)) if by else []


def parse_delays_by(words: str) -> list[DelayBy]:
    """The columns that a comma-separated list names; `Invalid` names a wrong word."""
    found: dict[DelayBy, None] = {}
    for word in filter(None, (part.strip() for part in words.split(","))):
        if word not in set(DelayBy):
            known = ", ".join(one.value for one in DelayBy)
            raise Invalid.field("by", f"{word[:40]!r} is unknown; known: {known}")
        found[DelayBy(word)] = None
    if {DelayBy.DAY, DelayBy.WEEK} <= found.keys():
        raise Invalid.field("by", "name day or week, not both")
    return list(found)


def waits_of(job: Job, now: datetime) -> list[JobWait]:
    """The waits of a job before each of its attempts, and the present one if it waits; in order."""
    with connection.cursor() as cursor:
        parameters = _PARAMETERS | {"job": job.pk, "to": now, "waits": job.state == JobState.QUEUED}
        cursor.execute(_OF_JOB, parameters)
        return [JobWait(attempt, begins, ends, Delays(*parts)) for attempt, begins, ends, *parts in cursor.fetchall()]


def sum_starts(*, most: int = BATCH) -> int:
    """Sum up the waits before up to `most` new starts, and return how many there were; 0 if another worker does."""
    if not DelayReader.objects.exists():
        DelayReader.objects.bulk_create([DelayReader(id=1, tx=0, event_id=0)], ignore_conflicts=True)
    return read_new(DelayReader, ["attempt.placed"], _sum, most=most)


def _sum(starts: Sequence[Event]) -> None:
    if starts:
        with connection.cursor() as cursor:
            cursor.execute(_SUM, _PARAMETERS | {"starts": [start.pk for start in starts], "to": starts[-1].at})


def _together(rows: Sequence[DelayRow]) -> DelayRow:
    weights = [row.starts + row.waiting for row in rows]
    parts = zip(*(astuple(row.mean) for row in rows), strict=True)
    mean = (sum(w * part for w, part in zip(weights, each, strict=True)) / sum(weights) for each in parts)
    return DelayRow({}, sum(row.starts for row in rows), sum(row.waiting for row in rows), Delays(*mean))


def _order(row: DelayRow, by: Sequence[DelayBy]) -> tuple[object, ...]:
    times = [value for one in by if isinstance(value := row.values[one], datetime)]
    return (*times, *(str(row.values[one]) for one in by))


_NAMES = {
    DelayBy.TENANT: ("tenants_tenant", "name"),
    DelayBy.VC: ("tenants_virtualcluster", "name"),
    DelayBy.USER: ("accounts_user", "username"),
}
_COLUMNS = {
    DelayBy.TENANT: "tenant_id",
    DelayBy.VC: "vc_id",
    DelayBy.USER: "owner_id",
    DelayBy.SIZE: "CASE WHEN gpus <= 1 THEN '1' WHEN gpus <= 4 THEN '2-4' WHEN gpus <= 8 THEN '5-8' ELSE '>8' END",
    DelayBy.DAY: "date_trunc('day', started_at, 'UTC')",
    DelayBy.WEEK: "date_trunc('week', started_at, 'UTC')",
}


def _shown(one: DelayBy) -> str:
    return f"the_{one}.{_NAMES[one][1]}" if one in _NAMES else f"by_{one}"


def _join(one: DelayBy) -> str:
    return f" JOIN {_NAMES[one][0]} the_{one} ON the_{one}.id = by_{one}"


_PARAMETERS: dict[str, Any] = {
    "delay_of": orjson.dumps({str(reason): str(delay) for reason, delay in DELAY_OF.items()}).decode(),
    "ends": [f"job.{state}" for state in sorted(JOB_TERMINAL)],
    "kinds": [
        *("job.submitted", "job.queued", "job.held", "job.released", "job.unblocked", "job.paused", "job.resumed"),
        *("attempt.placed", *(f"job.{state}" for state in sorted(JOB_TERMINAL))),
    ],
}
_PARTS = [part.name for part in fields(Delays)]
_DELAY_OF_PART = {part: part.removesuffix("_s") for part in _PARTS} | {"apart_s": str(Delay.FRAGMENTATION)}
_SUMS = ", ".join(
    f"COALESCE(sum(s) FILTER (WHERE delay = '{_DELAY_OF_PART[part]}'), 0)::float8 AS {part}" for part in _PARTS
)
_LISTED = ", ".join(_PARTS)
# The waits of the jobs that are `asked`, by the event of the start that ended each; without one, up to `to`. Members of
# a group have no event of their submission: they wait for their turn first.
_WAITS = f"""
told AS (
    SELECT job_id, tx, id, at, kind, CASE
            WHEN kind = 'attempt.placed' OR kind = ANY(%(ends)s) THEN NULL
            ELSE COALESCE(
                data->>'delay',
                CASE WHEN kind <> 'job.queued' THEN %(delay_of)s::jsonb->>(data->>'reason') END,
                'other'
            )
        END AS delay
    FROM events_event
    WHERE job_id IN (SELECT job_id FROM asked) AND kind = ANY(%(kinds)s)
        AND NOT (kind IN ('job.paused', 'job.resumed') AND data->>'state' = 'active')
    UNION ALL
    SELECT id, 0, 0, submitted_at, 'job.submitted', CASE WHEN group_id IS NULL THEN 'other' ELSE 'not_eligible' END
    FROM jobs_job job
    WHERE id IN (SELECT job_id FROM asked) AND NOT EXISTS (
        SELECT FROM events_event own WHERE own.job_id = job.id AND own.kind = 'job.submitted'
    )
), stretches AS (
    SELECT job_id, at, delay, min(id) FILTER (WHERE kind = 'attempt.placed') OVER (
            later ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS start_id,
        greatest(extract(epoch FROM COALESCE(lead(at) OVER later, %(to)s) - at), 0) AS s
    FROM told WINDOW later AS (PARTITION BY job_id ORDER BY tx, id)
), waits AS (
    SELECT job_id, start_id, min(at) FILTER (WHERE delay IS NOT NULL) AS begins, {_SUMS}
    FROM stretches GROUP BY job_id, start_id
)"""
_SUM = f"""
WITH asked AS (SELECT job_id FROM events_event WHERE id = ANY(%(starts)s)), {_WAITS}
INSERT INTO usage_startdelay (event_id, job_id, tenant_id, vc_id, owner_id, gpus, started_at, {_LISTED})
SELECT start.id, job.id, job.tenant_id, job.vc_id, job.owner_id, job.gpus * job.nodes, start.at, {_LISTED}
FROM waits JOIN events_event start ON start.id = start_id JOIN jobs_job job ON job.id = waits.job_id
WHERE start_id = ANY(%(starts)s) ON CONFLICT DO NOTHING
"""
_REPORT = f"""
WITH fresh AS (
    SELECT id, job_id FROM events_event
    WHERE kind = 'attempt.placed' AND at >= %(from)s AND at < %(to)s
        AND tx >= COALESCE((SELECT tx FROM usage_delayreader), 0)
        AND (tx, id) > (COALESCE((SELECT tx FROM usage_delayreader), 0),
            COALESCE((SELECT event_id FROM usage_delayreader), 0))
), queued AS (
    SELECT id FROM jobs_job job WHERE state = 'queued' AND %(waiting)s{{scope}}
), asked AS (
    SELECT job_id FROM fresh UNION SELECT id FROM queued
), {_WAITS}, found AS (
    SELECT tenant_id, vc_id, owner_id, gpus, started_at, false AS is_waiting, {_LISTED}
    FROM usage_startdelay job WHERE started_at >= %(from)s AND started_at < %(to)s{{scope}}
    UNION ALL
    SELECT job.tenant_id, job.vc_id, job.owner_id, job.gpus * job.nodes, COALESCE(start.at, %(to)s), start_id IS NULL,
        {_LISTED}
    FROM waits JOIN jobs_job job ON job.id = waits.job_id LEFT JOIN events_event start ON start.id = start_id
    WHERE (start_id IN (SELECT id FROM fresh) OR start_id IS NULL AND job.id IN (SELECT id FROM queued)){{scope}}
), summed AS (
    SELECT {{columns}}count(*) FILTER (WHERE NOT is_waiting) AS starts, count(*) FILTER (WHERE is_waiting) AS waiting,
        {", ".join(f"COALESCE(avg({part}), 0) AS {part}" for part in _PARTS)}
    FROM found {{groups}} LIMIT {{most}}
)
SELECT {{names}}starts, waiting, {_LISTED} FROM summed{{joins}}
"""
_OF_JOB = f"""
WITH asked AS (SELECT %(job)s::bigint AS job_id), {_WAITS}
SELECT (start.data->>'attempt')::integer, begins, COALESCE(start.at, %(to)s), {_LISTED}
FROM waits LEFT JOIN events_event start ON start.id = start_id
WHERE begins IS NOT NULL AND (start_id IS NOT NULL OR %(waits)s) ORDER BY start_id NULLS LAST
"""
