"""Reading samples: the figures of some things over a window of time, with a bounded number of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection

from muster.common.errors import Invalid
from muster.samples.families import Family
from muster.samples.levels import figures_sql, floor, watermarks

MAX_POINTS = 500
_STEPS = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)

Line = list[float | None]


@dataclass(frozen=True, slots=True)
class Window:
    """The times [start, end) in steps; each is a multiple of the step since 1970."""

    start: datetime
    end: datetime
    step_s: int

    @property
    def times(self) -> list[int]:
        """The beginning of each step, in seconds since 1970."""
        return list(range(int(self.start.timestamp()), int(self.end.timestamp()), self.step_s))


@dataclass(slots=True)
class Lines:
    """The figures of one thing: for each its means and its largest values, one for each step of the window."""

    mean: dict[str, Line] = field(default_factory=dict)
    most: dict[str, Line] = field(default_factory=dict)


def window_of(family: Family, *, start: datetime, end: datetime, step_s: int, now: datetime) -> Window:
    """The window with the smallest step that is asked for (0: any), still kept so far back, and not too many points."""
    end = min(end, now)
    start = max(start, now - family.levels[-1].kept_for)
    if start >= end:
        raise Invalid.field("from", "it must be before `to` and before now, and not older than what is kept")
    span_s = (end - start).total_seconds()
    finest = next((level for level in family.levels if start >= now - level.kept_for), family.levels[-1])
    least = max(step_s, finest.seconds, span_s / (MAX_POINTS - 1))
    chosen = next((step for step in _STEPS if step >= least), _STEPS[-1])
    begin = floor(start, chosen)
    return Window(begin, floor(end, chosen) + timedelta(seconds=chosen), chosen)


def read(family: Family, window: Window, *, by: str, only: Mapping[str, Sequence[int]]) -> dict[int, Lines]:
    """The figures of each thing of the family by its key `by`; `only` says which rows count, by key.

    A figure that was not measured once in the window is left out. What is not rolled up yet is read from the level
    below, so that the newest steps are there at every resolution.
    """
    if not all(only.values()):
        return {}
    names = [figure.name for figure in family.figures]
    sources, parameters = _sources(family, window, only)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {by}, extract(epoch FROM date_bin('{window.step_s} s', at, 'epoch'))::bigint AS step,"
            f" {', '.join(figures_sql(names))} FROM ({sources}) AS rows GROUP BY {by}, step",
            parameters,
        )
        rows = cursor.fetchall()
    return _lines(names, window, rows)


def _sources(family: Family, window: Window, only: Mapping[str, Sequence[int]]) -> tuple[str, list[Any]]:
    """The rows of the window: of each level what no coarser one has, as far as they are fine enough for the steps."""
    made_upto = watermarks(family)
    condition = " AND ".join(f"{key} = ANY(%s)" for key in only)
    start = window.start
    parts: list[str] = []
    parameters: list[Any] = []
    for level in reversed(family.levels):
        if level.seconds > window.step_s:
            continue
        finest = level is family.levels[0]
        end = window.end if finest else min(window.end, made_upto.get(level.table, datetime.min.replace(tzinfo=UTC)))
        if end <= start:
            continue
        names = ", ".join(f"{figure.name}, {figure.name}_max" for figure in family.figures)
        keys = ", ".join(family.keys)
        parts.append(
            f"SELECT {keys}, at, samples, {names} FROM {level.table} WHERE {condition} AND at >= %s AND at < %s"
        )
        parameters += [list(wanted) for wanted in only.values()] + [start, end]
        start = end
    return " UNION ALL ".join(parts), parameters


def _lines(names: list[str], window: Window, rows: list[tuple[int, ...]]) -> dict[int, Lines]:
    place = {at: index for index, at in enumerate(window.times)}
    found: dict[int, Lines] = {}
    for key, step, *values in rows:
        lines = found.setdefault(key, Lines())
        for index, name in enumerate(names):
            mean, most = values[2 * index], values[2 * index + 1]
            if mean is None:
                continue
            for kept, value in ((lines.mean, mean), (lines.most, most)):
                kept.setdefault(name, [None] * len(place))[place[step]] = _short(value)
    return found


def _short(value: float) -> float:
    """As many digits as a chart has use for; what is slow, such as epochs a second, is not nothing."""
    return round(value, 2) if abs(value) >= 1 else float(f"{value:.3g}")
