"""Losses of jobs that report none: read from what the first rank of running attempts has printed since the last look.

It is a task beside the ingest of logs, and reads bounded pieces: of an attempt that prints more than a piece between
two looks the newest is read, so that a flood costs no more than a talk.
"""

from __future__ import annotations

import time

from django.db import transaction

from muster.jobs.models import Allocation
from muster.logs.models import LogFile
from muster.logs.store import read
from muster.monitoring.models import LogPlace
from muster.monitoring.store import TOTAL, Point, keep_points
from scheduler.diagnosis.training.loglines import StepCounter, losses_in
from scheduler.model.lifecycle import AllocationState

PIECE_BYTES = 64 << 10
MAX_LOGS_AT_ONCE = 200


def read_logs(*, until: float) -> int:
    """Read what is new, a few hundred logs at a time, until all is read or the time is over; returns how many."""
    done, behind = 0, 0
    while time.monotonic() < until:
        logs = _with_news(behind)
        for log in logs:
            _read_on(log)
        done += len(logs)
        if len(logs) < MAX_LOGS_AT_ONCE:
            break
        behind = logs[-1].pk
    return done


def _with_news(behind: int) -> list[LogFile]:
    """Logs of first ranks that have more than was read, of attempts that report nothing themselves."""
    found = LogFile.objects.raw(
        "SELECT log.allocation_id, log.size, log.holes, log.segment_bytes"
        " FROM jobs_allocation one JOIN logs_logfile log ON log.allocation_id = one.id"
        " LEFT JOIN monitoring_logplace place ON place.allocation_id = one.id"
        " WHERE one.state <> %s AND one.rank = 0 AND log.allocation_id > %s AND log.size > coalesce(place.offset, 0)"
        " AND NOT EXISTS ("
        "SELECT FROM monitoring_series told WHERE told.attempt_id = one.attempt_id AND NOT told.from_log)"
        " ORDER BY log.allocation_id LIMIT %s",
        [AllocationState.RELEASED.value, behind, MAX_LOGS_AT_ONCE],
    )
    return list(found)


def _read_on(log: LogFile) -> None:
    """Read one log from its place on. The place moves with the points, so that none is counted twice."""
    allocation = Allocation.objects.select_related("attempt").filter(pk=log.pk).first()
    if allocation is None:
        return
    allocation.log_file = log
    with transaction.atomic():
        LogPlace.objects.get_or_create(allocation=allocation)
        place = LogPlace.objects.select_for_update(no_key=True).get(pk=allocation.pk)
        # Behind the last hole: what is read is then what stands there, byte for byte.
        begin = max([place.offset, log.size - PIECE_BYTES, *(stop for _, stop in log.holes)])
        data = read(allocation, start=begin, end=log.size)
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - cut > PIECE_BYTES // 2:  # it has no lines
            cut = len(data)
        if begin > place.offset:
            first = data.find(b"\n", 0, cut) + 1
            lines = data[first:cut]
        else:
            lines = data[:cut]
        counter = StepCounter(place.base, place.last)
        points: list[Point] = []
        for line in losses_in(lines):
            step, total = counter.of(line)
            points.append(("loss", step, line.loss))
            if total is not None:
                points.append((TOTAL, step, total))
        keep_points({allocation.attempt_id: points}, from_log=True)
        LogPlace.objects.filter(pk=place.pk).update(offset=begin + cut, base=counter.base, last=counter.last)
