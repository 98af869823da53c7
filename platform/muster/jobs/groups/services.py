"""Actions of users on a group as a whole: cancel, hold, release, run again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from muster.accounts.models import User
from muster.common.errors import Conflict
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.groups.ends import end_if_over, end_members
from muster.jobs.models import Job, JobGroup
from muster.jobs.queue import hold_jobs, release_jobs
from muster.jobs.rights import require_may_act
from muster.jobs.submit.awaited import tie_again
from muster.jobs.transitions import requeue_ended
from muster.tenants.selectors import require_open
from scheduler.model.lifecycle import (
    JOB_TERMINAL,
    RETRIED_FROM,
    Desired,
    GroupKind,
    GroupState,
    HoldReason,
    JobState,
)
from scheduler.model.reasons import Reason


def waits_for_turn(group: JobGroup) -> dict[str, Any]:
    """The pending reason of a member that the group's budget holds back."""
    at_once = f"{group.parallel} member{'' if group.parallel == 1 else 's'} at once"
    return {
        "reason": HoldReason.GROUP,
        "detail": f"waits for its turn: {group.kind} {group.pk} runs at most {at_once}",
        "evidence": {"parallel": group.parallel},
        "helps": [f"a member of the {group.kind} has ended"],
    }


def cancel_group(*, user: User, group: JobGroup) -> JobGroup:
    """Cancel all members that have not ended. Cancelling twice is fine; a group that has ended is a `Conflict`."""
    require_may_act(user, group)
    with transaction.atomic():
        group = JobGroup.objects.select_for_update(no_key=True).get(pk=group.pk)
        if group.state not in {GroupState.ACTIVE, GroupState.CANCELLED}:
            raise Conflict(f"{group.kind} {group.pk} has {group.state} already")
        if group.state == GroupState.ACTIVE and group.desired == Desired.RUN:
            JobGroup.objects.filter(pk=group.pk).update(desired=Desired.STOP)
            data = {group.kind: group.pk}
            record(f"{group.kind}.cancel_asked", actor=user.username, tenant_id=group.tenant_id, data=data)
    end_members(group, reason=Reason.CANCELLED_BY_USER, detail="", actor=user.username)
    end_if_over(group.pk)
    return JobGroup.objects.get(pk=group.pk)


def hold_group(*, user: User, group: JobGroup) -> int:
    """Hold the waiting members back and return their number; members that run go on."""
    require_may_act(user, group)
    return hold_jobs(_queued(group), user=user)


def release_group(*, user: User, group: JobGroup) -> int:
    """Release the held members and return their number."""
    require_may_act(user, group)
    return release_jobs(_queued(group), user=user)


def retry_members(
    *, user: User, group: JobGroup, members: QuerySet[Job], states: Collection[str] = RETRIED_FROM
) -> list[Job]:
    """Queue those of the members again that ended in one of these states; a group that has ended goes on.

    Raises:
        Conflict: none of them has failed, or the group is being stopped.
    """
    with transaction.atomic(), recorded_together():
        group = JobGroup.objects.select_for_update(no_key=True, of=("self",)).select_related("vc").get(pk=group.pk)
        if group.state == GroupState.ACTIVE and group.desired == Desired.STOP:
            raise Conflict(f"{group.kind} {group.pk} is being stopped: retry it when its last member has ended")
        ids = list(members.values_list("pk", flat=True))
        jobs = list(Job.objects.select_for_update(no_key=True).filter(pk__in=ids, state__in=states).order_by("pk"))
        if not jobs:
            raise Conflict(f"no member of {group.kind} {group.pk} has failed, so there is none to run again")
        require_open(group.vc)
        requeue_ended(jobs, actor=user.username, hold=waits_for_turn(group))
        tie_again(jobs)
        JobGroup.objects.filter(pk=group.pk).update(
            state=GroupState.ACTIVE, desired=Desired.RUN, reason="", ended_at=None
        )
        data = {group.kind: group.pk, "members": len(jobs)}
        record(f"{group.kind}.retried", actor=user.username, tenant_id=group.tenant_id, data=data)
        wake_pool(group.pool_id)
    return jobs


def rerun_job(*, user: User, job: Job) -> Job:
    """Queue a job again that has ended, however, under its own number; its group goes on with it.

    Raises:
        Conflict: it has not ended, or is a member of a group that chooses by itself which members run.
    """
    require_may_act(user, job)
    if job.group is not None and job.group.kind != GroupKind.ARRAY:
        raise Conflict(f"job {job.pk} is a member of {job.group.kind} {job.group.pk}: retry that")
    if job.group is not None:
        retry_members(user=user, group=job.group, members=Job.objects.filter(pk=job.pk), states=JOB_TERMINAL)
    else:
        with transaction.atomic(), recorded_together():
            job = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("vc").get(pk=job.pk)
            if job.state not in JOB_TERMINAL:
                raise Conflict(f"job {job.pk} has not ended")
            require_open(job.vc)
            requeue_ended([job], actor=user.username, hold=None)
            tie_again([job])
            wake_pool(job.pool_id)
    job.refresh_from_db()
    return job


def _queued(group: JobGroup) -> list[int]:
    return list(Job.objects.filter(group=group, state=JobState.QUEUED).values_list("pk", flat=True))
