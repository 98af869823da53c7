"""From each level to the next coarser one, and what is forgotten of each.

Rows are deleted in batches and not by dropping partitions: a partition that was not made in time would refuse samples,
and with them the message that brings them. The space of what is deleted is used again by what comes next.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from django.db import connection, transaction
from django.db.models import Min

from muster.samples.families import FAMILIES, Family, Resolution
from muster.samples.models import RollUp

# A sample is written in a transaction of its own, and its time is taken in the same statement.
SETTLED_AFTER = timedelta(seconds=30)
MAX_BUCKETS_PER_WINDOW = {60: 10, 3600: 1}
MAX_WINDOWS = 60
BATCH = 20_000
MAX_BATCHES = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def roll_up(*, now: datetime) -> int:
    """Bring the coarser levels up to date, within bounds; returns how many windows of time were done."""
    done = 0
    for family in FAMILIES:
        for finer, coarser in zip(family.levels, family.levels[1:], strict=False):
            windows = 0
            while windows < MAX_WINDOWS and _roll_up_window(family, finer, coarser, now=now):
                windows += 1
            done += windows
    return done


def forget(*, now: datetime) -> int:
    """Delete what is older than its level is kept, within bounds; never what is not rolled up yet."""
    done = 0
    for family in FAMILIES:
        made_upto = watermarks(family)
        for place, level in enumerate(family.levels):
            before = now - level.kept_for
            if place + 1 < len(family.levels):
                before = min(before, made_upto.get(family.levels[place + 1].table, _EPOCH))
            done += _delete(level, before)
    return done


def watermarks(family: Family) -> dict[str, datetime]:
    """The time up to which each table that is made from another one is complete."""
    tables = [level.table for level in family.levels]
    return dict(RollUp.objects.filter(table__in=tables).values_list("table", "upto"))


def floor(at: datetime, seconds: int) -> datetime:
    """The beginning of the stretch that a moment is in."""
    return _EPOCH + (at - _EPOCH) // timedelta(seconds=seconds) * timedelta(seconds=seconds)


@transaction.atomic
def _roll_up_window(family: Family, finer: Resolution, coarser: Resolution, *, now: datetime) -> bool:
    """Make the next few rows of each thing; whether there was anything to make.

    1. The table's `RollUp` row is locked; if another worker holds it, this one does nothing.
    2. A stretch is made once all of it has settled: its samples are written, or the level below is complete.
    3. Whole stretches are computed from all rows below, so doing it again gives the same.
    4. A window without a row leads straight to the next row.
    """
    state = _locked_state(finer, coarser)
    if state is None:
        return False
    settled = now - SETTLED_AFTER
    if finer.seconds > family.levels[0].seconds:
        below = RollUp.objects.filter(table=finer.table).first()
        settled = below.upto if below else state.upto
    last = floor(settled, coarser.seconds)
    end = min(state.upto + MAX_BUCKETS_PER_WINDOW[coarser.seconds] * coarser.step, last)
    if end <= state.upto:
        return False
    with connection.cursor() as cursor:
        cursor.execute(_aggregation(family, finer, coarser), [state.upto, end])
        found = cursor.rowcount
    if not found:
        following = _first_row(finer, since=end)
        end = last if following is None else min(last, floor(following, coarser.seconds))
    RollUp.objects.filter(pk=state.pk).update(upto=end)
    return True


def _locked_state(finer: Resolution, coarser: Resolution) -> RollUp | None:
    """The lock; None where another has it, or where there is nothing yet to roll up."""
    if not RollUp.objects.filter(table=coarser.table).exists():
        first = _first_row(finer, since=_EPOCH)
        if first is None:
            return None
        start = RollUp(table=coarser.table, upto=floor(first, coarser.seconds))
        RollUp.objects.bulk_create([start], ignore_conflicts=True)
    rows = RollUp.objects.select_for_update(skip_locked=True, no_key=True)
    return rows.filter(table=coarser.table).first()


def _first_row(level: Resolution, *, since: datetime) -> datetime | None:
    first: datetime | None = level.model._default_manager.filter(at__gte=since).aggregate(at=Min("at"))["at"]
    return first


def _delete(level: Resolution, before: datetime) -> int:
    done = 0
    for _ in range(MAX_BATCHES):
        with connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {level.table} WHERE ctid = ANY(ARRAY("
                f"SELECT ctid FROM {level.table} WHERE at < %s LIMIT {BATCH}))",
                [before],
            )
            done += cursor.rowcount
            if cursor.rowcount < BATCH:
                break
    return done


@cache
def _aggregation(family: Family, finer: Resolution, coarser: Resolution) -> str:
    """The statement that makes the rows of [%s, %s) from the level below."""
    keys = ", ".join(family.keys)
    names = [figure.name for figure in family.figures]
    columns = ", ".join(f"{name}, {name}_max" for name in names)
    figures = ", ".join(figures_sql(names))
    replaced = ", ".join(f"{name} = excluded.{name}, {name}_max = excluded.{name}_max" for name in names)
    return (
        f"INSERT INTO {coarser.table} ({keys}, at, samples, {columns})"
        f" SELECT {keys}, date_bin('{coarser.seconds} s', at, 'epoch') AS stretch, sum(samples), {figures}"
        f" FROM {finer.table} WHERE at >= %s AND at < %s GROUP BY {keys}, stretch"
        f" ON CONFLICT ({keys}, at) DO UPDATE SET samples = excluded.samples, {replaced}"
    )


def figures_sql(names: list[str]) -> list[str]:
    """The mean and the largest of each figure over rows that have both already."""
    return [
        f"sum({name} * samples) / NULLIF(sum(samples) FILTER (WHERE {name} IS NOT NULL), 0), max({name}_max)"
        for name in names
    ]
