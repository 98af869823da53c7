"""Jobs that a user may see, and their places in queues."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Case, Count, Exists, F, IntegerField, Max, OuterRef, Q, QuerySet, Sum, When

from muster.accounts.models import User
from muster.common.rows import require_first
from muster.jobs.models import Attempt, Job, JobGroup
from muster.tenants.models import Membership
from muster.tenants.roles import Role
from muster.tenants.selectors import tenants_of
from muster_client.answers.jobs import JobCount
from scheduler.model.lifecycle import Desired, JobState

T = TypeVar("T", Job, JobGroup)
_MAX_ID_DIGITS = 18


def visible_jobs(user: User) -> QuerySet[Job]:
    """The jobs of the user's tenants; all for operators."""
    return visible_to(user, Job.objects.all())


def visible_to(user: User, rows: QuerySet[T]) -> QuerySet[T]:
    """Those of the jobs or groups that are the user's tenants'; all for operators."""
    if user.is_operator:
        return rows
    # The ids are read first: a tenant has few members and many jobs, and the planner sees constants.
    return rows.filter(tenant_id__in=list(tenants_of(user).values_list("pk", flat=True)))


def matching_jobs(
    user: User,
    *,
    vc: str | None = None,
    owner: str | None = None,
    tenant: str | None = None,
    mine: bool = False,
    group: int | None = None,
    members: bool = True,
    **conditions: Any,
) -> QuerySet[Job]:
    """The jobs that the user may see and that match every given condition; `conditions` are those of `_with`.

    Without `members` one job stands for each group: the first of its members that match.
    """
    # These are the same for all members of a group.
    exact = {"vc__name": vc, "owner__username": owner, "tenant__name": tenant, "group": group}
    jobs = visible_jobs(user).filter(**{column: value for column, value in exact.items() if value is not None})
    if mine:
        jobs = jobs.filter(owner=user)
    jobs = _with(jobs, **conditions)
    if members:
        return jobs
    if not any(conditions.values()):
        return jobs.filter(Q(member=None) | Q(member=1))
    # By id and not by member, which has the same order: so Postgres takes the index that has the state too.
    before = _with(Job.objects.filter(group=OuterRef("group"), pk__lt=OuterRef("pk")), **conditions)
    return jobs.filter(Q(member=None) | ~Exists(before))


def _with(
    jobs: QuerySet[Job],
    *,
    ids: Collection[int] | None = None,
    state: Collection[str] = (),
    tag: Iterable[str] = (),
    search: str | None = None,
    ended_after: datetime | None = None,
) -> QuerySet[Job]:
    """Those of the jobs that match; a `tag` is key:value."""
    if ids is not None:
        jobs = jobs.filter(pk__in=ids)
    if state:
        jobs = jobs.filter(state__in=state)
    for one in tag:
        key, _, value = one.partition(":")
        jobs = jobs.filter(tags__contains={key: value})
    if search is not None:
        jobs = jobs.filter(Q(name__icontains=search) | Q(pk=number_searched(search)))
    return jobs if ended_after is None else jobs.filter(ended_at__gt=ended_after)


def number_searched(text: str) -> int | None:
    """The job number that a search may mean: 7 for `7` and `#7`; None if it means none."""
    digits = text.strip().removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_ID_DIGITS else None


def search_rank(text: str) -> Case:
    """The rank of a job's match with a search: 2 by its number, 1 by its whole name, 0 otherwise."""
    return Case(
        When(pk=number_searched(text), then=2), When(name__iexact=text, then=1), default=0, output_field=IntegerField()
    )


def cancellable_jobs(user: User, jobs: QuerySet[Job], *, others: bool) -> QuerySet[Job]:
    """Of these jobs, those that neither have ended nor are being cancelled, and that the user may cancel: the user's
    own and, with `others`, those of tenants that the user manages."""
    jobs = jobs.filter(state__in=[JobState.QUEUED, JobState.ACTIVE], desired=Desired.RUN)
    if not others:
        return jobs.filter(owner=user)
    if user.is_operator:
        return jobs
    managed = Membership.objects.filter(user=user, role=Role.MANAGER).values("tenant_id")
    return jobs.filter(Q(owner=user) | Q(tenant_id__in=managed))


def count_jobs(user: User, jobs: QuerySet[Job], *, others: bool) -> JobCount:
    """Count these jobs, in all and by state, with the GPUs that they ask for; `others` as in `cancellable_jobs`."""
    states = list(jobs.values("state").order_by("state").annotate(jobs=Count("pk"), gpus=Sum(F("gpus") * F("nodes"))))
    return {
        "jobs": sum(row["jobs"] for row in states),
        "gpus": sum(row["gpus"] for row in states),
        "states": states,
        "cancellable": cancellable_jobs(user, jobs, others=others).count(),
    }


def get_job(user: User, job_id: int) -> Job:
    """The job; `NotFound` if there is none or it is another tenant's."""
    rows = visible_jobs(user).select_related("vc__pool", "tenant", "owner", "code").filter(pk=job_id)
    return require_first(rows, f"there is no job {job_id}")


@dataclass(frozen=True, slots=True)
class RunTime:
    """The run time of a job's attempts, without the pauses between them: ended ones for `ended_s` seconds together, and
    the live one since `since`.
    """

    ended_s: float = 0.0
    since: datetime | None = None


def run_times(jobs: Iterable[Job]) -> dict[int, RunTime]:
    """The run time of each job that has been started; one query for all of them, none if there are none."""
    started = [job.pk for job in jobs if job.attempt_count]
    if not started:
        return {}
    ran = Sum(F("ended_at") - F("running_at"), filter=Q(ended_at__isnull=False), default=timedelta())
    since = Max("running_at", filter=Q(ended_at__isnull=True))
    rows = Attempt.objects.filter(job__in=started, running_at__isnull=False).values("job").order_by("job")
    return {
        job_id: RunTime(ended.total_seconds(), running_at)
        for job_id, ended, running_at in rows.annotate(ran=ran, since=since).values_list("job", "ran", "since")
    }
