"""Deleting virtual clusters: only one without running jobs, whose waiting jobs may move to another one."""

from __future__ import annotations

from django.db import connection, transaction
from django.db.models import QuerySet

from muster.accounts.models import User
from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.events.services import audit, record, recorded_together, wake_pool
from muster.fleet.models import Pool
from muster.jobs.models import Job
from muster.jobs.transitions import forget_reservations
from muster.tenants.edits import touch
from muster.tenants.models import Loan, VirtualCluster
from scheduler.model.lifecycle import GroupState, JobState

# A bump or a rank holds within one virtual cluster only.
_MOVE_JOBS = """
UPDATE jobs_job SET vc_id = %s, spec = jsonb_set(spec, '{vc}', to_jsonb(%s::text)), bumped = 0, own_rank = NULL
WHERE id = ANY(%s)
"""
_MOVE_GROUPS = """
UPDATE jobs_jobgroup SET vc_id = %s, spec = jsonb_set(spec, '{vc}', to_jsonb(%s::text)) WHERE vc_id = %s AND state = %s
"""


def close_virtual_cluster(*, user: User, vc: VirtualCluster, merge_into: str | None = None) -> None:
    """Delete the virtual cluster and give up its quotas; its row stays for the jobs that have ended.

    Jobs that run, or wait and are given no other virtual cluster, are a `Conflict`.
    """
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=vc.pool_id)
        target = _target(vc, merge_into)
        # A stronger lock than cycles take: a submission waits for it, and then finds the virtual cluster closed.
        rows = VirtualCluster.objects.select_for_update().order_by("pk")
        list(rows.filter(pk__in=[vc.pk] if target is None else [vc.pk, target.pk]))
        vc.refresh_from_db()
        if vc.closed_at is not None:
            raise Conflict(f"{vc.name} is deleted already")
        waiting = list(Job.objects.select_for_update(no_key=True).filter(vc=vc, state=JobState.QUEUED).order_by("pk"))
        active = Job.objects.filter(vc=vc, state=JobState.ACTIVE).count()
        if active:
            raise Conflict(f"{active} jobs of {vc.name} run: delete it when they have ended, or cancel them first")
        roles = vc.roles.count()
        if roles:
            raise Conflict(f"{roles} roles of frameworks use {vc.name}: give them another virtual cluster first")
        if waiting and target is None:
            raise Conflict(
                f"{len(waiting)} jobs of {vc.name} wait: cancel them, or name a virtual cluster of the same tenant and "
                "pool that they move to (merge_into)"
            )
        if target is not None:
            _move(waiting, vc, target, user)
        before = {"tenant": vc.tenant.name, "quotas": {one.gpu_type: one.gpus for one in vc.quotas.all()}}
        for owned in (vc.quotas, vc.cells, vc.pinned_cells):
            owned.all().delete()
        Loan.objects.filter(borrower=vc, until__isnull=True).update(until=DatabaseNow())
        Loan.objects.filter(lender_vc=vc, until__isnull=True).update(until=DatabaseNow())
        vc.closed_at = DatabaseNow()
        actor, after = user.username, {"moved_jobs": len(waiting), "to": target.name if target else None}
        touch(vc, actor=actor)
        audit("delete", actor=actor, object_type="virtual_cluster", object_id=vc.name, before=before, after=after)
        wake_pool(vc.pool_id)


def merge_targets(vc: VirtualCluster) -> QuerySet[VirtualCluster]:
    """The virtual clusters that its waiting jobs may move to: of the same tenant and pool."""
    found = VirtualCluster.objects.filter(tenant=vc.tenant_id, pool=vc.pool_id, closed_at__isnull=True)
    return found.exclude(pk=vc.pk)


def _target(vc: VirtualCluster, name: str | None) -> VirtualCluster | None:
    if name is None:
        return None
    target = merge_targets(vc).filter(name=name).first()
    if target is None:
        raise Invalid.field("merge_into", f"{vc.tenant.name} has no other virtual cluster {name!r} in this pool")
    return target


def _move(waiting: list[Job], vc: VirtualCluster, target: VirtualCluster, user: User) -> None:
    ids = [job.pk for job in waiting]
    forget_reservations(ids)
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_JOBS, [target.pk, target.name, ids])
        cursor.execute(_MOVE_GROUPS, [target.pk, target.name, vc.pk, GroupState.ACTIVE.value])
    with recorded_together():
        for job in waiting:
            data = {"before": {"vc": vc.name}, "after": {"vc": target.name}}
            record("job.edited", actor=user.username, tenant_id=job.tenant_id, job_id=job.pk, data=data)
