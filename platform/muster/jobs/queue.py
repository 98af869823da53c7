"""The queue of a virtual cluster: its order, and what users do with it: hold, release, put in order, bump."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import orjson
from django.db import connection, transaction
from django.db.models import Max, QuerySet

from muster.accounts.models import User
from muster.common.errors import Conflict, Forbidden, Invalid
from muster.common.statements import Statement
from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.dependents import held_by, waits_again
from muster.jobs.models import Job, QueueOrder
from muster.jobs.rights import require_may_act
from muster.jobs.transitions import forget_reservations
from muster.tenants.models import VirtualCluster
from muster.tenants.selectors import is_manager
from scheduler.model.lifecycle import Desired, HoldReason, JobState

MAX_REORDERED = 1000
"""Of jobs in one request."""

# Of each virtual cluster its waiting jobs by priority and submission, and the last cycle's order.
_WAITING = """
SELECT job.vc_id, array_agg(job.id ORDER BY job.priority * -1, job.submitted_at, job.id),
    (SELECT stored.job_ids FROM jobs_queueorder stored WHERE stored.vc_id = job.vc_id)
FROM jobs_job job
WHERE job.state = 'queued' AND NOT job.held AND job.blocked_by = 0 AND job.vc_id = ANY(%s) GROUP BY job.vc_id
"""
# A held job keeps the reason that it had before.
_HOLD = Statement(
    "UPDATE jobs_job SET held = true, hold_reason = %s, hold = %s::jsonb || jsonb_build_object('before', hold)"
    " WHERE id = ANY(%s)"
)
_RELEASE = Statement(
    "UPDATE jobs_job SET held = false, hold_reason = coalesce(hold->'before'->>'reason', ''),"
    " hold = nullif(hold->'before', 'null') WHERE id = ANY(%s) RETURNING id, hold_reason, hold->>'delay'"
)


def orders_of(vc_ids: Collection[int]) -> Mapping[int, Sequence[int]]:
    """The ids of the jobs that wait in each virtual cluster and are not held, in order; one query.

    A job that the last cycle did not see, such as a new one, comes behind the jobs that were submitted before it with
    its priority or a higher one.
    """
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [list(vc_ids)])
        return {vc_id: _merged(waiting, stored or ()) for vc_id, waiting, stored in cursor.fetchall()}


def _merged(waiting: Sequence[int], stored: Sequence[int]) -> Sequence[int]:
    """The stored jobs that still wait, in their order, and each other one behind those before it in `waiting`."""
    index_of = {job_id: index for index, job_id in enumerate(waiting)}
    placed = [job_id for job_id in stored if job_id in index_of]
    known = set(placed)
    others = [job_id for job_id in waiting if job_id not in known]
    found: list[int] = []  # from the last one
    while placed and others:
        found.append(others.pop() if index_of[placed[-1]] < index_of[others[-1]] else placed.pop())
    return [*placed, *others, *reversed(found)]


def positions(jobs: Iterable[Job]) -> dict[int, int]:
    """The place of each waiting job in its virtual cluster's queue, from 1; one query. A job that is held, or waits for
    others, has none."""
    asked = {job.pk: job.vc_id for job in jobs if job.state == JobState.QUEUED and not job.held and not job.blocked_by}
    if not asked:
        return {}
    return {
        job_id: place
        for order in orders_of(set(asked.values())).values()
        for place, job_id in enumerate(order, start=1)
        if job_id in asked
    }


def hold_job(*, user: User, job: Job) -> Job:
    """Hold the waiting job back until it is released. It keeps its time of submission."""
    require_may_act(user, job)
    if not hold_jobs([job.pk], user=user):
        job.refresh_from_db()
        if job.state != JobState.QUEUED:
            raise Conflict(f"job {job.pk} is {job.state}: only a waiting job can be held")
    job.refresh_from_db()
    return job


def hold_jobs(job_ids: Iterable[int], *, user: User) -> int:
    """Hold those of the jobs back that wait, and return their number."""
    with transaction.atomic(), recorded_together():
        jobs = list(_waiting(job_ids).filter(held=False).defer("spec"))
        hold = held_by(user.username)
        _HOLD.run(HoldReason.HELD.value, orjson.dumps(hold).decode(), [job.pk for job in jobs])
        for job in jobs:
            data = {"state": JobState.QUEUED, "reason": hold["reason"], "detail": hold["detail"]}
            record("job.held", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=data)
        forget_reservations([job.pk for job in jobs])
        _wake(jobs)
    return len(jobs)


def release_job(*, user: User, job: Job) -> Job:
    """Let a held job wait for its turn again; a job that waits and is not held stays as it is."""
    require_may_act(user, job)
    released = release_jobs([job.pk], user=user)
    job.refresh_from_db()
    if not released and job.state != JobState.QUEUED:
        raise Conflict(f"job {job.pk} is {job.state}: only a waiting job can be released")
    return job


def release_jobs(job_ids: Iterable[int], *, user: User) -> int:
    """Release those of the jobs that are held, and return their number."""
    with transaction.atomic(), recorded_together():
        jobs = list(_waiting(job_ids).filter(held=True).defer("spec"))
        # The reason of before, for which it waits again, makes no event of its own.
        known = {pk: waits_again(reason, delay) for pk, reason, delay in _RELEASE.rows([job.pk for job in jobs])}
        for job in jobs:
            record("job.released", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=known[job.pk])
        _wake(jobs)
    return len(jobs)


def reorder_jobs(*, user: User, vc: VirtualCluster, job_ids: Sequence[int]) -> None:
    """Let waiting jobs of one owner share out the places that they hold, in the order of `job_ids`.

    1. Check under lock that all of them still wait, and belong together.
    2. Rank them and the owner's jobs that were ranked before, in the new order.
    3. Show the new order until the next cycle has made its own.
    """
    if not 2 <= len(set(job_ids)) == len(job_ids) <= MAX_REORDERED:
        raise Invalid.field("jobs", f"send 2 to {MAX_REORDERED} different job numbers")
    with transaction.atomic():
        rows = Job.objects.select_for_update(no_key=True, of=("self",)).select_related("owner")
        jobs = {job.pk: job for job in rows.filter(pk__in=job_ids, vc=vc).order_by("pk")}
        _require_movable(user, vc, [(job_id, jobs.get(job_id)) for job_id in job_ids])
        owner = jobs[job_ids[0]].owner_id
        order = list(orders_of([vc.pk]).get(vc.pk, ()))
        _deal(order, job_ids)
        ranked = Job.objects.filter(vc=vc, owner=owner, state=JobState.QUEUED, own_rank__isnull=False)
        ids = {*job_ids, *ranked.values_list("pk", flat=True)}
        rank_of = {job_id: float(rank) for rank, job_id in enumerate(order) if job_id in ids}
        for job_id, rank in rank_of.items():
            Job.objects.filter(pk=job_id).exclude(own_rank=rank).update(own_rank=rank)
        _show(vc, order)
        data = {"jobs": list(job_ids)}
        for job_id in job_ids:
            record("job.reordered", actor=user.username, tenant_id=vc.tenant_id, job_id=job_id, data=data)
        wake_pool(vc.pool_id)


def _require_movable(user: User, vc: VirtualCluster, asked: Sequence[tuple[int, Job | None]]) -> None:
    first = next((job for _, job in asked if job is not None), None)
    for job_id, job in asked:
        if job is None or first is None:
            raise Invalid.field("jobs", f"there is no job {job_id} in virtual cluster {vc.name}")
        require_may_act(user, job)
        if job.state != JobState.QUEUED:
            raise Conflict(f"job {job_id} is {job.state} by now and waits no more: load the queue again")
        if job.held:
            raise Conflict(f"job {job_id} is held and has no place in the queue: release it first")
        if job.blocked_by:
            raise Conflict(f"job {job_id} waits for other jobs and has no place in the queue yet")
        if job.bumped:
            raise Conflict(f"job {job_id} was bumped by a manager and stays at the top")
        if job.owner_id != first.owner_id:
            raise Invalid.field(
                "jobs", f"jobs {first.pk} and {job_id} have two owners; to put a job before others' jobs, bump it"
            )
        if job.klass != first.klass:
            raise Invalid.field("jobs", f"job {first.pk} is {first.klass} and job {job_id} {job.klass}")


def bump_job(*, user: User, job: Job) -> Job:
    """Put the waiting job before all others of its class in its virtual cluster; no other one's jobs move."""
    _require_manager(user, job)
    with transaction.atomic():
        if _waiting([job.pk]).first() is None:
            job.refresh_from_db()
            raise Conflict(f"job {job.pk} is {job.state}: only a waiting job can be bumped")
        largest = Job.objects.filter(vc=job.vc, state__in=[JobState.QUEUED, JobState.ACTIVE]).aggregate(Max("bumped"))
        Job.objects.filter(pk=job.pk).update(bumped=largest["bumped__max"] + 1)
        order = list(orders_of([job.vc_id]).get(job.vc_id, ()))
        same_class = Job.objects.filter(vc=job.vc, state=JobState.QUEUED, klass=job.klass)
        ids = set(same_class.values_list("pk", flat=True)) - {job.pk}
        if job.pk in order:
            _deal(order, [job.pk, *(job_id for job_id in order if job_id in ids)])
            _show(job.vc, order)
        record("job.bumped", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk)
        wake_pool(job.pool_id)
    job.refresh_from_db()
    return job


