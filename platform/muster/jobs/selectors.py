"""Which jobs a user may see, and where they stand."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection
from django.db.models import QuerySet

from muster.accounts.models import User
from muster.common.errors import NotFound
from muster.common.rows import first_of
from muster.jobs.models import Job
from muster.tenants.selectors import tenants_of
from scheduler.lifecycle import JobState

# 1. The asked jobs in the order of their queues, each with the one asked for before it.
# 2. How many jobs lie behind that one, up to and including this one: a range of the index `job_queue_order`.
# 3. The sums of these. So each entry of the index is read once at most, however many jobs are asked for.
_POSITIONS = """
WITH asked AS (
    SELECT id, vc_id, (priority * -1) AS rank, submitted_at FROM jobs_job WHERE id = ANY(%s) AND state = 'queued'
), steps AS (
    SELECT *,
        COALESCE(lag(rank) OVER queue, -2147483648) AS last_rank,
        COALESCE(lag(submitted_at) OVER queue, '-infinity') AS last_at,
        COALESCE(lag(id) OVER queue, 0) AS last_id
    FROM asked WINDOW queue AS (PARTITION BY vc_id ORDER BY rank, submitted_at, id)
), counted AS (
    SELECT steps.*, (
        SELECT count(*) FROM jobs_job other
        WHERE other.state = 'queued' AND other.vc_id = steps.vc_id
            AND ((other.priority * -1), other.submitted_at, other.id) > (last_rank, last_at, last_id)
            AND ((other.priority * -1), other.submitted_at, other.id) <= (rank, steps.submitted_at, steps.id)
    ) AS passed FROM steps
)
SELECT id, (sum(passed) OVER (PARTITION BY vc_id ORDER BY rank, submitted_at, id))::int FROM counted
"""


def visible_jobs(user: User) -> QuerySet[Job]:
    """The jobs of the user's tenants; all for operators."""
    if user.is_operator:
        return Job.objects.all()
    # The ids are read first: a tenant has few members and many jobs, and the planner sees constants.
    return Job.objects.filter(tenant_id__in=list(tenants_of(user).values_list("pk", flat=True)))


def get_job(user: User, job_id: int) -> Job:
    """The job; `NotFound` if there is none or it is another tenant's."""
    job = first_of(visible_jobs(user).select_related("vc__pool", "tenant", "owner", "code").filter(pk=job_id))
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    return job


def positions(jobs: Iterable[Job]) -> dict[int, int]:
    """The place of each queued job in its virtual cluster's queue, from 1; one query for all of them."""
    queued = [job.pk for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_POSITIONS, [queued])
        return dict(cursor.fetchall())
