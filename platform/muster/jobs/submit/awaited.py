"""Dependencies of a submission: the jobs and groups in its key `after`, and how it is tied to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, TypeVar

import orjson
from django.db.models import Model, Q, QuerySet

from muster.accounts.models import User
from muster.common.errors import FieldError, Invalid
from muster.common.statements import Statement
from muster.jobs.dependents import clauses_of, hold_of, said, state_of
from muster.jobs.dependents import rows_of as dependencies_of
from muster.jobs.models import Dependency, Job, JobGroup
from muster.jobs.selectors import visible_to
from muster.jobs.spec.after import Term, alternatives_of
from muster.jobs.spec.spec import JobSpec
from muster.jobs.transitions import settle
from scheduler.model.dependencies import DependencyKind, DependencyState, judged, of_alternatives
from scheduler.model.lifecycle import JOB_TERMINAL

T = TypeVar("T", bound=Model)

MAX_TIES = 100_000
"""Dependencies that one submission stores: of a group those of all members."""
FURTHEST_BEGIN = timedelta(days=366)

# The end of a job locks it first, so it comes before this, or finds what was stored after this.
_LOCK_GROUPS = Statement("SELECT id, state FROM jobs_jobgroup WHERE id = ANY(%s) ORDER BY id FOR SHARE")
_LOCK_JOBS = Statement(
    "SELECT id, state, started_at IS NOT NULL FROM jobs_job WHERE id = ANY(%s) ORDER BY id FOR SHARE"
)
_LOCK_NAMED = Statement(
    "SELECT id FROM jobs_job WHERE owner_id = %s AND name = %s AND state IN ('queued', 'active') ORDER BY id FOR SHARE"
)
_TIE = Statement(
    "INSERT INTO jobs_dependency (job_id, clause, kind, on_job_id, on_group_id, on_owner_id, on_name, later_s, state)"
    " SELECT job_id, clause, kind, on_job_id, on_group_id, on_owner_id, on_name, later_s, 'open'"
    " FROM jsonb_to_recordset(%s) AS told(job_id bigint, clause integer, kind text, on_job_id bigint,"
    " on_group_id bigint, on_owner_id bigint, on_name text, later_s integer)"
)
_COLUMNS = ("clause", "kind", "on_job_id", "on_group_id", "on_owner_id", "on_name", "later_s")


def begin_of(spec: JobSpec, now: datetime) -> datetime | None:
    """The earliest start of a job that is submitted now; None: at once."""
    begins_at = spec.begins_at(now)
    if begins_at is None or begins_at <= now:
        return None
    if begins_at > now + FURTHEST_BEGIN:
        raise Invalid.field("begin", f"{spec.begin} is more than a year from now")
    return begins_at


def awaited_by(spec: JobSpec, user: User, *, member: bool, keeps_waiting: bool) -> list[Dependency]:
    """The dependencies of a job with this spec, none of them stored, each in the state that it is in now.

    Raises:
        Invalid: a number is none of the user's jobs and groups, or a dependency can never be met.
    """
    if not spec.after:
        return []
    entries = alternatives_of(spec.after)
    numbers = {term.number for terms in entries for term in terms if term.number}
    jobs = _found(visible_to(user, Job.objects.only("state", "started_at")), numbers)
    groups = _found(visible_to(user, JobGroup.objects.defer("spec")), numbers - jobs.keys())
    members = _members(entries, groups)
    found: list[Dependency] = []
    errors: list[FieldError] = []
    for clause, terms in enumerate(entries):
        rows = []
        for term in terms:
            problem = _problem(term, jobs, groups, members, member=member)
            if problem:
                errors.append(FieldError(f"after.{clause}", problem))
                break
            if term.index is None:
                row = _row(clause, term, jobs.get(term.number), groups.get(term.number))
            else:
                row = _row(clause, term, members[term.number, term.index], None)
            if term.kind is DependencyKind.SINGLETON:
                row.on_owner, row.on_name = user, spec.label
            rows.append(row)
        else:
            state = of_alternatives(DependencyState(row.state) for row in rows)
            if state is DependencyState.NEVER and not keeps_waiting:
                errors.append(FieldError(f"after.{clause}", _hopeless(rows)))
            found += rows
    if errors:
        raise Invalid.fields(errors)
    return found


def await_each(job: Job, members: Sequence[int | None]) -> list[list[Dependency]]:
    """The dependencies of the drafted job as the member with each such index or number has them; None: a job alone.

    A dependency on the members of a group becomes one on each of them.
    """
    if not job.awaited:
        return [[] for _ in members]
    spread = {DependencyKind.CORR, DependencyKind.STARTED}
    groups = {row.on_group_id for row in job.awaited if row.on_group_id is not None and row.kind in spread}
    of_group: dict[int | None, dict[int | None, int]] = defaultdict(dict)
    if groups:
        rows = Job.objects.filter(group__in=groups).order_by("pk")
        for pk, group_id, number, index in rows.values_list("pk", "group", "member", "array_index"):
            of_group[group_id][number if index is None else index] = pk
    started = [of_group[row.on_group_id] for row in job.awaited if row.kind == DependencyKind.STARTED]
    if len(members) * (len(job.awaited) + sum(map(len, started))) > MAX_TIES:
        raise Invalid.field(
            "after", f"its members would wait for more than {MAX_TIES:,} jobs in all: name a group by ok"
        )
    return [[tie for row in job.awaited for tie in _ties(row, member, of_group)] for member in members]


def hold_of_draft(job: Job) -> dict[str, Any] | None:
    """The pending reason that the drafted job gets by what it waits for; None if all of that is met."""
    left = [clause for clause in clauses_of(job.awaited) if state_of(clause) is not DependencyState.MET]
    return hold_of(left) if left else None


def waiting_fields(rows: Iterable[Dependency], *, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of a job that is stored with these dependencies; `before`: its pending reason without them."""
    clauses = clauses_of(rows)
    if not clauses:
        return {}
    hold = hold_of(clauses, before=before)
    return {"blocked_by": len(clauses), "hold_reason": hold["reason"], "hold": hold}


