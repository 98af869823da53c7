"""Screening runs as a decision sees them: small jobs of virtual clusters that only snapshots have.

A job that is screened is in the queue of its screening pool, and in no other. There it asks for what its screening run
asks for, and belongs to a virtual cluster that exists in snapshots only: one for each tenant, whose quota is the
tenant's cap. So the admission, the invariants and the policies count and bound screening runs as they do everything,
and the virtual cluster that the job was submitted to is not charged for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from muster.fleet.models import Pool
from muster.jobs.attempt.runs import ScreeningRun, screening_grace_s
from muster.screening.selectors import tenant_cap
from muster.tenants.models import Tenant
from scheduler import model
from scheduler.admission.screening import FIRST_ID, screens, with_screening_clusters
from scheduler.model.lifecycle import JobClass


def while_screened(row: Mapping[str, Any], run: ScreeningRun) -> dict[str, Any]:
    """The fields of a job that its screening run changes.

    The run is guaranteed and cannot be preempted: it is short, and the job waits for its verdict. It resumes no work
    and has attained no service.
    """
    return {
        "vc_id": FIRST_ID + row["tenant_id"],
        "request": run.request,
        "time_limit_s": run.time_limit_s,
        "grace_s": screening_grace_s(row["grace_s"]),
        "expected_s": run.time_limit_s,
        "expected_p10_s": None,
        "expected_p90_s": None,
        "job_class": JobClass.GUARANTEED,
        "preemptible": False,
        "checkpoints": False,
        "attained_gpu_s": 0.0,
        "ran_s": 0.0,
        "relax_after_s": None,
    }


def with_screening(pool: Pool, snapshot: model.Snapshot, *, also_of: Collection[int] = ()) -> model.Snapshot:
    """The snapshot with virtual clusters for the tenants that have screening runs in it, and for `also_of`."""
    jobs = [*snapshot.waiting, *(run.job for run in snapshot.running)]
    tenant_ids = {job.tenant_id for job in jobs if screens(job.vc_id)}.union(also_of)
    if not tenant_ids:
        return snapshot
    rows = Tenant.objects.filter(pk__in=tenant_ids).order_by("pk")
    return with_screening_clusters(
        snapshot, [model.Tenant(row.pk, row.name, row.weight) for row in rows], cap=tenant_cap(pool)
    )
