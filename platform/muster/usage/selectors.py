"""GPU-hours, counted from the claims on GPUs: who held how much of which GPU from when to when.

A claim on all slots of a GPU for an hour is a GPU-hour, and one on half of them is half of that. What lies outside of
the period is cut off, and an open claim counts up to now. All is summed up in Postgres, in one statement
(`muster.usage.statement`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction

from muster.common.errors import Invalid
from muster.usage.dimensions import BUCKETS, By
from muster.usage.periods import Period
from muster.usage.scope import Scope
from muster.usage.statement import statement

MAX_ROWS = 10_000


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
    """The sum, and the rows by what is asked for: by time, then the largest first. `Invalid` if there are more than
    `MAX_ROWS`."""
    total, rows = Row({}, 0.0, 0, 0), []
    for row in read(period, scope, [by, ()] if by else [()]):
        if row.values:
            rows.append(row)
        else:
            total = row
    if len(rows) > MAX_ROWS:
        raise Invalid.field("by", f"that makes more than {MAX_ROWS} rows; ask for a shorter period, or for less")
    return total, sorted(rows, key=_order)


def read(period: Period, scope: Scope, sets: Sequence[Sequence[By]]) -> list[Row]:
    """The rows of each grouping that is asked for; each row has the values of its own grouping only."""
    dimensions = sorted({one for group in sets for one in group})
    text, parameters = statement(period, scope, dimensions, sets, most=len(sets) * MAX_ROWS + 2)
    with transaction.atomic(), connection.cursor() as cursor:
        # What is sorted here is small rows of many attempts; with the usual 4 MiB they would go through files.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(text, parameters)
        found = cursor.fetchall()
    rows = []
    for grouping, *values, gpu_hours, jobs, attempts, in_bucket in found:
        # Bit by bit, the last dimension in the lowest: 1 where the grouping does not tell it apart.
        left_out = f"{grouping:0{len(dimensions)}b}" if dimensions else ""
        mine = {one: value for one, value, out in zip(dimensions, values, left_out, strict=True) if out == "0"}
        counts = in_bucket if mine.keys() & BUCKETS.keys() else (jobs, attempts)
        rows.append(Row(mine, float(gpu_hours), *map(int, counts)))
    # An empty grouping has a row even of nothing.
    return [row for row in rows if row.attempts or row.values]


def _order(row: Row) -> tuple[object, ...]:
    times = [value.timestamp() for value in row.values.values() if isinstance(value, datetime)]
    return (*times, -row.gpu_hours, *(str(value) for value in row.values.values()))


def parse_by(words: str) -> list[By]:
    """The columns that a comma-separated list names; `Invalid` names a wrong word."""
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
