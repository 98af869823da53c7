"""Running members of a sweep again, inside the sweep: as the jobs that they are, whose values count as before."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q, QuerySet

from muster.accounts.models import User
from muster.common.errors import Conflict
from muster.jobs.groups.progress import STOPPED_BY_GROUP
from muster.jobs.groups.services import retry_members
from muster.jobs.models import Job, JobGroup
from muster.jobs.rights import require_may_act
from muster.sweeps.models import Trial
from scheduler.model.lifecycle import RETRIED_FROM, JobState


def members_to_retry(group: JobGroup) -> QuerySet[Job]:
    """The members that a retry runs again: those that have failed, and those that were stopped with the whole sweep."""
    stopped_with_it = STOPPED_BY_GROUP & Q(trial__stopped_at=None)
    return Job.objects.filter(Q(state=JobState.FAILED) | stopped_with_it, group=group)


def retry_sweep(*, user: User, group: JobGroup) -> int:
    """Run the failed members of the sweep again, and return how many; a sweep that has ended goes on.

    Raises:
        Conflict: no member has failed, or the sweep is being stopped.
    """
    require_may_act(user, group)
    return len(_retry(user, group, members_to_retry(group)))


def retry_member(*, user: User, job: Job) -> Job:
    """Run a member of a sweep again that has failed or was cancelled; `Conflict` if it has succeeded, or the sweep
    stopped it for its value."""
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
    with transaction.atomic():
        jobs = retry_members(user=user, group=group, members=members)
        Trial.objects.filter(pk__in=[job.pk for job in jobs]).update(why="")
    return jobs
