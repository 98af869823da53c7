"""Taking over what jobs report: by name and step, in bounded room."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from django.db import transaction

from muster.common.models import DatabaseNow
from muster.monitoring.models import Series
from nodeagent.protocol.messages import MAX_REPORTED_NAMES, MAX_REPORTED_POINTS, MetricPoint
from scheduler.diagnosis.training import Curve

TOTAL, CHECKPOINT = "total", "checkpoint_s"
"""Names with a meaning: where the steps end, and how long a checkpoint took."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}")
_ODD = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_CURVE = ("steps", "values", "stride", "count", "finite", "total", "last_step", "last_value", "odd_run")
_MAX_STEP = float(1 << 53)

Point = tuple[str, float | None, float]
"""A name, the step if it was told, and the value."""


def told_points(points: Sequence[MetricPoint]) -> list[Point]:
    """Valid points of an agent's message; the rest is ignored."""
    found: list[Point] = []
    for point in points[-MAX_REPORTED_POINTS:]:
        value = _ODD.get(point.odd) if point.value is None else point.value
        if value is None or not _NAME.fullmatch(point.name):
            continue
        step = point.step if point.step is not None and 0 <= point.step <= _MAX_STEP else None
        found.append((point.name, step, value))
    return found


def keep_points(told: Mapping[int, Sequence[Point]], *, from_log: bool = False) -> None:
    """Add points to the curves of attempts, in two statements whatever their number.

    What a job reports itself counts more than what is read from its log: with the first report the latter is left out.
    """
    told = {attempt_id: points for attempt_id, points in told.items() if points}
    if not told:
        return
    with transaction.atomic():
        # In the order of the keys: two messages that arrive at once must not wait for each other in a circle.
        held = Series.objects.select_for_update(no_key=True).filter(attempt__in=sorted(told)).order_by("pk")
        known: dict[int, dict[str, Series]] = defaultdict(dict)
        for row in held:
            known[row.attempt_id][row.name] = row
        changed: list[Series] = []
        for attempt_id, points in sorted(told.items()):
            changed += _added(attempt_id, points, known[attempt_id], from_log=from_log)
        Series.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["attempt", "name"],
            update_fields=[*_CURVE, "from_log", "at", "fresh"],
        )


def curve_of(row: Series) -> Curve:
    """The curve whose columns these are."""
    return Curve(**{name: getattr(row, name) for name in _CURVE})


def _added(attempt_id: int, points: Sequence[Point], known: dict[str, Series], *, from_log: bool) -> list[Series]:
    if from_log and any(not row.from_log for row in known.values()):
        return []
    curves: dict[str, Curve] = {}
    for name, step, value in points:
        curve = curves.get(name)
        if curve is None:
            row = known.get(name)
            if row is None and len(known.keys() | curves.keys()) >= MAX_REPORTED_NAMES:
                continue
            curve = curves[name] = Curve() if row is None or row.from_log != from_log else curve_of(row)
        curve.add(step, value)
    return [
        Series(
            attempt_id=attempt_id,
            name=name,
            from_log=from_log,
            at=DatabaseNow(),
            fresh=True,
            **{column: getattr(curve, column) for column in _CURVE},
        )
        for name, curve in sorted(curves.items())
    ]
