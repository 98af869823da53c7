"""The only functions that change the status of a job, an attempt or an allocation.

Each change is a conditional UPDATE that names the expected status. The moves of one transaction are written in one
statement, with the GPUs that they free and with their events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from django.db import connection
from django.db.models import Model
from django.db.models.sql import UpdateQuery

from muster.common.models import DatabaseNow
from muster.common.statements import Statement, statement_of
from muster.events.services import STORE_EVENTS, record, recorded_so_far, recorded_together, wake_group, wake_pool
from muster.jobs.dependents import verdicts_after, waits_again
from muster.jobs.models import Allocation, Attempt, Dependency, Job, Reservation
from muster.jobs.ports import ports
from scheduler.model.delays import DELAY_OF
from scheduler.model.lifecycle import (
    ATTEMPT_TERMINAL,
    JOB_TERMINAL,
    AllocationState,
    AttemptState,
    Desired,
    HoldReason,
    JobState,
    require_move,
)
from scheduler.model.reasons import Reason

_ATTEMPT_TIMES = {
    AttemptState.STARTING: "starting_at",
    AttemptState.RUNNING: "running_at",
    AttemptState.STOPPING: "stopping_at",
    **dict.fromkeys(ATTEMPT_TERMINAL, "ended_at"),
}


@dataclass(slots=True)
class _Change:
    """Rows of one table that change alike; without a source their state stays."""

    rows: list[Model]
    source: str | None
    fields: dict[str, Any]

    def is_like(self, other: _Change) -> bool:
        """True if one UPDATE can do both."""
        same_table = type(self.rows[0]) is type(other.rows[0])
        return same_table and self.source == other.source and self.fields == other.fields

    def sql(self) -> tuple[str, list[Any]]:
        """The UPDATE of the rows that are in the expected state, and its parameters."""
        model = type(self.rows[0])
        parts: list[str] = []
        params: list[Any] = []
        for name, value in self.fields.items():
            field: Any = model._meta.get_field(name)
            text, values = _sql_of(model, field, value)
            parts.append(f"{field.column} = {text}")
            params += values
        ids = [row.pk for row in self.rows]
        # Of an array Postgres does not know how long it is, so it would plan the statement anew each time.
        where = "id = %s" if len(ids) == 1 else "id = ANY(%s)"
        params.append(ids[0] if len(ids) == 1 else ids)
        if self.source is not None:
            where += " AND state = %s"
            params.append(self.source)
        return f"UPDATE {model._meta.db_table} SET {', '.join(parts)} WHERE {where}", params  # noqa: S608


class Moves:
    """Moves of a job, its attempt and its allocations under lock, until `write` stores all of them in one statement.

    A row that moves twice is written once, from its first state to its last.
    """

    def __init__(self, tell: Callable[..., None] = record) -> None:
        self._changes: dict[tuple[type[Model], int], _Change] = {}
        self._tell = tell
        self._awaited: list[int] = []

    def move_job(
        self, job: Job, target: JobState, *, actor: str, data: dict[str, Any] | None = None, **fields: Any
    ) -> None:
        """Move the job from the state that its caller saw."""
        source = JobState(job.state)
        require_move("job", source, target)
        self._change(job, source, {"state": target} | _with_the_move(target, fields))
        job.state = target
        self._tell(f"job.{target}", **_told_of(job, source, target, actor=actor, data=data or {}))

    def move_attempt(
        self,
        attempt: Attempt,
        target: AttemptState,
        *,
        job: Job,
        actor: str,
        data: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Move the attempt from the state that its caller saw."""
        source = AttemptState(attempt.state)
        require_move("attempt", source, target)
        fields.setdefault(_ATTEMPT_TIMES[target], DatabaseNow())
        self._change(attempt, source, {"state": target} | fields)
        attempt.state = target
        for name, value in fields.items():
            if not hasattr(value, "resolve_expression"):
                setattr(attempt, name, value)
        told = {"attempt": attempt.number, **(data or {})}
        self._tell(f"attempt.{target}", **_told_of(job, source, target, actor=actor, data=told))

    def move_allocation(self, allocation: Allocation, target: AllocationState, **fields: Any) -> None:
        """Move the allocation from the state that its caller saw; its attempt's events tell what matters of it."""
        source = AllocationState(allocation.state)
        require_move("allocation", source, target)
        if target is AllocationState.RELEASED:
            fields["released_at"] = DatabaseNow()
        self._change(allocation, source, {"state": target} | fields)
        allocation.state = target

    def change(self, row: Job | Attempt | Allocation, **fields: Any) -> None:
        """Change other fields of the row with its moves, or without one."""
        self._change(row, None, fields)

    def write(self) -> None:
        """Store all moves since the last `write`, and the events that were gathered in this transaction so far.

        The rows are under lock, so nothing can have been faster: if it was, this is an error and nothing must stay.
        """
        if self._changes and not self._written(recorded_so_far()):
            raise RuntimeError("a row has left the state that it had under lock")
        self.settle()

    def write_unless_moved(self) -> bool:
        """Store the moves; False if a row is no longer in the state that the caller saw. `settle` follows."""
        return self._written(None)

    def settle(self) -> None:
        """Let the jobs go on, or end, that waited for those that have started or ended by what was written."""
        awaited, self._awaited = self._awaited, []
        if awaited:
            settle(jobs=awaited)

    def _change(self, row: Model, source: str | None, fields: dict[str, Any]) -> None:
        known = self._changes.setdefault((type(row), row.pk), _Change([row], source, {}))
        known.source = known.source or source
        known.fields |= fields

    def _written(self, events: str | None) -> bool:
        changes: list[_Change] = []
        for one in self._changes.values():
            like = next((change for change in changes if change.is_like(one)), None)
            if like is None:
                changes.append(one)
            else:
                like.rows += one.rows
        self._changes = {}
        changed, awaited = _write(changes, events)
        self._awaited += awaited
        return changed == sum(len(change.rows) for change in changes)


