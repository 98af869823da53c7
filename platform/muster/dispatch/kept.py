"""The waiting jobs of a pool, of which only those are read anew whose rows have changed since the last cycle.

Each change of a row makes another version of it, known by the transaction (`xmin`) and its place in the table (`ctid`).
A cycle asks in its snapshot's own transaction for the versions of all rows and reads those that this process has not
parsed yet. So the jobs are those that reading all rows would give: everything in them comes from this row and the time,
and jobs that depend on the time are made anew from the row that was read.

Transaction ids are used again after 2^32 transactions, and by another server that was restored or promoted. So what is
kept is dropped after an hour, with the start of the server, and when this process makes another connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

import orjson
from django.db import connection
from django.db.backends.signals import connection_created

from scheduler import model
from scheduler.model.lifecycle import Desired, JobState

KEPT_FOR_S = 3600.0

_WHICH = """FROM jobs_job job WHERE job.pool_id = %s AND job.state = %s AND job.desired = %s AND NOT job.held
AND (job.group_id IS NULL OR job.id = ANY(%s))"""
_VERSION = "job.id || ',' || job.xmin || job.ctid"
_VERSIONS = f"SELECT pg_postmaster_start_time(), string_agg({_VERSION}, ' ' ORDER BY job.id) {_WHICH}"
_ROWS = f"SELECT {_VERSION}, job.tenant_id, job.hold::text, job.hold_reason, {{columns}} {_WHICH} AND job.id = ANY(%s)"

Parse = Callable[[dict[str, Any], float], model.Job]


class StoredHold(NamedTuple):
    """What is stored of the pending reason of a waiting job."""

    tenant_id: int
    hold: dict[str, Any] | None
    reason: str


class _Row(NamedTuple):
    """A row as it was read; `job` is None if the job depends on the time."""

    job: model.Job | None
    columns: Mapping[str, Any]
    stored: StoredHold


@dataclass(frozen=True, slots=True)
class _Kept:
    source: tuple[int, datetime]
    since: float
    rows: Mapping[str, _Row]


_connections = count(1)
_made = 0
_of_pool: dict[int, _Kept] = {}


def forget(**_: object) -> None:
    """Read all rows anew in the next cycles; called when this process makes a connection."""
    global _made  # noqa: PLW0603
    _made = next(_connections)
    _of_pool.clear()


connection_created.connect(forget)


class WaitingRows:
    """The waiting jobs of one cycle, and the pending reasons that are stored of them."""

    def __init__(self, pool_id: int) -> None:
        self._pool_id = pool_id
        self.stored: dict[int, StoredHold] = {}

    def read(self, fields: Sequence[str], turns: Sequence[int], parse: Parse, *, now: float) -> tuple[model.Job, ...]:
        """The jobs of the pool that wait as the running transaction sees them; `turns` are members that may start."""
        made = _made
        which: list[Any] = [self._pool_id, JobState.QUEUED.value, Desired.RUN.value, list(turns)]
        with connection.cursor() as cursor:
            cursor.execute(_VERSIONS, which)
            started_at, text = cursor.fetchone()
            versions: list[str] = text.split(" ") if text else []
            kept = self._kept((made, started_at))
            rows = {version: kept.rows[version] for version in versions if version in kept.rows}
            unread = [int(one.partition(",")[0]) for one in versions if one not in rows]
            if unread:
                columns = ", ".join(f"job.{name}" for name in fields)
                cursor.execute(_ROWS.format(columns=columns), [*which, unread])
                for version, tenant_id, hold, reason, *values in cursor.fetchall():
                    stored = StoredHold(tenant_id, orjson.loads(hold) if hold else None, reason)
                    rows[version] = _row(dict(zip(fields, values, strict=True)), stored, parse)
        if made == _made:
            _of_pool[self._pool_id] = replace(kept, rows=rows)
        jobs = []
        for version in versions:
            row = rows.get(version)
            if row is not None:
                job = row.job or parse(dict(row.columns), now)
                jobs.append(job)
                self.stored[job.id] = row.stored
        return tuple(jobs)

    def _kept(self, source: tuple[int, datetime]) -> _Kept:
        kept = _of_pool.get(self._pool_id)
        if kept is None or kept.source != source or kept.since < time.monotonic() - KEPT_FOR_S:
            return _Kept(source, time.monotonic(), {})
        return kept


def _row(columns: dict[str, Any], stored: StoredHold, parse: Parse) -> _Row:
    if columns["relax_after_s"] is None and columns["failed_resize"] is None:
        return _Row(parse(columns, 0.0), {}, stored)
    return _Row(None, columns, stored)
