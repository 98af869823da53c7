"""Taking samples over: one statement for all of a message's, whatever their number."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from django.db import connection

from muster.samples.families import Family, Figure

log = logging.getLogger(__name__)

Values = dict[str, float | None]


def sound(family: Family, told: Mapping[str, float | None], *, where: str) -> Values:
    """The figures of one sample without impossible values; the log names the fields that were left out.

    They are left out rather than clipped: a maximum that was not measured would stay in the charts. The message is not
    refused either: a driver that reports nonsense must not keep a node from getting its orders.
    """
    values = {figure.name: _within(figure, told.get(figure.name)) for figure in family.figures}
    wrong = [name for name, value in values.items() if value is None and told.get(name) is not None]
    if wrong:
        log.warning("sample_left_out fields=%s", ",".join(f"{where}.{name}={told[name]!r:.40}" for name in wrong))
    return values


def add(family: Family, samples: Mapping[tuple[int, ...], Values]) -> None:
    """Add a sample of each thing to the ten seconds that are now; `samples` has them by the family's keys."""
    if not samples:
        return
    # In the order of the keys: two messages of one node that arrive at once must not wait for each other in a circle.
    rows = sorted(samples.items())
    columns: list[Any] = [[key[place] for key, _ in rows] for place in range(len(family.keys))]
    columns += [[values[figure.name] for _, values in rows] for figure in family.figures]
    with connection.cursor() as cursor:
        cursor.execute(_insertion(family), columns)


def _within(figure: Figure, value: float | None) -> float | None:
    if value is None or not math.isfinite(value) or not figure.least <= value <= figure.most:
        return None
    return float(value)


@cache
def _insertion(family: Family) -> str:
    """The INSERT that takes an array for each key and each figure."""
    finest = family.levels[0]
    names = [figure.name for figure in family.figures]
    arrays = ", ".join(["%s::bigint[]"] * len(family.keys) + ["%s::real[]"] * len(names))
    given = ", ".join([*family.keys, *names])
    columns = ", ".join([*family.keys, "at", "samples", *(f"{name}, {name}_max" for name in names)])
    selected = ", ".join([*family.keys, "moment.at", "1", *(f"{name}, {name}" for name in names)])
    merged = ", ".join(
        f"{name} = COALESCE((old.{name} * old.samples + excluded.{name}) / (old.samples + 1),"
        f" old.{name}, excluded.{name}), {name}_max = GREATEST(old.{name}_max, excluded.{name}_max)"
        for name in names
    )
    return (
        f"INSERT INTO {finest.table} AS old ({columns}) SELECT {selected} FROM unnest({arrays}) AS given ({given}),"
        f" (SELECT date_bin('{finest.seconds} s', clock_timestamp(), 'epoch') AS at) AS moment"
        f" ON CONFLICT ({', '.join(family.keys)}, at) DO UPDATE SET samples = old.samples + 1, {merged}"
    )