def tie(rows_of: Mapping[int, Sequence[Dependency]]) -> None:
    """Store the dependencies of each of these jobs, which are stored; what has started or ended by now counts."""
    if any(rows_of.values()):
        ended_jobs, ended_groups = _locked(rows_of)
        told = [
            {"job_id": job_id} | {name: getattr(row, name) for name in _COLUMNS}
            for job_id, rows in rows_of.items()
            for row in rows
        ]
        _TIE.run(orjson.dumps(told).decode())
        settle(jobs=ended_jobs, groups=ended_groups)


def tie_again(jobs: Iterable[Job]) -> None:
    """Let jobs that are queued again wait for what was not met, as it is now; what was met stays so."""
    jobs_by_id = {job.pk: job for job in jobs}
    unmet = {}
    for job_id, rows in dependencies_of(jobs_by_id.values()).items():
        left = [clause for clause in clauses_of(rows) if state_of(clause) is not DependencyState.MET]
        if left:
            unmet[job_id] = [
                row for clause in left for rows in clause for row in rows if row.state != DependencyState.MET
            ]
    if not unmet:
        return
    ended_jobs, ended_groups = _locked(unmet)
    Dependency.objects.filter(pk__in=[row.pk for rows in unmet.values() for row in rows]).update(
        state=DependencyState.OPEN
    )
    for job_id, rows in unmet.items():
        before = Job.objects.values_list("hold", flat=True).get(pk=job_id)
        Job.objects.filter(pk=job_id).update(**waiting_fields(rows, before=before))
    settle(jobs=ended_jobs, groups=ended_groups)


