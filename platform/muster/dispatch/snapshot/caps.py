"""The caps of users in a snapshot, with what they hold elsewhere and have used in this month."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.db import connection

from muster.accounts.models import User
from muster.common.statements import Statement
from muster.tenants.caps import effective
from muster.tenants.models import Cap, Membership
from scheduler import model
from scheduler.model.caps import Owner, owner_of
from scheduler.model.lifecycle import ATTEMPT_LIVE, AllocationState

# A claim of some slots of a GPU counts as the whole GPU, as it does against the other caps.
_HELD = """
SELECT job.tenant_id, job.owner_id, count(DISTINCT attempt.job_id), count(claim.id)
FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id
JOIN jobs_allocation allocation ON allocation.attempt_id = attempt.id AND allocation.state <> %s
LEFT JOIN jobs_gpuclaim claim ON claim.allocation_id = allocation.id AND claim.released_at IS NULL
WHERE attempt.state = ANY(%s) AND job.tenant_id = ANY(%s) AND job.owner_id = ANY(%s)
GROUP BY 1, 2
"""
_USED = """
SELECT job.tenant_id, job.owner_id,
    sum(extract(epoch FROM coalesce(claim.released_at, %s) - greatest(claim.claimed_at, %s)))
FROM jobs_job job JOIN jobs_attempt attempt ON attempt.job_id = job.id
JOIN jobs_allocation allocation ON allocation.attempt_id = attempt.id
JOIN jobs_gpuclaim claim ON claim.allocation_id = allocation.id
WHERE job.tenant_id = ANY(%s) AND job.owner_id = ANY(%s) AND (claim.released_at IS NULL OR claim.released_at > %s)
GROUP BY 1, 2
"""
_LOCK_CAPPED = Statement("""
SELECT tenant.id FROM tenants_tenant tenant
WHERE tenant.id IN (SELECT cap.tenant_id FROM tenants_cap cap)
AND tenant.id IN (SELECT job.tenant_id FROM jobs_job job WHERE job.id = ANY(%s))
ORDER BY tenant.id FOR NO KEY UPDATE OF tenant
""")


def lock_capped(job_ids: Sequence[int]) -> None:
    """Lock the tenants of the jobs that have caps, so that cycles of two pools do not both give the last of a cap."""
    _LOCK_CAPPED.rows(job_ids)


def with_caps(snapshot: model.Snapshot, *, now: datetime) -> model.Snapshot:
    """The snapshot with the caps of the owners of its waiting jobs; no further query where no tenant has any."""
    owners = {owner_of(job) for job in snapshot.waiting} | {owner_of(run.job) for run in snapshot.running}
    rows: defaultdict[int, list[Cap]] = defaultdict(list)
    for row in Cap.objects.filter(tenant__in={tenant_id for tenant_id, _ in owners}):
        rows[row.tenant_id].append(row)
    owners = {owner for owner in owners if owner[0] in rows}
    if not owners:
        return snapshot
    users = sorted({user_id for _, user_id in owners})
    roles = {
        (tenant_id, user_id): role
        for tenant_id, user_id, role in Membership.objects.filter(tenant__in=rows, user__in=users).values_list(
            "tenant_id", "user_id", "role"
        )
    }
    names = dict(User.objects.filter(pk__in=users).values_list("pk", "username"))
    caps = []
    for owner in sorted(owners):
        found = effective(rows[owner[0]], owner[1], roles.get(owner, ""))
        if found.gpus is not None or found.jobs is not None or found.gpu_hours_month is not None:
            caps.append(model.Cap(*owner, names[owner[1]], found.gpus, found.jobs, found.gpu_hours_month))
    return replace(snapshot, caps=tuple(_used(_held(caps, snapshot), now)))


def _held(caps: Sequence[model.Cap], snapshot: model.Snapshot) -> Sequence[model.Cap]:
    """The caps with what their users hold that the snapshot does not show."""
    if not any(cap.gpus is not None or cap.jobs is not None for cap in caps):
        return caps
    shown_gpus: Counter[Owner] = Counter()
    shown_jobs: Counter[Owner] = Counter()
    for run in snapshot.running:
        shown_gpus[owner_of(run.job)] += run.gpus
        shown_jobs[owner_of(run.job)] += 1
    live = sorted(state.value for state in ATTEMPT_LIVE)
    tenants, users = [cap.tenant_id for cap in caps], [cap.owner_id for cap in caps]
    with connection.cursor() as cursor:
        cursor.execute(_HELD, [AllocationState.RELEASED.value, live, tenants, users])
        held = {(tenant_id, user_id): (jobs, gpus) for tenant_id, user_id, jobs, gpus in cursor.fetchall()}

    def beyond(cap: model.Cap) -> model.Cap:
        owner = cap.tenant_id, cap.owner_id
        jobs, gpus = held.get(owner, (0, 0))
        return replace(
            cap,
            gpus_elsewhere=max(0, gpus - shown_gpus[owner]),
            jobs_elsewhere=max(0, jobs - shown_jobs[owner]),
        )

    return [beyond(cap) for cap in caps]


def _used(caps: Sequence[model.Cap], now: datetime) -> Sequence[model.Cap]:
    """The caps with the GPU-seconds of the calendar month (UTC) and its end."""
    metered = [cap for cap in caps if cap.gpu_hours_month is not None]
    if not metered:
        return caps
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    ends = begins.replace(year=begins.year + begins.month // 12, month=begins.month % 12 + 1)
    tenants, users = [cap.tenant_id for cap in metered], [cap.owner_id for cap in metered]
    with connection.cursor() as cursor:
        cursor.execute(_USED, [now, begins, tenants, users, begins])
        used = {(tenant_id, user_id): float(seconds) for tenant_id, user_id, seconds in cursor.fetchall()}
    return [
        replace(cap, gpu_s_used=max(0.0, used.get((cap.tenant_id, cap.owner_id), 0.0)), renews_at=ends.timestamp())
        for cap in caps
    ]
