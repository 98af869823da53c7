"""After a restore from a backup, placement waits until it is known what runs on the nodes.

The database then shows an earlier moment. A job that is queued in it may have started after that moment, on any node,
and may still run there. So placement in all pools waits for each node until one of these has happened:

1. Its agent has reported its jobs, and the database knows all of them (`muster.agents.restored`).
2. Its eviction deadline has passed: no process from before the restore can be left there.

A node that the database does not know may run jobs, too. Its agent is refused, so its jobs end by its eviction
deadline. Placement waits for that deadline unless an operator has declared that all nodes are known. A node that
reports after placement has resumed takes no jobs before its report.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from muster.common.clock import database_now
from muster.common.models import DatabaseNow
from muster.dispatch.eviction import eviction_after_s
from muster.events.models import Restore
from muster.events.services import mail_operators, record, wake_pool
from muster.fleet.models import Node, Pool
from muster.jobs.models import Job
from scheduler.model.lifecycle import LeaseState, NodeAdmin


def placement_pause() -> str:
    """The reason why placement is paused, as a sentence; empty if it is not."""
    restore = Restore.objects.filter(resumed_at=None).order_by("-pk").first()
    if restore is None:
        return ""
    waits = ", ".join(_waits_for(restore, database_now())) or "the reaper"
    return f"the platform was restored from a backup of {_utc(restore.backup_at)}, and placement waits for {waits}"


def resume_placement() -> None:
    """Resume placement once no unknown job can run anywhere, and tell operators which jobs are lost."""
    if not Restore.objects.filter(resumed_at=None).exists():
        return
    with transaction.atomic():
        restore = Restore.objects.select_for_update(no_key=True).filter(resumed_at=None).order_by("-pk").first()
        if restore is None or _waits_for(restore, database_now()):
            return
        Restore.objects.filter(resumed_at=None).update(resumed_at=DatabaseNow())
        data = {"backup_at": restore.backup_at.isoformat(), "unknown": restore.unknown}
        record("platform.placement_resumed", actor="platform", data=data)
        mail_operators(subject="Jobs are placed again after the restore", body=lost_jobs(restore))
        for pool_id in Pool.objects.values_list("pk", flat=True):
            wake_pool(pool_id)


def lost_jobs(restore: Restore) -> str:
    """A sentence on the jobs that were submitted or started after the backup."""
    known = Job.objects.filter(pk__lte=restore.last_job).aggregate(last=Max("pk"))["last"] or 0
    lines = [
        f"The platform was restored from a backup of {_utc(restore.backup_at)}. What was submitted or has ended since "
        f"then is lost. Its last job is {known}: a job with an id from {known + 1} to {restore.last_job} was submitted "
        "later. Which of these ids were given is not known, except for the jobs below."
    ]
    lines += [
        f"Still ran on node {one['node']}, and was stopped: job {one['job'] or '(id unknown)'}, "
        f"attempt {one['attempt']}, allocation {one['allocation']}."
        for one in restore.unknown
    ]
    if not restore.unknown:
        lines.append("No agent has reported a job that the backup does not know.")
    return "\n".join(lines)


def _waits_for(restore: Restore, now: datetime) -> list[str]:
    """The nodes that placement waits for, in words."""
    # A node without a credential had no agent before the backup, so it counts as unknown.
    nodes = Node.objects.filter(must_report=True, gone_at=None).exclude(admin=NodeAdmin.RETIRED)
    nodes = nodes.exclude(credential_digest="")
    waits = []
    for node in nodes.select_related("pool", "lease").order_by("name"):
        # An agent that has registered since then has renewed the leases of all its jobs, known or not.
        heard = node.lease.state != LeaseState.VOID
        until = max(restore.at, node.lease.seen_at if heard else restore.at) + _eviction_delay(node.pool)
        if now < until:
            waits.append(f"node {node.name} until {_utc(until)}")
    if not restore.nodes_known:
        until = restore.at + max((_eviction_delay(pool) for pool in Pool.objects.all()), default=timedelta())
        if now < until:
            waits.append(f"nodes that joined after the backup until {_utc(until)}")
    return waits


def _eviction_delay(pool: Pool) -> timedelta:
    """Seconds without an answer after which no process of any job of the pool can be left."""
    return timedelta(
        seconds=eviction_after_s(
            stop_after_s=max(pool.stop_after_s, pool.lowered_from_s or 0.0),
            grace_s=pool.max_grace_s,
            margin_s=pool.fence_margin_s,
        )
    )


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
