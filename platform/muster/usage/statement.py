"""The one statement of a report: of jobs that have ended it reads sums of whole days, of all else the claims.

Jobs that have ended are *counted* by `muster.usage.totals`. Both sources give the same numbers, of jobs and attempts
too, so it does not matter how far the counting is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from muster.usage.dimensions import BUCKETS, NAMES, OF_CLAIMS, OF_DAYS, SLOT_US_PER_HOUR, By
from muster.usage.periods import Period
from muster.usage.scope import Scope
from scheduler.model.lifecycle import JOB_TERMINAL

ENDED = ", ".join(f"'{state.value}'" for state in sorted(JOB_TERMINAL))
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Told:
    """Whether a row tells of its job and its attempt, in conditions: in a sum of all times, and in one of its bucket.

    A job with one attempt is told of once, in the first of the stretches in which it held something.
    """

    at_all: str = "true"
    in_bucket: str = "true"


def statement(
    period: Period, scope: Scope, by: Sequence[By], sets: Sequence[Sequence[By]], *, most: int
) -> tuple[str, dict[str, Any]]:
    """Sums by each of the sets of `by`, `most` rows at most, and the parameters.

    A row is: which of `by` its set leaves out, as bits with the last in the lowest; their values; GPU-hours, jobs,
    attempts, and both as they are of each day or week, if one is told.
    """
    first, last = _whole_days(period)
    parameters: dict[str, Any] = {"from": period.start, "to": period.end, "first": first, "last": last}
    parts = [_open_jobs(scope, by)]
    if period.start < first:
        parts.append(_edge(("from", "first"), scope, by, _Told()))
    if first < last:
        parts += [_counted_days(scope, by), _totals(scope, by, whole=period.start == first)]
    if last < period.end:
        parts.append(_edge(("last", "to"), scope, by, _told_after(period, last, by)))
    names = [_name(one) for one in by]
    timed = _bucket(by) is not None
    # Sets with times count those who held something in each day or week, others those of the period.
    leaves_out = f"GROUPING({', '.join(names)})" if names else "0"
    groups = ", ".join(f"({', '.join(_name(one) for one in group)})" for group in sets)
    counts = ", ".join([_counts("")] + ([_counts("_in_bucket")] if timed else []))
    text = (
        f"WITH told AS ({' UNION ALL '.join(parts)}),"
        f" summed AS (SELECT {', '.join([f'{leaves_out} AS left_out', *names])},"
        f" COALESCE(sum(slot_us), 0) AS slot_us, {counts}"
        f" FROM told GROUP BY GROUPING SETS ({groups}) LIMIT {most})"
        f" SELECT {', '.join(['left_out', *map(_shown, by)])}, slot_us / {SLOT_US_PER_HOUR}.0, jobs, attempts,"
        f" {'ARRAY[jobs_in_bucket, attempts_in_bucket]' if timed else 'NULL'} FROM summed"
        + "".join(
            f" LEFT JOIN {NAMES[one][0]} the_{one.value} ON the_{one.value}.id = {_name(one)}"
            for one in by
            if one in NAMES
        )
    )
    return text, parameters | scope.parameters


def _whole_days(period: Period) -> tuple[datetime, datetime]:
    """The first moment of the first whole day and the last of the last one; without any, twice the same moment."""
    first = min(midnight(period.start + _DAY - timedelta(microseconds=1)), period.end)
    return first, max(midnight(period.end), first)


def midnight(at: datetime) -> datetime:
    """The beginning of the day, in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def held_sql(bounds: tuple[str, str], where: str, *, bucket: str | None = None) -> str:
    """Microseconds of a slot that each attempt held between two parameters, by type of GPU and by `bucket`.

    A claim of no time, or whose end a clock that was set back put before its beginning, is of that moment and counts
    as nothing.
    """
    begin, end = (f"%({name})s::timestamptz" for name in bounds)
    begins, ends = f"greatest(claim.claimed_at, {begin})", f"least(COALESCE(claim.released_at, {end}), {end})"
    lateral, column = "", ""
    if bucket:
        lateral = (
            f" CROSS JOIN LATERAL generate_series(date_trunc('{bucket}', {begins}, 'UTC'),"
            f" greatest({ends} - interval '1 us', {begins}), interval '1 {bucket}') AS bucket"
        )
        begins, ends = f"greatest({begins}, bucket)", f"least({ends}, bucket + interval '1 {bucket}')"
        column = ", bucket"
    return (
        f"SELECT allocation.attempt_id, gpu.type AS gpu_type{column},"
        f" sum((greatest(extract(epoch FROM {ends} - {begins})::float8, 0) * 1000000)::bigint"
        " * (upper(claim.span) - lower(claim.span)))::bigint AS slot_us, min(claim.claimed_at) AS claimed_at,"
        " max(claim.claimed_at) AS last_claimed_at, bool_and(claim.released_at > claim.claimed_at) AS lasted"
        " FROM jobs_gpuclaim claim JOIN jobs_allocation allocation ON allocation.id = claim.allocation_id"
        f" JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id{lateral}"
        f" WHERE claim.claimed_at < {end}"
        f" AND (claim.released_at IS NULL OR claim.released_at > {begin} OR claim.claimed_at >= {begin})"
        f" AND {where} GROUP BY allocation.attempt_id, gpu.type{column}"
    )