def _locked(rows_of: Mapping[int, Sequence[Dependency]]) -> tuple[list[int], list[int]]:
    """Lock what these jobs wait for, so that it neither starts nor ends unseen; the jobs and groups that settle it now.

    For a singleton that is the job itself.
    """
    rows = [row for ties in rows_of.values() for row in ties]
    groups = _LOCK_GROUPS.rows(sorted({row.on_group_id for row in rows if row.on_group_id is not None}))
    jobs = _LOCK_JOBS.rows(sorted({row.on_job_id for row in rows if row.on_job_id is not None}))
    for owner_id, name in sorted({(row.on_owner_id, row.on_name) for row in rows if row.on_owner_id is not None}):
        _LOCK_NAMED.rows(owner_id, name)
    over = [pk for pk, state, started in jobs if state in JOB_TERMINAL or started]
    over += [job_id for job_id, ties in rows_of.items() if any(row.on_owner_id is not None for row in ties)]
    return over, [pk for pk, state in groups if state in JOB_TERMINAL]


def _found(rows: QuerySet[T], numbers: Collection[int]) -> dict[int, T]:
    return rows.in_bulk(numbers) if numbers else {}


def _members(entries: Sequence[Sequence[Term]], groups: Mapping[int, JobGroup]) -> dict[tuple[int, int], Job]:
    """The members of arrays that the entries name, by array and index."""
    named = [(term.number, term.index) for terms in entries for term in terms if term.index is not None]
    wanted = {(number, index) for number, index in named if number in groups}
    if not wanted:
        return {}
    indices: dict[int, list[int]] = defaultdict(list)
    for number, index in wanted:
        indices[number].append(index)
    of_each = [Q(group=number, array_index__in=listed) for number, listed in indices.items()]
    rows = Job.objects.filter(reduce(or_, of_each)).only("state", "started_at", "group", "array_index")
    return {(job.group_id or 0, job.array_index or 0): job for job in rows}


def _problem(
    term: Term,
    jobs: Mapping[int, Job],
    groups: Mapping[int, JobGroup],
    members: Mapping[tuple[int, int], Job],
    *,
    member: bool,
) -> str | None:
    if term.kind is DependencyKind.SINGLETON:
        return None
    if term.index is not None:
        if (term.number, term.index) not in members:
            return f"there is no job {term.target}"
    elif term.number not in jobs and term.number not in groups:
        return f"there is no job {term.target}"
    if term.kind is not DependencyKind.CORR:
        return None
    if term.number in jobs or term.index is not None:
        return f"{term.target} is one job and has no members: write {term.target}:ok"
    return None if member else f"this job is no member of a group: write {term.number}:ok"


def _row(clause: int, term: Term, job: Job | None, group: JobGroup | None) -> Dependency:
    row = Dependency(clause=clause, kind=term.kind, on_job=job, on_group=group, later_s=term.later_s)
    if job is not None:
        row.state = judged(term.kind, job.state, started=job.started_at is not None)
    elif group is not None and term.kind is not DependencyKind.CORR:
        row.state = judged(term.kind, group.state, started=False)
    return row


def _hopeless(rows: Sequence[Dependency]) -> str:
    told = [said(row, target.state) for row in rows if (target := row.on_job or row.on_group) is not None]
    return f"{'; '.join(told[:3])}: this job could never start"


def _ties(
    row: Dependency, member: int | None, of_group: Mapping[int | None, Mapping[int | None, int]]
) -> Iterable[Dependency]:
    """The dependencies of one member that this one stands for."""
    on: Iterable[int | None] = [row.on_job_id]
    kind = row.kind
    if row.on_group_id is not None and kind == DependencyKind.STARTED:
        on = of_group[row.on_group_id].values()
    elif kind == DependencyKind.CORR:
        on = [of_group[row.on_group_id].get(member)]
        # A group that has none for it counts as a whole.
        kind = kind if on != [None] else DependencyKind.OK
    for job_id in on:
        copy = Dependency(clause=row.clause, kind=kind, on_job_id=job_id, on_group=row.on_group, later_s=row.later_s)
        copy.on_owner_id, copy.on_name = row.on_owner_id, row.on_name
        yield copy
