"""Effects on jobs that wait for others when some of these start or end: judged under lock, and not written.

A job is older than those that wait for it. So one pass in the order of the ids follows a chain of any length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from muster.common.statements import Statement
from muster.jobs.models import Dependency, Job, JobGroup
from muster.jobs.spec.after import later_text
from scheduler.model.dependencies import DependencyKind, DependencyState, judged, of_all, of_alternatives
from scheduler.model.lifecycle import JOB_TERMINAL, Desired, HoldReason, JobState
from scheduler.model.reasons import Reason

_TOLD = 3
"""A pending reason names this many of the jobs waited for, and counts the others."""
_ENDS = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}
_AWAITED: Mapping[DependencyKind, tuple[str, str]] = {
    DependencyKind.OK: ("to succeed", "succeeds"),
    DependencyKind.CORR: ("to succeed", "succeeds"),
    DependencyKind.ANY: ("to end", "ends"),
    DependencyKind.FAILED: ("to fail", "fails"),
    DependencyKind.STARTED: ("to start", "starts"),
    DependencyKind.SINGLETON: ("to end", "end"),
}


def _never_by(state: str) -> list[str]:
    """The kinds of dependency that can never be met once the other has this state."""
    return [kind for kind in DependencyKind if judged(kind, state, started=False) is DependencyState.NEVER]


# The jobs that wait for these jobs or groups, and those that wait for jobs that end because of it. Only what may end is
# followed: the rest of a long chain is not looked at.
_TOUCHED = """
WITH RECURSIVE touched(id, ends) AS (
    (
        SELECT dep.job_id, dep.kind = ANY(CASE target.state
            WHEN 'succeeded' THEN %(by_success)s WHEN 'failed' THEN %(by_failure)s
            WHEN 'cancelled' THEN %(by_cancel)s ELSE '{}' END)
        FROM jobs_dependency dep JOIN jobs_job target ON target.id = dep.on_job_id
        WHERE dep.on_job_id = ANY(%(jobs)s) AND dep.state = 'open'
        UNION
        SELECT dep.job_id, dep.kind = ANY(CASE target.state
            WHEN 'succeeded' THEN %(by_success)s WHEN 'failed' THEN %(by_failure)s
            WHEN 'cancelled' THEN %(by_cancel)s ELSE '{}' END)
        FROM jobs_dependency dep JOIN jobs_jobgroup target ON target.id = dep.on_group_id
        WHERE dep.on_group_id = ANY(%(groups)s) AND dep.on_job_id IS NULL AND dep.state = 'open'
        UNION
        SELECT job_id, false FROM jobs_dependency WHERE id = ANY(%(met)s)
    )
    UNION
    SELECT dep.job_id, dep.kind = ANY(%(by_cancel)s)
    FROM touched JOIN jobs_dependency dep ON dep.on_job_id = touched.id
    WHERE touched.ends AND dep.state = 'open'
)
SELECT DISTINCT id FROM touched
"""
_NAMES = """
SELECT DISTINCT dep.on_owner_id, dep.on_name FROM jobs_job job
JOIN jobs_dependency dep ON dep.on_owner_id = job.owner_id AND dep.on_name IN (job.name, %(name)s)
WHERE job.id = ANY(%(jobs)s) AND dep.state = 'open' ORDER BY 1, 2
"""
_WAITED_FOR = Statement(
    "SELECT on_job_id FROM jobs_dependency WHERE on_job_id = ANY(%s) AND state = 'open'"
    " UNION SELECT job.id FROM jobs_job job"
    " JOIN jobs_dependency dep ON dep.on_owner_id = job.owner_id AND dep.on_name = job.name"
    " WHERE job.id = ANY(%s) AND dep.state = 'open'"
)
# Members of one group do not wait for each other.
_SINGLETONS = """
SELECT dep.id FROM jobs_dependency dep JOIN jobs_job job ON job.id = dep.job_id
WHERE dep.on_owner_id = %(owner)s AND dep.on_name = %(name)s AND dep.state = 'open' AND NOT EXISTS (
    SELECT FROM jobs_job live WHERE live.owner_id = %(owner)s AND live.name = %(name)s
        AND live.state IN ('queued', 'active') AND live.id < dep.job_id
        AND (live.group_id IS NULL OR live.group_id IS DISTINCT FROM job.group_id)
)
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """The state of a job or a group that others may wait for, and why it ended."""

    state: str
    started: bool
    reason: str = ""
    at: datetime | None = None
    """The time of its start, or of its end if it never started."""