def move_job(job: Job, target: JobState, *, actor: str, data: dict[str, Any] | None = None, **fields: Any) -> bool:
    """Move the job from the state its caller saw; False if it is no longer in that state."""
    return _moved(job, lambda moves: moves.move_job(job, target, actor=actor, data=data, **fields))


def move_attempt(
    attempt: Attempt, target: AttemptState, *, job: Job, actor: str, data: dict[str, Any] | None = None, **fields: Any
) -> bool:
    """Move the attempt from the state its caller saw; False if it is no longer in that state."""
    return _moved(attempt, lambda moves: moves.move_attempt(attempt, target, job=job, actor=actor, data=data, **fields))


def move_allocation(allocation: Allocation, target: AllocationState, **fields: Any) -> bool:
    """Move the allocation from the state its caller saw; False if it is no longer in that state."""
    return _moved(allocation, lambda moves: moves.move_allocation(allocation, target, **fields))


def move_jobs(
    jobs: Sequence[Job], target: JobState, *, actor: str, data: Mapping[int, dict[str, Any]], **fields: Any
) -> None:
    """Move jobs that the caller has under lock, all from one state, in one statement; `data` is each one's own."""
    (source,) = {JobState(job.state) for job in jobs}
    require_move("job", source, target)
    moved, awaited = _write([_Change([*jobs], source, {"state": target} | _with_the_move(target, fields))], None)
    if moved != len(jobs):
        raise RuntimeError(f"{len(jobs)} jobs were {source} under lock, and {moved} of them are now {target}")
    for job in jobs:
        job.state = target
        record(f"job.{target}", **_told_of(job, source, target, actor=actor, data=data[job.pk]))
    if awaited:
        settle(jobs=awaited)


def settle(*, jobs: Collection[int] = (), groups: Collection[int] = (), former_name: str | None = None) -> None:
    """Let the jobs that wait for these jobs or groups, which have started or ended, go on, wait on, or end.

    Those that end are followed at once by the jobs that wait for them. `former_name`: the jobs have another one now.
    """
    while jobs or groups:
        verdicts = verdicts_after(jobs=jobs, groups=groups, former_name=former_name)
        if verdicts is None:
            return
        with recorded_together():
            for state, ids in verdicts.rows.items():
                Dependency.objects.filter(pk__in=ids).update(state=state)
            _let_wait(verdicts.waiting)
            _end_in_vain(verdicts.ended)
        # What was submitted in the meantime waits for them too.
        jobs, groups = [job.pk for job in verdicts.ended], ()


