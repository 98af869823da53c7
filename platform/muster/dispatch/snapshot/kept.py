"""Rows of a pool, of which only those are read anew that have changed since the last cycle; and its waiting jobs.

Each change of a row makes another version of it, known by the transaction (`xmin`) and its place in the table (`ctid`).
A cycle asks in its snapshot's own transaction for the versions of all rows and reads those that this process has not
parsed yet. So the result is what reading all rows would give. Everything in a job comes from its row and the time, and
jobs that depend on the time are made anew from the row that was read.

Transaction ids are used again after 2^32 transactions, and by another server that was restored or promoted. So what is
kept is dropped after an hour, with the start of the server, and when this process makes another connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from django.db.backends.signals import connection_created

from muster.common.statements import Statement, statement_of
from scheduler import model

KEPT_FOR_S = 3600.0

_WHICH = """FROM jobs_job job WHERE job.pool_id = %s AND job.startable
AND (job.group_id IS NULL OR job.id = ANY(%s))"""
_VERSION = "job.id || ',' || job.xmin || job.ctid"
_VERSIONS = Statement(f"SELECT pg_postmaster_start_time(), string_agg({_VERSION}, ' ' ORDER BY job.id) {_WHICH}")
_ROWS = f"SELECT {_VERSION}, job.tenant_id, job.hold::text, job.hold_reason, {{columns}} {_WHICH} AND job.id = ANY(%s)"

T = TypeVar("T")
Parse = Callable[[dict[str, Any], float], model.Job]


class StoredHold(NamedTuple):
    """The stored pending reason of a waiting job."""

    tenant_id: int
    hold: dict[str, Any] | None
    reason: str


class _Row(NamedTuple):
    """A row as it was read; `job` is None if the job depends on the time."""

    job: model.Job | None
    columns: Mapping[str, Any]
    stored: StoredHold


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    source: tuple[int, datetime]
    since: float
    rows: Mapping[str, T]


class KeptRows(Generic[T]):
    """Objects that this process has made of rows, by pool and by row version. A version begins with an id."""

    def __init__(self) -> None:
        self._of_pool: dict[int, _Kept[T]] = {}
        _every.append(self)

    def read(
        self,
        pool_id: int,
        ask: Callable[[], tuple[datetime, str | None]],
        read: Callable[[Mapping[int, str]], Mapping[str, T]],
    ) -> list[T]:
        """The objects for the rows that the running transaction sees, in the order of their versions.

        `ask` returns when the server started, and the versions of all rows, `12,3456(7,8)` with spaces between. `read`
        takes the versions of the rows to read by id, and returns what is made of them by version.
        """
        made = _made
        started_at, text = ask()
        versions = text.split(" ") if text else []
        kept = self._kept(pool_id, (made, started_at))
        rows = {version: kept.rows[version] for version in versions if version in kept.rows}
        unread = {int(version.partition(",")[0]): version for version in versions if version not in rows}
        if unread:
            rows |= read(unread)
        if made == _made:
            self._of_pool[pool_id] = replace(kept, rows=rows)
        return [rows[version] for version in versions if version in rows]

    def clear(self) -> None:
        """Forget everything."""
        self._of_pool.clear()

    def _kept(self, pool_id: int, source: tuple[int, datetime]) -> _Kept[T]:
        kept = self._of_pool.get(pool_id)
        if kept is None or kept.source != source or kept.since < time.monotonic() - KEPT_FOR_S:
            return _Kept(source, time.monotonic(), {})
        return kept


_every: list[KeptRows[Any]] = []
_connections = count(1)
_made = 0


def forget(**_: object) -> None:
    """Read all rows anew in the next cycles; called when this process makes a connection."""
    global _made  # noqa: PLW0603
    _made = next(_connections)
    for kept in _every:
        kept.clear()


connection_created.connect(forget)
_waiting = KeptRows[_Row]()


class WaitingRows:
    """The waiting jobs of one cycle, and the pending reasons that are stored of them."""

    def __init__(self, pool_id: int) -> None:
        self._pool_id = pool_id
        self.stored: dict[int, StoredHold] = {}

    def read(self, fields: Sequence[str], turns: Sequence[int], parse: Parse, *, now: float) -> tuple[model.Job, ...]:
        """The jobs of the pool that wait as the running transaction sees them; `turns` are members that may start."""
        which: list[Any] = [self._pool_id, list(turns)]

        def read(unread: Mapping[int, str]) -> Mapping[str, _Row]:
            columns = ", ".join(f"job.{name}" for name in fields)
            rows, holds = {}, dict[str, dict[str, Any]]()  # thousands of jobs share a few hundred pending reasons
            for version, tenant_id, hold, reason, *values in statement_of(_ROWS.format(columns=columns)).rows(
                *which, list(unread)
            ):
                if hold and hold not in holds:
                    holds[hold] = orjson.loads(hold)
                stored = StoredHold(tenant_id, holds[hold] if hold else None, reason)
                rows[version] = _row(dict(zip(fields, values, strict=True)), stored, parse)
            return rows

        jobs = []
        for row in _waiting.read(self._pool_id, lambda: _VERSIONS.rows(*which)[0], read):
            job = row.job or parse(dict(row.columns), now)
            jobs.append(job)
            self.stored[job.id] = row.stored
        return tuple(jobs)


def _row(columns: dict[str, Any], stored: StoredHold, parse: Parse) -> _Row:
    if columns["relax_after_s"] is None and columns["failed_resize"] is None:
        return _Row(parse(columns, 0.0), {}, stored)
    return _Row(None, columns, stored)
