"""The end of a group: with its last member, or because it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

from django.db import transaction

from muster.common.clock import utc_now
from muster.common.models import DatabaseNow
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.attempt.ending import cancel_for
from muster.jobs.models import Job, JobGroup
from muster.jobs.transitions import forget_reservations, move_jobs, settle
from scheduler.model.lifecycle import Desired, GroupState, JobState, require_move
from scheduler.model.reasons import Reason

Outcome = tuple[GroupState, str]
"""The final state of a group, and the reason, which may be empty."""


def outcome_of(group: JobGroup) -> Outcome:
    """The outcome of a group whose members have ended: succeeded if one of them has."""
    if group.desired == Desired.STOP:
        return GroupState.FAILED if group.reason else GroupState.CANCELLED, group.reason
    states = set(group.members.order_by().values_list("state", flat=True).distinct())
    if JobState.SUCCEEDED in states:
        return GroupState.SUCCEEDED, ""
    if JobState.FAILED in states:
        return GroupState.FAILED, "no member succeeded"
    return GroupState.CANCELLED, "all members were cancelled"


def end_if_over(group_id: int, *, settled_s: float = 0.0, outcome: Callable[[JobGroup], Outcome] = outcome_of) -> bool:
    """End the group if all members ended `settled_s` seconds ago or earlier; whether it ended now."""
    with transaction.atomic():
        group = JobGroup.objects.select_for_update(no_key=True).get(pk=group_id)
        members = Job.objects.filter(group=group)
        if group.state != GroupState.ACTIVE or members.filter(state__in=[JobState.QUEUED, JobState.ACTIVE]).exists():
            return False
        if settled_s and members.filter(ended_at__gt=utc_now() - timedelta(seconds=settled_s)).exists():
            return False
        target, reason = outcome(group)
        require_move("group", GroupState.ACTIVE, target)
        JobGroup.objects.filter(pk=group.pk).update(state=target, reason=reason, ended_at=DatabaseNow())
        data = {group.kind: group.pk, "state": target, "reason": reason}
        record(f"{group.kind}.{target}", actor="platform", tenant_id=group.tenant_id, data=data)
        settle(groups=[group.pk])
    return True


def stop_group(group: JobGroup, reason: str) -> None:
    """Stop the group for this reason: it has failed once its members have ended."""
    asked = JobGroup.objects.filter(pk=group.pk, state=GroupState.ACTIVE, desired=Desired.RUN)
    with transaction.atomic():
        if not asked.update(desired=Desired.STOP, reason=reason):
            return
        data = {group.kind: group.pk, "detail": reason}
        record(f"{group.kind}.stopped", actor="platform", tenant_id=group.tenant_id, data=data)
    end_members(group, reason=Reason.STOPPED_EARLY, detail=reason, actor="platform")


def end_members(
    group: JobGroup, *, reason: Reason, detail: str, actor: str, among: Collection[int] | None = None
) -> None:
    """Cancel the members that have not ended: those that wait in one statement, the others with their grace.

    Only those `among` these jobs, if they are given.
    """
    detail = detail[:500]
    members = Job.objects.filter(group=group).order_by("pk")
    if among is not None:
        members = members.filter(pk__in=among)
    with transaction.atomic(), recorded_together():
        jobs = list(members.select_for_update(no_key=True).filter(state=JobState.QUEUED).defer("spec"))
        if jobs:
            ids = [job.pk for job in jobs]
            Job.objects.filter(pk__in=ids).update(desired=Desired.STOP)
            forget_reservations(ids)
            told = {pk: {group.kind: group.pk, "reason": reason} for pk in ids}
            move_jobs(jobs, JobState.CANCELLED, actor=actor, data=told, reason=reason, reason_detail=detail)
            wake_pool(group.pool_id)
    for job_id in members.filter(state=JobState.ACTIVE).values_list("pk", flat=True):
        cancel_for(job_id=job_id, reason=reason, detail=detail, actor=actor)