def requeue_ended(jobs: Sequence[Job], *, actor: str, hold: Mapping[str, Any] | None) -> None:
    """Queue jobs again that have ended; the caller has them under lock.

    They keep their attempts and what these cost. What was stored of their ends is forgotten first.
    """
    if not {JobState(job.state) for job in jobs} <= JOB_TERMINAL:
        raise RuntimeError("only jobs that have ended are queued again so")
    for forget in ports.when_requeued:
        forget([job.pk for job in jobs])
    for job in jobs:
        told = {"from": job.state, "state": JobState.QUEUED, "reason": Reason.REQUEUED_BY_USER}
        told |= {"delay": DELAY_OF[HoldReason(hold["reason"])]} if hold else {}
        record("job.queued", actor=actor, tenant_id=job.tenant_id, job_id=job.pk, data=told)
        job.state = JobState.QUEUED
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        state=JobState.QUEUED,
        desired=Desired.RUN,
        held=False,
        paused=False,
        blocked_by=0,
        hold_reason=hold["reason"] if hold else "",
        hold=hold,
        requeued_at=DatabaseNow(),
        eligible_at=DatabaseNow(),
        ended_at=None,
        exit_code=None,
        reason="",
        reason_detail="",
        failure=None,
        failed_resize=None,
        retries_used=0,
        retried_because="",
    )


def forget_reservations(job_ids: Iterable[int]) -> None:
    """Keep no GPUs for these jobs any longer."""
    Reservation.objects.filter(pk__in=job_ids).delete()


def _moved(row: Job | Attempt | Allocation, move: Callable[[Moves], None]) -> bool:
    events: list[tuple[str, dict[str, Any]]] = []
    source, moves = row.state, Moves(lambda kind, **told: events.append((kind, told)))
    move(moves)
    if not moves.write_unless_moved():
        row.state = source
        return False
    for kind, told in events:
        record(kind, **told)
    moves.settle()
    return True


_WAIT = Statement(
    "UPDATE jobs_job SET blocked_by = told.blocked_by, hold_reason = told.reason, hold = told.hold,"
    " eligible_at = told.eligible_at FROM jsonb_to_recordset(%s)"
    " AS told(id bigint, blocked_by integer, reason text, hold jsonb, eligible_at timestamptz)"
    " WHERE jobs_job.id = told.id"
)
_END = Statement(
    "UPDATE jobs_job SET state = 'cancelled', desired = 'stop', ended_at = clock_timestamp(), reason = %s,"
    " reason_detail = told.detail, hold_reason = '', hold = NULL"
    " FROM jsonb_to_recordset(%s) AS told(id bigint, detail text) WHERE jobs_job.id = told.id AND state = 'queued'"
)


def _let_wait(jobs: Sequence[Job]) -> None:
    """Store what the jobs wait for now; those that wait for no other job any more are for the next cycle."""
    if not jobs:
        return
    told = [
        {
            "id": job.pk,
            "blocked_by": job.blocked_by,
            "reason": job.hold_reason,
            "hold": job.hold,
            "eligible_at": job.eligible_at,
        }
        for job in jobs
    ]
    _WAIT.run(orjson.dumps(told).decode())
    free = [job for job in jobs if not job.blocked_by]
    for job in free:
        data = {"state": JobState.QUEUED, **waits_again(job.hold_reason, (job.hold or {}).get("delay"))}
        record("job.unblocked", actor="platform", tenant_id=job.tenant_id, job_id=job.pk, data=data)
    for pool_id in {job.pool_id for job in free}:
        wake_pool(pool_id)


def _end_in_vain(jobs: Sequence[Job]) -> None:
    """Cancel jobs that can never start."""
    if not jobs:
        return
    reason = Reason.DEPENDENCY_NEVER_MET
    told = [{"id": job.pk, "detail": job.reason_detail} for job in jobs]
    if _END.run(reason, orjson.dumps(told).decode()) != len(jobs):
        raise RuntimeError("a job has left the queue that it was in under lock")
    for job in jobs:
        data = {"reason": reason, "detail": job.reason_detail}
        told_of = _told_of(job, JobState.QUEUED, JobState.CANCELLED, actor="platform", data=data)
        record("job.cancelled", **told_of)
        job.state = JobState.CANCELLED
    for group_id in {job.group_id for job in jobs if job.group_id is not None}:
        wake_group(group_id)