@dataclass(slots=True)
class Verdicts:
    """Effects on dependencies and the jobs that have them; these are under lock."""

    rows: dict[DependencyState, list[int]] = field(default_factory=lambda: defaultdict(list))
    waiting: list[Job] = field(default_factory=list)
    """Jobs with another `blocked_by`, and with it another `hold_reason`, `hold` and `eligible_at`."""
    ended: list[Job] = field(default_factory=list)
    """Jobs that can never start, with their `reason_detail`."""


def verdicts_after(
    *, jobs: Collection[int], groups: Collection[int], former_name: str | None = None
) -> Verdicts | None:
    """The verdicts on what waits for these jobs and groups, which have started or ended; None if nothing does.

    `former_name`: the jobs do not have this name any more.
    """
    met = _singletons_met(jobs, former_name)
    with connection.cursor() as cursor:
        by = {"by_success": JobState.SUCCEEDED, "by_failure": JobState.FAILED, "by_cancel": JobState.CANCELLED}
        kinds = {name: _never_by(state) for name, state in by.items()}
        cursor.execute(_TOUCHED, {"jobs": list(jobs), "groups": list(groups), "met": sorted(met), **kinds})
        touched = [job_id for (job_id,) in cursor.fetchall()]
    if not touched:
        return None
    waiting = Job.objects.select_for_update(no_key=True).filter(
        pk__in=touched, state=JobState.QUEUED, desired=Desired.RUN, blocked_by__gt=0
    )
    locked = list(waiting.order_by("pk").defer("spec", "request"))
    return _judge(locked, rows_of(locked), _facts(jobs, groups), met)


def awaited(job_ids: Collection[int]) -> set[int]:
    """Of these jobs those that others wait for, by their numbers or their names."""
    ids = list(job_ids)
    return {pk for (pk,) in _WAITED_FOR.rows(ids, ids)}


def rows_of(jobs: Iterable[Job]) -> dict[int, list[Dependency]]:
    """The dependencies of each job, in the order of their entries."""
    found: dict[int, list[Dependency]] = defaultdict(list)
    rows = Dependency.objects.filter(job__in=[job.pk for job in jobs]).order_by("clause", "pk")
    for row in rows.select_related("on_group").defer("on_group__spec"):
        found[row.job_id].append(row)
    return found


Clause = Sequence[Sequence[Dependency]]
"""Alternatives, of which one is enough; each is a dependency, or those on all members of a group."""


def clauses_of(rows: Iterable[Dependency]) -> list[Clause]:
    """The dependencies by clause."""
    found: dict[int, dict[object, list[Dependency]]] = defaultdict(lambda: defaultdict(list))
    for place, row in enumerate(rows):
        together = row.kind == DependencyKind.STARTED and row.on_group_id is not None
        found[row.clause]["group" if together else "row", row.on_group_id if together else place].append(row)
    return [list(alternatives.values()) for alternatives in found.values()]


def state_of(clause: Clause) -> DependencyState:
    """Whether the clause is met."""
    return of_alternatives(of_all(DependencyState(row.state) for row in rows) for rows in clause)


def hold_of(clauses: Sequence[Clause], *, why_never: str = "", before: Any = None) -> dict[str, Any]:
    """The pending reason of a job that waits for these; `before`: the reason that follows once they are met."""
    told, helps = ([_told(clause, form) for clause in clauses[:_TOLD]] for form in (0, 1))
    if more := len(clauses) - len(told):
        told.append(f"{more} other{'' if more == 1 else 's'}")
    text = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
    rows = [row for clause in clauses for rows in clause for row in rows]
    evidence = {
        "jobs": sorted({row.on_job_id for row in rows if row.on_job_id is not None})[:20],
        "groups": sorted({row.on_group_id for row in rows if row.on_job_id is None and row.on_group_id is not None})[
            :20
        ],
    }
    return {
        "reason": HoldReason.DEPENDENCY,
        "detail": f"waits for {text}" if not why_never else f"waits for ever: {why_never}",
        "evidence": {name: ids for name, ids in evidence.items() if ids},
        "helps": ["cancel it, or submit it again without this dependency"] if why_never else helps,
        "before": before,
    }


def held_by(username: str, *, before: Any = None) -> dict[str, Any]:
    """The pending reason of a job that a user holds back; `before`: the reason that follows once it is released."""
    detail = f"{username} holds it back"
    return {
        "reason": HoldReason.HELD,
        "detail": detail,
        "evidence": {},
        "helps": ["it is released"],
        "before": before,
    }


def waits_again(reason: str, delay: str | None) -> dict[str, str]:
    """The part of an event that tells for what a job waits from then on; empty if no cycle has looked at it."""
    return {"reason": reason} | ({"delay": delay} if delay else {}) if reason else {}


