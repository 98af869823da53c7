"""Reading groups: which a user sees, how far their members are, what these hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.db.models.functions import Greatest

from muster.accounts.models import User
from muster.common.clock import utc_now
from muster.common.rows import require_first
from muster.jobs.models import Attempt, Job, JobGroup
from muster.jobs.selectors import visible_to
from scheduler.model.lifecycle import ATTEMPT_LIVE, GroupKind, JobState
from scheduler.model.reasons import Reason

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


def visible_groups(user: User, kind: GroupKind) -> QuerySet[JobGroup]:
    """The groups of this kind of the user's tenants; all for operators."""
    rows = JobGroup.objects.filter(kind=kind).select_related("tenant", "vc", "pool", "owner", "code")
    return visible_to(user, rows)


def matching_groups(user: User, kind: GroupKind, *, state: str | None, mine: bool) -> QuerySet[JobGroup]:
    """The groups of this kind that the user may see, newest first: all, or those in a state, or the user's own."""
    groups = visible_groups(user, kind).order_by("-pk")
    if state is not None:
        groups = groups.filter(state=state)
    return groups.filter(owner=user) if mine else groups


def get_group(user: User, kind: GroupKind, group_id: int) -> JobGroup:
    """The group; `NotFound` if there is none of this kind or it is another tenant's."""
    return require_first(visible_groups(user, kind).filter(pk=group_id), f"there is no {kind} {group_id}")


@dataclass(slots=True)
class GroupProgress:
    """Members of a group by state, the first start, the last submission, start or end of a member, and GPU-seconds of
    attempts that have ended."""

    members: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MEMBER_STATES, 0))
    started_at: datetime | None = None
    changed_at: datetime | None = None
    gpu_s: float = 0.0


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
    """The progress of each of the groups; one query for all of them."""
    found = {group_id: GroupProgress() for group_id in group_ids}
    rows = Job.objects.filter(group__in=list(found)).order_by("group").values("group", "state", "paused")
    rows = rows.annotate(
        stopped=STOPPED_BY_GROUP,
        jobs=Count("pk"),
        first=Min("started_at"),
        last=Max(Greatest("submitted_at", "started_at", "ended_at")),
        had=Sum("attained_gpu_s"),
    )
    for row in rows:
        one = found[row["group"]]
        one.members[member_state(row["state"], paused=row["paused"], stopped=row["stopped"])] += row["jobs"]
        one.gpu_s += row["had"]
        one.started_at = min(filter(None, (one.started_at, row["first"])), default=None)
        one.changed_at = max(filter(None, (one.changed_at, row["last"])), default=None)
    return found


def first_member(group: JobGroup) -> Job:
    """The first member of the group, which stands for all of them."""
    return group.members.select_related("vc__pool", "tenant", "owner", "pool").get(member=1)


def held_gpu_s(group_ids: Collection[int], *, by: str) -> dict[int, float]:
    """GPU-seconds of live attempts of members, which no job counts yet, by the given column."""
    now, held = utc_now(), defaultdict[int, float](float)
    rows = Attempt.objects.filter(job__group__in=group_ids, state__in=sorted(ATTEMPT_LIVE), job__state=JobState.ACTIVE)
    for key, placed_at, request in rows.values_list(by, "placed_at", "request"):
        held[key] += max(0.0, (now - placed_at).total_seconds()) * request.nodes * request.first.gpus
    return held