def _write(changes: Iterable[_Change], events: str | None) -> tuple[int, list[int]]:
    """Write the changes, and these events, in one statement; returns how many rows changed, and those of the jobs that
    others wait for."""
    parts: list[str] = []
    params: list[Any] = []
    names: list[str] = []
    for number, change in enumerate(changes):
        text, values = change.sql()
        name = f"changed_{number}"
        names.append(name)
        parts.append(f"{name} AS ({text} RETURNING id)")
        params += values
        if isinstance(change.rows[0], Allocation) and change.fields.get("state") == AllocationState.RELEASED:
            parts.append(f"freed_{number} AS ({_FREE % name})")
    if events is not None:
        parts.append(f"told AS ({STORE_EVENTS})")
        params.append(events)
    counts = " + ".join(f"(SELECT count(*) FROM {name})" for name in names)  # noqa: S608
    over, begun = _over_and_begun(changes)
    awaited = "false"
    if over or begun:
        awaited = _AWAITED
        params += [over, over, begun]
    sql = f"WITH {', '.join(parts)} SELECT {counts}, {awaited}"
    ((changed, waits),) = statement_of(sql).rows(*params)
    return int(changed), [*over, *begun] if waits else []


# The jobs were under lock before this statement, so it sees the dependencies of all submissions that waited for them.
_AWAITED = """
EXISTS (SELECT FROM jobs_dependency dep WHERE dep.on_job_id = ANY(%s::bigint[]) AND dep.state = 'open')
OR EXISTS (
    SELECT FROM jobs_job over JOIN jobs_dependency dep ON dep.on_owner_id = over.owner_id AND dep.on_name = over.name
    WHERE over.id = ANY(%s::bigint[]) AND dep.state = 'open'
)
OR EXISTS (
    SELECT FROM jobs_dependency dep
    WHERE dep.on_job_id = ANY(%s::bigint[]) AND dep.state = 'open' AND dep.kind = 'started'
)
"""


def _over_and_begun(changes: Iterable[_Change]) -> tuple[list[int], list[int]]:
    """The jobs that end by these changes, and those that run for the first time."""
    jobs = [change for change in changes if isinstance(change.rows[0], Job)]
    over = [row.pk for change in jobs if change.fields.get("state") in JOB_TERMINAL for row in change.rows]
    begun = [row.pk for change in jobs if "started_at" in change.fields for row in change.rows]
    return over, [pk for pk in begun if pk not in over]


# What the allocations held that the named part has released is free.
_FREE = (
    "UPDATE jobs_gpuclaim SET released_at = clock_timestamp()"
    " WHERE released_at IS NULL AND allocation_id IN (SELECT id FROM %s)"
)


_KINDS: Mapping[type, str] = {timedelta: "interval", int: "integer", float: "float8", str: "text"}


def _sql_of(model: type[Model], field: Any, value: Any) -> tuple[str, list[Any]]:
    """The SQL of a field's new value, and its parameters."""
    if isinstance(value, DatabaseNow):
        return DatabaseNow.template, []
    if hasattr(value, "resolve_expression"):
        query = UpdateQuery(model)
        compiler = query.get_compiler(connection=connection)
        text, params = compiler.compile(value.resolve_expression(query, allow_joins=False, for_save=True))
        # Prepared, a parameter within an expression must say what it is.
        first, *others = text.split("%s")
        kinds = [f"%s::{_KINDS[type(param)]}{part}" for param, part in zip(params, others, strict=True)]
        return first + "".join(kinds), list(params)
    if hasattr(value, "prepare_database_save"):
        value = value.prepare_database_save(field)
    return "%s", [field.get_db_prep_save(value, connection)]


def _with_the_move(target: JobState, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that a job's move sets, with those of its caller."""
    if target in JOB_TERMINAL:
        fields = fields | {"ended_at": DatabaseNow()}
    return fields if target is JobState.QUEUED else fields | {"hold_reason": "", "hold": None}


def _told_of(job: Job, source: str, target: str, *, actor: str, data: dict[str, Any]) -> dict[str, Any]:
    """The data of a move's event."""
    return {
        "actor": actor,
        "tenant_id": job.tenant_id,
        "job_id": job.pk,
        "data": {"from": source, "state": target, **data},
    }
