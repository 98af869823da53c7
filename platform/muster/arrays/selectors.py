"""Reading the members of an array."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from muster.arrays.services import members_with
from muster.common.clock import moment
from muster.jobs.groups.progress import member_state
from muster.jobs.models import Job, JobGroup
from muster_client.answers.arrays import ArrayMember
from scheduler.model.lifecycle import JobState

STATES = {
    "waiting": JobState.QUEUED,
    "running": JobState.ACTIVE,
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
}
"""The states of members, by the names that people read."""
_COLUMNS = ("member", "array_index", "pk", "state", "spec__params", "exit_code", "reason", "reason_detail")
_TIMES = ("started_at", "ended_at")


def members_of_array(
    group: JobGroup, *, state: str | None, indices: str | None, after: int
) -> QuerySet[Job, dict[str, Any]]:
    """The members that match, behind the one with the number `after`, in order."""
    rows = Job.objects.filter(group=group) if indices is None else members_with(group, indices)
    if state is not None:
        rows = rows.filter(state=STATES[state])
    found: QuerySet[Job, dict[str, Any]] = rows.filter(member__gt=after).order_by("member").values(*_COLUMNS, *_TIMES)
    return found


def array_member(row: dict[str, Any]) -> ArrayMember:
    """A member as JSON."""
    return {
        "index": row["array_index"],
        "job": row["pk"],
        "state": member_state(row["state"], paused=False, stopped=False),
        "params": row["spec__params"] or {},
        "exit_code": row["exit_code"],
        "why": (row["reason_detail"] or row["reason"]) if row["ended_at"] else "",
        "started_at": moment(row["started_at"]),
        "ended_at": moment(row["ended_at"]),
    }
