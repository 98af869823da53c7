"""Which jobs a user may see, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from muster.accounts.models import User
from muster.common.errors import NotFound
from muster.jobs.models import Job
from muster.tenants.selectors import tenants_of
from scheduler.lifecycle import JobState

QUEUE_ORDER = (F("priority").desc(), F("submitted_at").asc(), F("id").asc())


def visible_jobs(user: User) -> QuerySet[Job]:
    """The jobs of the user's tenants; all for operators."""
    if user.is_operator:
        return Job.objects.all()
    # The ids are read first: a tenant has few members and many jobs, and the planner sees constants.
    return Job.objects.filter(tenant_id__in=list(tenants_of(user).values_list("pk", flat=True)))


def get_job(user: User, job_id: int) -> Job:
    """The job; `NotFound` if there is none or it is another tenant's."""
    job = visible_jobs(user).select_related("vc__pool", "tenant", "owner", "code").filter(pk=job_id).first()
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def positions(jobs: Iterable[Job]) -> dict[int, int]:
    """The place of each queued job in its virtual cluster's queue, from 1; one query for all of them."""
    queued = {job.pk: job.vc_id for job in jobs if job.state == JobState.QUEUED}
    if not queued:
        return {}
    ranked = (
        Job.objects.filter(vc_id__in=set(queued.values()), state=JobState.QUEUED)
        .annotate(place=Window(RowNumber(), partition_by=F("vc_id"), order_by=list(QUEUE_ORDER)))
        .values_list("pk", "place")
    )
    return {pk: place for pk, place in ranked if pk in queued}
