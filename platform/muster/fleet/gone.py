"""An operator declares that a silent machine runs nothing any more: its allocations are released, whatever their fence.

The platform cannot verify this, because the machine does not answer. So this is the only act that may start a job
twice, if the operator is wrong. The node stays cordoned until an operator resumes it. If its agent answers again, it is
told to stop everything it runs, and no new job is placed beside that meanwhile.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from muster.common.clock import database_now
from muster.common.errors import Conflict
from muster.common.models import DatabaseNow
from muster.events.services import audit, record, wake_pool
from muster.fleet.leases import set_health
from muster.fleet.models import Node, NodeLease
from muster.fleet.selectors import holding
from muster.fleet.services import cordon_node, require_reason
from scheduler.model.lifecycle import LeaseState, NodeAdmin, NodeHealth


def declare_gone(*, node: Node, reason: str, actor: str) -> None:
    """Take the node for gone, whatever its fence; the reaper lets go of what it has.

    A node that is heard, that was never heard or that is retired is a `Conflict`.
    """
    reason = require_reason(reason)
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True, of=("self",)).select_related("pool").get(pk=node.pk)
        # A beat that comes now has renewed the lease already, or waits and makes the node ready after this.
        lease = NodeLease.objects.select_for_update(no_key=True).get(pk=row.pk)
        _require_silent(row, lease)
        before = {"admin": row.admin, "health": row.health, "reason": row.reason}
        why = f"declared gone: {reason}"[:500]
        if row.admin != NodeAdmin.CORDONED:
            cordon_node(node=row, reason=why, actor=actor)
        if row.health == NodeHealth.SUSPECT:
            set_health(row, NodeHealth.DOWN)
        NodeLease.objects.filter(pk=row.pk).update(state=LeaseState.EXPIRED)
        # Checks that pass give no such node back, and neither does a maintenance that ends: its reason is another one.
        Node.objects.filter(pk=row.pk).update(
            reason=why,
            gone_at=DatabaseNow(),
            gone_why=f"{actor}: {reason}"[:500],
            black_hole_at=None,
            version=F("version") + 1,
        )
        held = _held(row)
        data = {"node": row.name, "reason": reason, "allocations": len(held)}
        record("node.declared_gone", actor=actor, node_id=row.pk, data=data)
        after = {"admin": NodeAdmin.CORDONED, "health": NodeHealth.DOWN, "reason": why}
        heard = {"heard_at": lease.seen_at.isoformat(), "let_go": held}
        audit("declare_gone", actor=actor, object_type="node", object_id=row.name, before=before, after=after | heard)
        wake_pool(row.pool_id)


def _require_silent(node: Node, lease: NodeLease) -> None:
    if node.admin == NodeAdmin.RETIRED:
        raise Conflict(f"node {node.name} is retired")
    if node.health == NodeHealth.PENDING:
        raise Conflict(f"no agent of node {node.name} has ever spoken, so nothing can run there")
    silent_s = (database_now() - lease.seen_at).total_seconds()
    if node.health == NodeHealth.READY or silent_s <= node.pool.suspect_after_s:
        ago = f"{max(silent_s, 0.0):.0f} s ago"
        raise Conflict(f"node {node.name} was heard {ago}: it is not gone. Drain it, or switch it off first")


def _held(node: Node) -> list[dict[str, int]]:
    """Allocations on the node, as the audit log names them."""
    found = holding(Node.objects.filter(pk=node.pk)).order_by("allocations__pk")
    rows = found.values_list("allocations__attempt__job_id", "allocations__attempt__number", "allocations__rank")
    return [{"job": job, "attempt": attempt, "rank": rank} for job, attempt, rank in rows]
