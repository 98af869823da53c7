"""Trials as a decision sees them: small jobs of virtual clusters that no quota knows, each tenant's with a cap.

A job that is tried is in the queue of its screening pool, and in no other. There it asks for what its trial takes, and
belongs to a virtual cluster that exists in snapshots only, one for each tenant, whose quota is the tenant's cap. So the
admission, the law and the policies count and bound trials as they do everything, and nothing of them is charged to the
virtual cluster that the job was submitted to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from muster.fleet.models import Pool
from muster.jobs.demand import trial_demand, trial_grace_s
from muster.screening.selectors import tenant_cap
from muster.tenants.models import Tenant
from scheduler import model
from scheduler.admission.screening import FIRST_ID, with_screening_clusters
from scheduler.model.lifecycle import JobClass
from scheduler.model.request import Choice, Request


def on_trial(row: Mapping[str, Any], trial: dict[str, Any]) -> dict[str, Any]:
    """What of a job's fields is otherwise while it is tried.

    It is guaranteed, for it is short and others wait for what it says, and nobody is to stop it. It has no work to go
    on with, and it has got nothing yet.
    """
    demand, request = trial_demand(trial), row["request"]
    return {
        "vc_id": FIRST_ID + row["tenant_id"],
        "request": Request(
            choices=(Choice(demand.gpu_type or None, demand.gpus, demand.cpus, demand.memory_mib),),
            nodes=demand.nodes,
            runtime=request.runtime,
        ),
        "time_limit_s": demand.time_limit_s,
        "grace_s": trial_grace_s(row["grace_s"]),
        "expected_s": demand.time_limit_s,
        "klass": JobClass.GUARANTEED,
        "preemptible": False,
        "checkpoints": False,
        "attained_gpu_s": 0.0,
        "ran_s": 0.0,
        "relax_after_s": None,
    }


def with_trials(pool: Pool, snapshot: model.Snapshot, *, also_of: Collection[int] = ()) -> model.Snapshot:
    """The snapshot with the virtual clusters of its trials, if there are any, and of these tenants' in any case."""
    jobs = [*snapshot.waiting, *(run.job for run in snapshot.running)]
    tenant_ids = {job.tenant_id for job in jobs if job.vc_id > FIRST_ID}.union(also_of)
    if not tenant_ids:
        return snapshot
    rows = Tenant.objects.filter(pk__in=tenant_ids).order_by("pk")
    return with_screening_clusters(
        snapshot, [model.Tenant(row.pk, row.name, row.weight) for row in rows], cap=tenant_cap(pool)
    )