def unbump_job(*, user: User, job: Job) -> Job:
    """Give a bumped job back the place that it has without the bump."""
    _require_manager(user, job)
    with transaction.atomic():
        if Job.objects.filter(pk=job.pk, bumped__gt=0).update(bumped=0):
            record("job.unbumped", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk)
            wake_pool(job.pool_id)
    job.refresh_from_db()
    return job


def _require_manager(user: User, job: Job) -> None:
    if not is_manager(user, job.tenant_id):
        raise Forbidden(f"only managers of {job.tenant.name} put jobs at the top of {job.vc.name}")


def _waiting(job_ids: Iterable[int]) -> QuerySet[Job]:
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in=list(job_ids), state=JobState.QUEUED)
    return rows.filter(desired=Desired.RUN).order_by("pk")


def _wake(jobs: Iterable[Job]) -> None:
    for pool_id in {job.pool_id for job in jobs}:
        wake_pool(pool_id)


def _deal(order: list[int], job_ids: Sequence[int]) -> None:
    """Share out the places that these jobs hold in the order among them."""
    wanted = set(job_ids)
    places = [place for place, job_id in enumerate(order) if job_id in wanted]
    for place, job_id in zip(places, job_ids, strict=True):
        order[place] = job_id


def _show(vc: VirtualCluster, order: Sequence[int]) -> None:
    QueueOrder.objects.update_or_create(vc=vc, defaults={"job_ids": list(order)})
