"""The first report of a node's agent after the platform was restored from a backup.

An agent restarts before it registers again, so its first sync names everything that it has started
(`nodeagent.loop.loop`). The database shows an earlier moment. What it has and the agent does not name has ended since,
or was never started: it must not be given to the agent again, which has forgotten it and would start it. What the agent
names and the database does not have began later: it is not desired, so the agent stops it, and until it has ended
nothing new is placed.
"""

from __future__ import annotations

from django.db import transaction

from muster.events.models import Restore
from muster.events.services import record, wake_pool
from muster.execution import reports
from muster.fleet.models import Node
from muster.jobs.attempt.claimants import is_left_behind
from muster.jobs.models import Allocation
from nodeagent.protocol.messages import AllocationReport, Observed, SyncRequest
from scheduler.model.lifecycle import AllocationState
from scheduler.model.reasons import Reason


def take_report(node: Node, request: SyncRequest) -> None:
    """Compare what the agent has with the database, and let the node have jobs again once nothing is unknown."""
    reported = {(report.id, report.fence) for report in request.allocations}
    held = Allocation.objects.filter(node=node).exclude(state=AllocationState.RELEASED).order_by("attempt_id", "pk")
    known = set()
    for allocation in held:
        known.add((allocation.pk, allocation.attempt_id))
        if (allocation.pk, allocation.attempt_id) not in reported and not is_left_behind(
            allocation.state_id, node.state_id
        ):
            _lose(node, allocation)
    unknown = [
        report
        for report in request.allocations
        if report.observed is not Observed.EXITED and (report.id, report.fence) not in known
    ]
    with transaction.atomic():
        _list_as_lost(node, unknown)
        if not unknown and Node.objects.filter(pk=node.pk, must_report=True).update(must_report=False):
            record("node.reported_after_restore", actor="platform", node_id=node.pk, data={"node": node.name})
            wake_pool(node.pool_id)


def _lose(node: Node, allocation: Allocation) -> None:
    reports.lose(
        attempt_id=allocation.attempt_id,
        node_id=node.pk,
        reason=Reason.UNKNOWN,
        detail=f"it ended on node {node.name} after the backup from which the platform was restored; how is not known",
        blame=False,
    )


def _list_as_lost(node: Node, unknown: list[AllocationReport]) -> None:
    """Add to the restore what the agent runs of which the database knows nothing, once each."""
    restore = Restore.objects.select_for_update(no_key=True).order_by("-pk").first() if unknown else None
    if restore is None:
        return
    listed = {one["allocation"] for one in restore.unknown}
    new = [
        {"node": node.name, "allocation": one.id, "attempt": one.fence, "job": one.job_id}
        for one in unknown
        if one.id not in listed
    ]
    if new:
        Restore.objects.filter(pk=restore.pk).update(unknown=[*restore.unknown, *new])
        data = {"node": node.name, "allocations": new}
        record("node.runs_unknown_jobs", actor="platform", node_id=node.pk, data=data)
