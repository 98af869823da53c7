"""Metrics that a job reports: lines of JSON in a file of its own, each with figures and perhaps the step they are of.

    {"step": 120, "loss": 0.31, "total": 1000}

The job writes the file, so anything may lie there: see progress.py, whose rules hold here too. Of the bytes since the
last look the newest part is read; lines that are too long, or no object of numbers, are skipped.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from nodeagent.protocol.messages import MAX_REPORTED_NAMES, MAX_REPORTED_POINTS, MetricPoint
from nodeagent.system.files import open_of_job

NAME = ".muster-metrics"
"""The file's name, in the home of the job."""
MAX_READ_BYTES = 128 << 10
MAX_LINE_BYTES = 4096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/@-]{0,63}")
_MAX_STEP = float(1 << 53)
# What a message takes; a loss beyond it has no bounds.
_MAX_VALUE = 9e18


@dataclass
class _Place:
    """The position up to which a job's file is read, and the names that count."""

    offset: int
    names: Set[str] = field(default_factory=set)


class ReportReader:
    """Reads on in the files of several allocations, each of which has one reader at a time."""

    def __init__(self) -> None:
        self._places: Dict[int, _Place] = {}

    def read(self, allocation_id: int, home: str) -> Tuple[MetricPoint, ...]:
        """The new points since the last look, in order, and no more than one message takes."""
        place = self._places.setdefault(allocation_id, _Place(0))
        data = _new_lines(home, place)
        found: List[MetricPoint] = []
        for line in data.split(b"\n"):
            if 2 <= len(line) <= MAX_LINE_BYTES:
                found += _points(line, place.names)
        return tuple(found[-MAX_REPORTED_POINTS:])

    def skip(self, allocation_id: int, home: str) -> None:
        """Read only lines from now on: an earlier run of the agent has reported those before."""
        descriptor = open_of_job(home, NAME)
        if descriptor is not None:
            with os.fdopen(descriptor, "rb") as file:
                self._places[allocation_id] = _Place(os.fstat(file.fileno()).st_size)

    def forget(self, allocation_id: int) -> None:
        """The allocation is gone."""
        self._places.pop(allocation_id, None)


def _new_lines(home: str, place: _Place) -> bytes:
    """The bytes up to the last line end, from where the last look ended or from where the newest part begins."""
    descriptor = open_of_job(home, NAME)
    if descriptor is None:
        return b""
    try:
        size = os.fstat(descriptor).st_size
        if size < place.offset:  # it began anew
            place.offset = 0
        begin = max(place.offset, size - MAX_READ_BYTES)
        data = os.pread(descriptor, MAX_READ_BYTES, begin)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    skipped = begin > place.offset
    end = data.rfind(b"\n") + 1
    # Half of a line waits for its other half, unless no line is so long.
    place.offset = begin + (end if len(data) - end <= MAX_LINE_BYTES else len(data))
    data = data[:end]
    return data.partition(b"\n")[2] if skipped else data


def _points(line: bytes, names: Set[str]) -> Iterator[MetricPoint]:
    try:
        told = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return
    if not isinstance(told, dict):
        return
    step = _number(told.pop("step", None))
    if step is not None and not 0 <= step <= _MAX_STEP:
        step = None
    for name, value in told.items():
        number = _number(value)
        if number is None or not _NAME.fullmatch(name):
            continue
        if name not in names:
            if len(names) >= MAX_REPORTED_NAMES:
                continue
            names.add(name)
        yield _point(name, number, step)


def _point(name: str, value: float, step: Optional[float]) -> MetricPoint:
    if math.isnan(value):
        return MetricPoint(name, None, step, "nan")
    if abs(value) > _MAX_VALUE:
        return MetricPoint(name, None, step, "inf" if value > 0 else "-inf")
    return MetricPoint(name, value, step)


def _number(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
