"""The queue of a virtual cluster as JSON."""

from __future__ import annotations

from datetime import datetime

from muster.accounts.models import User
from muster.api.jobs.render import for_list, job_list
from muster.api.pages import encode_cursor
from muster.api.predictions.render import wait_forecast
from muster.common.clock import database_now, moment
from muster.dispatch.config.planners import name_of, planner_of
from muster.jobs.models import Job, QueueOrder
from muster.jobs.queue import orders_of
from muster.predictions.waits.outlook import present_waits
from muster.tenants.models import VirtualCluster
from muster.tenants.selectors import is_manager
from muster_client.answers.jobs import JobInList
from muster_client.answers.queue import Queue, QueueEntry
from scheduler.model.lifecycle import JobState
from scheduler.predict.waits.forecast import WaitForecast


def queue_document(user: User, vc: VirtualCluster, *, mine: bool, limit: int, first: int) -> Queue:
    """A page of the queue from index `first` on."""
    order = [*orders_of([vc.pk]).get(vc.pk, ())]
    held = Job.objects.filter(vc=vc, state=JobState.QUEUED, held=True).order_by("submitted_at", "pk")
    held_ids = list(held.values_list("pk", flat=True))
    listed = [*order, *held_ids]
    if mine:
        own = set(Job.objects.filter(vc=vc, state=JobState.QUEUED, owner=user).values_list("pk", flat=True))
        listed = [job_id for job_id in listed if job_id in own]
    ids = listed[first : first + limit]
    planner = planner_of(vc.pool_id, vc.pk)
    stored = QueueOrder.objects.filter(vc=vc).values_list("at", flat=True).first()
    manages = is_manager(user, vc.tenant_id)
    return {
        "vc": vc.name,
        "pool": vc.pool.name,
        "policy": (planner or vc.pool).policy,
        "planner": name_of(planner),
        "ordered_at": moment(stored),
        "waiting": len(order),
        "held": len(held_ids),
        "manages": manages,
        "results": _entries(user, vc.pool_id, ids, manages=manages),
        "next": encode_cursor(first + limit) if first + limit < len(listed) else None,
    }


def _entries(user: User, pool_id: int, ids: list[int], *, manages: bool) -> list[QueueEntry]:
    rows = for_list(Job.objects.filter(pk__in=ids, state=JobState.QUEUED)).in_bulk()
    jobs, now = [rows[job_id] for job_id in ids if job_id in rows], database_now()
    waits = present_waits(pool_id, ids, now)
    return [
        _entry(
            job,
            row,
            waits.get(job.pk),
            now,
            movable=(manages or job.owner_id == user.pk) and not job.held and not job.bumped,
        )
        for job, row in zip(jobs, job_list(jobs), strict=True)
    ]


def _entry(job: Job, row: JobInList, wait: WaitForecast | None, now: datetime, *, movable: bool) -> QueueEntry:
    evidence = (job.hold or {}).get("evidence", {})
    since = max(job.submitted_at, job.requeued_at or job.submitted_at)
    return {
        **row,
        "class": job.klass,
        "evidence": evidence,
        "waited_s": round(max(0.0, (now - since).total_seconds()), 1),
        "starts_at": evidence.get("starts_by"),
        "wait": wait_forecast(wait),
        "movable": movable,
    }
