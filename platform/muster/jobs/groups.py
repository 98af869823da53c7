"""Job groups in lists: one row stands for a group, and tells how far its members are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Greatest

from muster.jobs.models import Job, JobGroup
from scheduler.model.lifecycle import JobState, Reason

MEMBER_STATES = ("waiting", "running", "paused", "succeeded", "failed", "stopped", "cancelled")
STOPPED_BY_GROUP = Q(state=JobState.CANCELLED, reason=Reason.STOPPED_EARLY)
_STATES = {JobState.ACTIVE: "running", JobState.SUCCEEDED: "succeeded", JobState.FAILED: "failed"}


def member_state(state: str, *, paused: bool, stopped: bool) -> str:
    """The state of a member by its name in `MEMBER_STATES`; `stopped`: by its group."""
    if state == JobState.QUEUED:
        return "paused" if paused else "waiting"
    if state == JobState.CANCELLED:
        return "stopped" if stopped else "cancelled"
    return _STATES[JobState(state)]


@dataclass(slots=True)
class GroupProgress:
    """Members of a group by state, the first start, and the last submission, start or end of a member."""

    members: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBER_STATES, 0))
    started_at: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """The group that a job is a member of; with its progress if the job stands for the group in a list."""

    group: JobGroup
    progress: GroupProgress | None


def memberships_of(jobs: Iterable[Job], *, collapsed: bool = False) -> dict[int, Membership]:
    """The group of each job that is in one, by job; one query, and one more if `collapsed`. None if no job is."""
    group_of = {job.pk: job.group_id for job in jobs if job.group_id is not None}
    if not group_of:
        return {}
    groups = JobGroup.objects.defer("spec").in_bulk(set(group_of.values()))
    progress = progress_of(groups) if collapsed else {}
    return {job_id: Membership(groups[group], progress.get(group)) for job_id, group in group_of.items()}


def progress_of(group_ids: Iterable[int]) -> dict[int, GroupProgress]:
    """How far each of the groups is; one query for all of them."""
    found = {group_id: GroupProgress() for group_id in group_ids}
    rows = Job.objects.filter(group__in=list(found)).order_by("group").values("group", "state", "paused")
    rows = rows.annotate(
        stopped=STOPPED_BY_GROUP,
        jobs=Count("pk"),
        first=Min("started_at"),
        last=Max(Greatest("submitted_at", "started_at", "ended_at")),
    )
    for row in rows:
        one = found[row["group"]]
        one.members[member_state(row["state"], paused=row["paused"], stopped=row["stopped"])] += row["jobs"]
        one.started_at = min(filter(None, (one.started_at, row["first"])), default=None)
        one.changed_at = max(filter(None, (one.changed_at, row["last"])), default=None)
    return found