def _open_jobs(scope: Scope, by: Sequence[By]) -> str:
    """Holdings of jobs that are not counted yet: from their claims, cut to each day or week if that is told."""
    # Two questions, as there is an index for each.
    jobs = (
        f"SELECT job.id FROM jobs_job job WHERE job.state NOT IN ({ENDED}){_and(scope)} UNION ALL"
        f" SELECT job.id FROM jobs_job job WHERE job.state IN ({ENDED}) AND NOT job.counted{_and(scope)}"
    )
    mine = f"allocation.attempt_id IN (SELECT id FROM jobs_attempt WHERE job_id IN ({jobs}))"
    return (
        f"SELECT {_values(by, OF_CLAIMS)}held.slot_us, {_rows(by, 'attempt.job_id', 'attempt.id', _Told())}"
        f" FROM ({held_sql(('from', 'to'), mine, bucket=_bucket(by))}) held"
        " JOIN jobs_attempt attempt ON attempt.id = held.attempt_id JOIN jobs_job job ON job.id = attempt.job_id"
    )


def _edge(bounds: tuple[str, str], scope: Scope, by: Sequence[By], told: _Told) -> str:
    """Holdings of counted jobs in a part of a day, from their claims; `HeldDay` says which those are."""
    day = f"(%({bounds[0]})s::timestamptz AT TIME ZONE 'UTC')::date"
    mine = f"allocation.attempt_id IN (SELECT job.attempt_id FROM usage_heldday job WHERE job.day = {day}{_and(scope)})"
    values = _values(by, OF_DAYS | {By.GPU_TYPE: "held.gpu_type"})
    return (
        f"SELECT {values}held.slot_us, {_rows(by, 'job.job_id', 'job.attempt_id', told)}"
        f" FROM ({held_sql(bounds, mine)}) held"
        # Of an attempt on two types of GPU there are two rows, which differ in nothing else that is read here.
        " CROSS JOIN LATERAL (SELECT * FROM usage_heldday WHERE attempt_id = held.attempt_id"
        f" AND day = {day} LIMIT 1) job"
    )


def _told_after(period: Period, last: datetime, by: Sequence[By]) -> _Told:
    """Of whom the stretch after the last whole day tells: who is alone and was there before has been told of."""
    if last == period.start:
        return _Told()
    new = "(NOT job.alone OR held.claimed_at >= %(last)s)"
    return _Told(new, "true" if By.DAY in by or last.weekday() == 0 else new)


def _counted_days(scope: Scope, by: Sequence[By]) -> str:
    """Holdings of counted jobs of several attempts on whole days."""
    return (
        f"SELECT {_values(by, OF_DAYS)}job.slot_us, {_rows(by, 'job.job_id', 'job.attempt_id', _Told())}"
        f" FROM usage_heldday job WHERE NOT job.alone AND {_ON_WHOLE_DAYS}{_and(scope)}"
    )


def _totals(scope: Scope, by: Sequence[By], *, whole: bool) -> str:
    """Holdings of counted jobs of one attempt on whole days, and the number of these jobs.

    Who began on a day is new. Who was there already counts on the first day of the period and of each week, unless
    the stretch before it tells of them.
    """
    there = "job.attempts - job.began"
    first = "job.day = (%(first)s::timestamptz AT TIME ZONE 'UTC')::date" if whole else "false"
    numbers = f"NULL::bigint, NULL::bigint, job.began + CASE WHEN {first} THEN {there} ELSE 0 END"
    if By.DAY in by:
        numbers += ", NULL::bigint, NULL::bigint, job.attempts"
    elif By.WEEK in by:
        monday = f"{first} OR extract(isodow FROM job.day) = 1"
        numbers += f", NULL::bigint, NULL::bigint, job.began + CASE WHEN {monday} THEN {there} ELSE 0 END"
    return (
        f"SELECT {_values(by, OF_DAYS | {By.RETRY: 'false'})}job.slot_us, {numbers}"
        f" FROM usage_daytotal job WHERE {_ON_WHOLE_DAYS}{_and(scope)}"
    )


_ON_WHOLE_DAYS = (
    "job.day >= (%(first)s::timestamptz AT TIME ZONE 'UTC')::date"
    " AND job.day < (%(last)s::timestamptz AT TIME ZONE 'UTC')::date"
)


def _values(by: Sequence[By], expressions: dict[By, str]) -> str:
    return "".join(f"{expressions[one]} AS {_name(one)}, " for one in by)


def _rows(by: Sequence[By], job_id: str, attempt_id: str, told: _Told) -> str:
    """The job and the attempt of a row where it tells of them, and no number of others."""
    asked = [(told.at_all, "")] + ([(told.in_bucket, "_in_bucket")] if _bucket(by) else [])
    return ", ".join(
        f"CASE WHEN {condition} THEN {job_id} END AS job{where},"
        f" CASE WHEN {condition} THEN {attempt_id} END AS attempt{where}, 0::bigint AS others{where}"
        for condition, where in asked
    )


def _counts(where: str) -> str:
    others = f"COALESCE(sum(others{where}), 0)"
    return (
        f"count(DISTINCT job{where}) + {others} AS jobs{where},"
        f" count(DISTINCT attempt{where}) + {others} AS attempts{where}"
    )


def _shown(one: By) -> str:
    return f"the_{one.value}.{NAMES[one][1]}" if one in NAMES else _name(one)


def _bucket(by: Sequence[By]) -> str | None:
    return next((BUCKETS[one] for one in by if one in BUCKETS), None)


def _and(scope: Scope) -> str:
    return f" AND {scope.sql}" if scope.sql else ""


def _name(one: By) -> str:
    return f"by_{one.value}"
