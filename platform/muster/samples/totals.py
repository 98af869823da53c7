"""Use over a whole holding: one figure each, and not a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from muster.samples.families import GPU, RANK, Family
from muster.samples.levels import watermarks

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Held:
    """A thing by its family's keys, and from when to when it was held."""

    keys: tuple[int, ...]
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class GpuTotal:
    """The mean utilisation of a GPU in percent, and the most memory; None: not measured."""

    samples: int
    utilization: float | None
    memory_used_mib: float | None


@dataclass(frozen=True, slots=True)
class RankTotal:
    """The processors that a rank kept busy on average, and the most memory of its processes; None: not measured."""

    samples: int
    cpu_cores: float | None
    memory_mib: float | None


def gpu_totals(held: Sequence[Held]) -> dict[tuple[int, ...], GpuTotal]:
    """Of GPUs, by their ids and those of the allocations; what was never measured is left out."""
    return {keys: GpuTotal(*figures) for keys, figures in _totals(GPU, held, "utilization", "memory_used_mib")}


def rank_totals(held: Sequence[Held]) -> dict[tuple[int, ...], RankTotal]:
    """Of allocations, by their ids; what was never measured is left out."""
    return {keys: RankTotal(*figures) for keys, figures in _totals(RANK, held, "cpu_cores", "memory_mib")}


def _totals(family: Family, held: Sequence[Held], mean: str, most: str) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The number of samples, the mean of one figure and the largest of another, for each thing.

    Of each level what no coarser one has yet. For each thing that is a range of the tables' primary keys, whose rows
    are those of an hour but for the last of them.
    """
    if not held:
        return
    made_upto = watermarks(family)
    mine = " AND ".join(f"{key} = held.{key}" for key in family.keys)
    parts, parameters, since = [], [], _NEVER
    for level in reversed(family.levels):
        finest = level is family.levels[0]
        upto = datetime.max.replace(tzinfo=UTC) if finest else made_upto.get(level.table, _NEVER)
        if upto <= since:
            continue
        parts.append(
            f"SELECT samples, {mean} AS mean, {most}_max AS most FROM {level.table} WHERE {mine}"
            f" AND at >= date_bin('{level.seconds} s', held.since, 'epoch') AND at <= held.until"
            " AND at >= %s AND at < %s"
        )
        parameters += [since, upto]
        since = upto
    keys = ", ".join(family.keys)
    arrays = ", ".join(["%s::bigint[]"] * len(family.keys))
    columns: list[Any] = [[one.keys[place] for one in held] for place in range(len(family.keys))]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {', '.join(f'held.{key}' for key in family.keys)}, sum(samples),"
            " sum(mean * samples) / NULLIF(sum(samples) FILTER (WHERE mean IS NOT NULL), 0), max(most)"
            f" FROM unnest({arrays}, %s::timestamptz[], %s::timestamptz[]) AS held({keys}, since, until)"
            f" JOIN LATERAL ({' UNION ALL '.join(parts)}) AS rows ON true"
            f" GROUP BY {', '.join(f'held.{key}' for key in family.keys)}",
            [*columns, [one.start for one in held], [one.end for one in held], *parameters],
        )
        rows = cursor.fetchall()
    for row in rows:
        yield row[: len(family.keys)], row[len(family.keys) :]
