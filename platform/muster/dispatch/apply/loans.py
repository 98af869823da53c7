"""Loans of GPUs between virtual clusters, kept as rows for as long as they last."""

from __future__ import annotations

from dataclasses import replace

from django.db import connection, transaction

from muster.common.models import DatabaseNow
from muster.dispatch.snapshot.snapshot import held_snapshot
from muster.fleet.models import Pool
from muster.tenants.models import Loan
from scheduler.admission import ADMISSIONS
from scheduler.admission.screening import screens
from scheduler.admission.tree.arithmetic import Level, loans
from scheduler.model import Snapshot
from scheduler.model.lifecycle import Stage

_COLUMNS = {
    Level.VIRTUAL_CLUSTER: "lender_vc_id",
    Level.TENANT: "lender_tenant_id",
    Level.ORGANISATION: "lender_organisation_id",
}


# The virtual clusters of a pool that hold more GPUs of a type than their quota, screening runs aside.
_OVER = """
SELECT 1 FROM (
    SELECT job.vc_id, gpu.type, count(DISTINCT gpu.id) AS held
    FROM jobs_gpuclaim claim JOIN fleet_gpu gpu ON gpu.id = claim.gpu_id
    JOIN jobs_allocation allocation ON allocation.id = claim.allocation_id
    JOIN jobs_attempt attempt ON attempt.id = allocation.attempt_id JOIN jobs_job job ON job.id = attempt.job_id
    WHERE claim.released_at IS NULL AND job.pool_id = %s AND attempt.stage = %s GROUP BY 1, 2
) used LEFT JOIN tenants_quota quota ON quota.vc_id = used.vc_id AND quota.gpu_type = used.type
WHERE used.held > coalesce(quota.gpus, 0) LIMIT 1
"""


def keep_loans(pool: Pool) -> None:
    """End the loans that are over, and store those that are new or of another size."""
    rows = list(Loan.objects.filter(borrower__pool=pool, until__isnull=True))
    if not rows and not ADMISSIONS.has(pool.admission, "lends"):
        return
    with connection.cursor() as cursor:
        cursor.execute(_OVER, [pool.pk, Stage.FULL.value])
        over = cursor.fetchone() is not None
    now = {
        (one.borrower_vc, _COLUMNS[one.lender_kind], one.lender_id, one.gpu_type): one.gpus
        for one in (loans(_without_screening(held_snapshot(pool))) if over else ())
    }
    ended = []
    for row in rows:
        column = next(name for name in _COLUMNS.values() if getattr(row, name) is not None)
        key = (row.borrower_id, column, getattr(row, column), row.gpu_type)
        if now.get(key) == row.gpus:
            del now[key]
        else:
            ended.append(row.pk)
    if ended or now:
        with transaction.atomic():
            Loan.objects.filter(pk__in=ended).update(until=DatabaseNow())
            Loan.objects.bulk_create(
                Loan(borrower_id=vc_id, gpu_type=kind, gpus=gpus, **{column: lender_id})
                for (vc_id, column, lender_id, kind), gpus in now.items()
            )


def _without_screening(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, running=tuple(run for run in snapshot.running if not screens(run.vc_id)))
