"""GPU-hours, counted from the claims on GPUs: who held how much of which GPU from when to when.

A claim on all slots of a GPU for an hour is a GPU-hour, and one on half of them is half of that. What lies outside of
the period is cut off, and an open claim counts up to now. All is summed up in Postgres, in one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db import connection, transaction

from muster.common.errors import Invalid
from muster.usage.outcomes import category_sql, failure_sql, outcome_sql, retry_sql
from muster.usage.periods import Period
from muster.usage.scope import Scope

SLOTS = 64
"""Of a GPU; see `muster.jobs.models.GpuClaim`."""
MOST_ROWS = 10_000


class By(StrEnum):
    """By what GPU-hours can be told apart."""

    TENANT = "tenant"
    VC = "vc"
    USER = "user"
    GPU_TYPE = "gpu_type"
    CLASS = "class"
    DAY = "day"
    WEEK = "week"
    STATE = "state"
    """What became of the job, or where it stands."""
    OUTCOME = "outcome"
    """What became of the attempt."""
    FAILURE = "failure"
    CATEGORY = "category"
    RETRY = "retry"


_EXPRESSIONS = {
    By.TENANT: "tenant.name",
    By.VC: "vc.name",
    By.USER: "owner.username",
    By.GPU_TYPE: "held.gpu_type",
    By.CLASS: "job.klass",
    By.DAY: "held.bucket",
    By.WEEK: "held.bucket",
    By.STATE: "job.state",
    By.OUTCOME: outcome_sql(),
    By.FAILURE: failure_sql(),
    By.CATEGORY: category_sql(),
    By.RETRY: retry_sql(),
}
_JOINS = {
    By.TENANT: " JOIN tenants_tenant tenant ON tenant.id = job.tenant_id",
    By.VC: " JOIN tenants_virtualcluster vc ON vc.id = job.vc_id",
    By.USER: " JOIN accounts_user owner ON owner.id = job.owner_id",
}
_BUCKETS = {By.DAY: "day", By.WEEK: "week"}


@dataclass(frozen=True, slots=True)
class Row:
    """The GPU-hours of those who have these values in common, and how many jobs and attempts they are.

    A day or a week is the moment at which it begins, in UTC.
    """

    values: dict[By, str | datetime | bool | None]
    gpu_hours: float
    jobs: int
    attempts: int


def usage(period: Period, scope: Scope, by: Sequence[By]) -> tuple[Row, list[Row]]:
    """The sum, and the rows by what is asked for: by time first, and the largest first within.

    `Invalid` if there are more rows than anyone reads.
    """
    total, rows = Row({}, 0.0, 0, 0), []
    for row in read(period, scope, [by, ()] if by else [()]):
        if row.values:
            rows.append(row)
        else:
            total = row
    if len(rows) > MOST_ROWS:
        raise Invalid.field("by", f"that makes more than {MOST_ROWS} rows; ask for a shorter period, or for less")
    return total, sorted(rows, key=_order)


def read(period: Period, scope: Scope, sets: Sequence[Sequence[By]]) -> list[Row]:
    """The rows of each grouping that is asked for; each row has the values of its own grouping only."""
    dimensions = sorted({one for group in sets for one in group})
    statement, parameters = _statement(period, scope, dimensions, sets)
    with transaction.atomic(), connection.cursor() as cursor:
        # What is sorted here is small rows of many attempts; with the usual 4 MiB they would go through files.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(statement, parameters)
        found = cursor.fetchall()
    rows = []
    for grouping, *values, gpu_hours, jobs, attempts in found:
        # Bit by bit, the last dimension in the lowest: 1 where the grouping does not tell it apart.
        left_out = f"{grouping:0{len(dimensions)}b}" if dimensions else ""
        mine = zip(dimensions, values, left_out, strict=True)
        rows.append(Row({one: value for one, value, out in mine if out == "0"}, float(gpu_hours), jobs, attempts))
    # An empty grouping has a row even of nothing.
    return [row for row in rows if row.attempts or row.values]


def _statement(
    period: Period, scope: Scope, dimensions: Sequence[By], sets: Sequence[Sequence[By]]
) -> tuple[str, list[Any]]:
    """The statement and its parameters.

    1. The claims that touch the period, each cut to it, and to each day or week if these are told apart.
    2. Their sum for each attempt and type of GPU: of gangs and of whole GPUs that is most of the work.
    3. The sums by what is asked for, with the attempts and jobs counted once each.
    """
    held, parameters = _held(period, scope, [_BUCKETS[one] for one in dimensions if one in _BUCKETS])
    selected = "".join(f", {_EXPRESSIONS[one]} AS by_{one.value}" for one in dimensions)
    names = ", ".join(f"by_{one.value}" for one in dimensions)
    joins = "".join(_JOINS.get(one, "") for one in dimensions)
    grouping = f"GROUPING({names})" if names else "0"
    groups = ", ".join(f"({', '.join(f'by_{one.value}' for one in group)})" for group in sets)
    statement = (
        f"WITH held AS ({held}), told AS (SELECT held.gpu_s, attempt.id AS attempt_id, attempt.job_id{selected}"
        " FROM held JOIN jobs_attempt attempt ON attempt.id = held.attempt_id"
        f" JOIN jobs_job job ON job.id = attempt.job_id{joins})"
        f" SELECT {grouping}{', ' + names if names else ''}, COALESCE(sum(gpu_s), 0) / 3600,"
        " count(DISTINCT job_id), count(DISTINCT attempt_id)"
        f" FROM told GROUP BY GROUPING SETS ({groups}) LIMIT {len(sets) * MOST_ROWS + 2}"
    )
    return statement, parameters


def _held(period: Period, scope: Scope, buckets: Sequence[str]) -> tuple[str, list[Any]]:
    """How many seconds of a whole GPU each attempt held, by type of GPU and by the bucket of time."""
    begins, ends = "greatest(claim.claimed_at, %s)", "least(COALESCE(claim.released_at, %s), %s)"
    bounds: list[Any] = [period.end, period.end, period.start]
    lateral, column, grouped = "", "", ""
    parameters = [*bounds]
    if buckets:
        (unit,) = buckets
        lateral = (
            f" CROSS JOIN LATERAL generate_series(date_trunc('{unit}', {begins}, 'UTC'), {ends} - interval '1 us',"
            f" interval '1 {unit}') AS bucket"
        )
        begins, ends = f"greatest({begins}, bucket)", f"least({ends}, bucket + interval '1 {unit}')"
        column, grouped = ", bucket", ", bucket"
        parameters += [period.start, period.end, period.end]
    statement = (
        f"SELECT allocation.attempt_id, gpu.type AS gpu_type{column},"
        # A clock that was set back must not make anybody's use less than nothing.
        f" sum(greatest(extract(epoch FROM {ends} - {begins})::float8, 0)"
        f" * (upper(claim.span) - lower(claim.span)) / {SLOTS}) AS gpu_s"
        " FROM jobs_gpuclaim claim JOIN jobs_allocation allocation ON allocation.id = claim.allocation_id"
        f" JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id{lateral}"
        " WHERE claim.claimed_at < %s AND (claim.released_at IS NULL OR claim.released_at > %s)"
    )
    parameters += [period.end, period.start]
    if scope.sql:
        statement += (
            " AND allocation.attempt_id IN (SELECT attempt.id FROM jobs_attempt attempt"
            f" JOIN jobs_job job ON job.id = attempt.job_id WHERE {scope.sql})"
        )
        parameters += scope.parameters
    return f"{statement} GROUP BY allocation.attempt_id, gpu.type{grouped}", parameters


def _order(row: Row) -> tuple[object, ...]:
    times = [value.timestamp() for value in row.values.values() if isinstance(value, datetime)]
    return (*times, -row.gpu_hours, *(str(value) for value in row.values.values()))


def parse_by(words: str) -> list[By]:
    """What a comma-separated list names; `Invalid` says which word is none."""
    found = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        if word not in _WORDS:
            known = ", ".join(one.value for one in By)
            raise Invalid.field("by", f"{word[:40]!r} is unknown; known: {known}")
        found.append(_WORDS[word])
    found = _once(found)
    if {By.DAY, By.WEEK} <= set(found):
        raise Invalid.field("by", "name day or week, not both")
    return found


_WORDS = {one.value: one for one in By} | {"gpu": By.GPU_TYPE}


def _once(found: Iterable[By]) -> list[By]:
    return list(dict.fromkeys(found))
