"""Running members of a sweep again, inside the sweep: as the jobs that they are, whose values count as before."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q, QuerySet

from muster.accounts.models import User
from muster.common.errors import Conflict
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.groups import STOPPED_BY_GROUP
from muster.jobs.models import Job, JobGroup
from muster.jobs.rights import require_may_act
from muster.jobs.transitions import requeue_ended
from muster.sweeps.holds import waits_for_turn
from muster.sweeps.models import Trial
from muster.sweeps.services import require_may_act as require_may_act_on_sweep
from muster.tenants.selectors import require_open
from scheduler.model.lifecycle import RETRIED_FROM, Desired, GroupState, JobState


def members_to_retry(group: JobGroup) -> QuerySet[Job]:
    """The members that a retry runs again: those that have failed, and those that were stopped with the whole sweep."""
    stopped_with_it = STOPPED_BY_GROUP & Q(trial__stopped_at=None)
    return Job.objects.filter(Q(state=JobState.FAILED) | stopped_with_it, group=group)


def retry_sweep(*, user: User, group: JobGroup) -> int:
    """Run the failed members of the sweep again, and return how many; a sweep that has ended goes on.

    Raises:
        Conflict: no member has failed, or the sweep is being stopped.
    """
    require_may_act_on_sweep(user, group)
    return len(_retry(user, group, members_to_retry(group)))


def retry_member(*, user: User, job: Job) -> Job:
    """Run one member of a sweep again that has failed or was cancelled.

    Raises:
        Conflict: it has succeeded, or the sweep stopped it for its value.
    """
    require_may_act(user, job)
    group = JobGroup.objects.select_related("vc").get(members=job)
    if job.state not in RETRIED_FROM:
        raise Conflict(f"job {job.pk} has {job.state}: run it again outside of its sweep: `muster clone {job.pk}`")
    trial = Trial.objects.filter(pk=job.pk, stopped_at__isnull=False).first()
    if trial is not None and job.state == JobState.CANCELLED:
        why = f"sweep {group.pk} stopped job {job.pk}, and would again: {trial.why}"
        raise Conflict(f"{why}; run it outside of the sweep: `muster clone {job.pk}`")
    _retry(user, group, Job.objects.filter(pk=job.pk, state__in=RETRIED_FROM))
    job.refresh_from_db()
    return job


def _retry(user: User, group: JobGroup, members: QuerySet[Job]) -> list[Job]:
    with transaction.atomic(), recorded_together():
        group = JobGroup.objects.select_for_update(no_key=True, of=("self",)).select_related("vc").get(pk=group.pk)
        if group.state == GroupState.ACTIVE and group.desired == Desired.STOP:
            raise Conflict(f"sweep {group.pk} is being stopped: retry it when its last member has ended")
        ids = list(members.values_list("pk", flat=True))
        jobs = list(
            Job.objects.select_for_update(no_key=True).filter(pk__in=ids, state__in=RETRIED_FROM).order_by("pk")
        )
        if not jobs:
            raise Conflict(f"no member of sweep {group.pk} has failed, so there is none to run again")
        require_open(group.vc)
        requeue_ended(jobs, actor=user.username, hold=waits_for_turn(group))
        Trial.objects.filter(pk__in=ids).update(why="")
        JobGroup.objects.filter(pk=group.pk).update(
            state=GroupState.ACTIVE, desired=Desired.RUN, reason="", ended_at=None
        )
        data = {"sweep": group.pk, "members": len(jobs)}
        record("sweep.retried", actor=user.username, tenant_id=group.tenant_id, data=data)
        wake_pool(group.pool_id)
    return jobs