def put_hold(job: Job, hold: dict[str, Any] | None) -> None:
    """Give the job this pending reason, or the one of before for None; a job that its owner holds gets it later."""
    shown = job.hold if job.held else {"before": job.hold}
    known = (shown or {}).get("before")
    if hold is None:
        new = known.get("before") if known and known["reason"] == HoldReason.DEPENDENCY else known
    else:
        known_before = known.get("before") if known and known["reason"] == HoldReason.DEPENDENCY else known
        new = hold | {"before": known_before}
    if job.held:
        job.hold = (job.hold or {}) | {"before": new}
    else:
        job.hold, job.hold_reason = new, new["reason"] if new else ""


def _judge(
    jobs: Sequence[Job], rows: Mapping[int, list[Dependency]], facts: dict[tuple[str, int], Fact], met: Collection[int]
) -> Verdicts:
    found = Verdicts()
    for job in jobs:
        for row in rows[job.pk]:
            fact = facts.get(_key(row))
            if row.state == DependencyState.OPEN and (fact is not None or row.pk in met):
                row.state = (
                    DependencyState.MET
                    if fact is None
                    else judged(DependencyKind(row.kind), fact.state, started=fact.started)
                )
                found.rows[DependencyState(row.state)].append(row.pk)
                if row.later_s and fact is not None and fact.at is not None:
                    job.eligible_at = max(job.eligible_at, fact.at + timedelta(seconds=row.later_s))
        left = [one for one in clauses_of(rows[job.pk]) if state_of(one) is not DependencyState.MET]
        lost = next((one for one in left if state_of(one) is DependencyState.NEVER), None)
        why = "" if lost is None else _why_never(lost, facts)
        if lost is not None and not job.keeps_waiting:
            job.reason_detail = why[:500]
            facts["job", job.pk] = Fact(JobState.CANCELLED, started=False, reason=Reason.DEPENDENCY_NEVER_MET)
            found.ended.append(job)
            continue
        job.blocked_by = len(left)
        put_hold(job, hold_of(left, why_never=why) if left else None)
        found.waiting.append(job)
    found.rows.pop(DependencyState.OPEN, None)
    return found


def _told(clause: Clause, form: int) -> str:
    """The awaited jobs, as `waits for` or `once` goes on."""
    rows = [rows[0] for rows in clause[:_TOLD]]
    return " or ".join(
        f"{row.target} {_AWAITED[DependencyKind(row.kind)][form]}"
        + (f", and {later_text(row.later_s)} more" if row.later_s else "")
        for row in rows
    )


def _why_never(clause: Clause, facts: Mapping[tuple[str, int], Fact]) -> str:
    known = [(row, facts[_key(row)]) for rows in clause for row in rows if _key(row) in facts]
    return "; ".join(said(row, fact.state, fact.reason) for row, fact in known[:_TOLD])


def said(row: Dependency, state: str, reason: str = "") -> str:
    """The awaited end and the actual one, as a sentence."""
    because = f" ({Reason(reason).meaning.title.lower()})" if reason else ""
    awaited = _AWAITED[DependencyKind(row.kind)][0]
    return f"it was to wait for {row.target} {awaited}, which {_ENDS[JobState(state)]}{because}"


def _key(row: Dependency) -> tuple[str, int]:
    return ("job", row.on_job_id) if row.on_job_id is not None else ("group", row.on_group_id or 0)


def _facts(jobs: Collection[int], groups: Collection[int]) -> dict[tuple[str, int], Fact]:
    rows: QuerySet[Job, Any] = Job.objects.filter(pk__in=jobs)
    facts = {
        ("job", pk): Fact(state, started is not None, reason, started or ended)
        for pk, state, started, ended, reason in rows.values_list("pk", "state", "started_at", "ended_at", "reason")
    }
    ended = JobGroup.objects.filter(pk__in=groups).values_list("pk", "state") if groups else ()
    return facts | {("group", pk): Fact(state, started=state in JOB_TERMINAL) for pk, state in ended}


def _singletons_met(jobs: Collection[int], former_name: str | None) -> set[int]:
    """The dependencies on earlier jobs with the names of these that are met now.

    A lock of each name lets the ends of its jobs take turns: the last of them finds that it is the last.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NAMES, {"jobs": list(jobs), "name": former_name})
        names = cursor.fetchall()
        found: set[int] = set()
        for owner_id, name in names:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [owner_id % (1 << 31), name])
            cursor.execute(_SINGLETONS, {"owner": owner_id, "name": name})
            found.update(pk for (pk,) in cursor.fetchall())
    return found
