"""Strikes: failures that a node is blamed for. They count less with age, and placements avoid nodes that have many.

A node is blamed for what no job can do to it by itself: an exit status never counts. What counts once is an incident,
however many jobs it cost: a silence, a boot, a launch, a GPU under an attempt. What jobs say of it counts once for each
owner and day.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db import connection, transaction

from muster.common.clock import database_now
from muster.common.errors import Conflict
from muster.events.services import audit, record
from muster.fleet.models import Node, NodeLease, Strike, StrikeReason
from muster.fleet.services import require_reason

# A strike of that age counts less than a thousandth, and is no longer looked at.
_HALF_LIVES_THAT_COUNT = 10
_DIGITS = 3

_STRIKES = """
SELECT node.id, sum(power(2, -greatest(0, extract(epoch FROM %(now)s - strike.at)::float8) / pool.strike_half_life_s))
FROM fleet_strike strike
JOIN fleet_node node ON node.id = strike.node_id
JOIN fleet_pool pool ON pool.id = node.pool_id
WHERE node.id = ANY(%(nodes)s) AND strike.forgiven_at IS NULL
AND strike.at > %(now)s - make_interval(secs => pool.strike_half_life_s * %(half_lives)s)
GROUP BY node.id
"""


def strikes_of(node_ids: Collection[int], *, now: datetime) -> dict[int, float]:
    """Of the nodes that have any, their strikes as they count now, rounded: each 2^(-age / half-life)."""
    with connection.cursor() as cursor:
        cursor.execute(_STRIKES, {"now": now, "nodes": list(node_ids), "half_lives": _HALF_LIVES_THAT_COUNT})
        return {node_id: round(count, _DIGITS) for node_id, count in cursor.fetchall()}


def blame_for_launch(
    *, node_ids: Collection[int], reason: StrikeReason, job_id: int, attempt_id: int, detail: str
) -> None:
    """Blame the nodes for an attempt that they could not start; in the transaction that stops it.

    A job whose launch has failed on another node as well is the likelier cause, so it strikes no second node. That
    nothing starts on a full disk is the doing of who filled it.
    """
    if reason is StrikeReason.LAUNCH_FAILED:
        others = Strike.objects.filter(job_id=job_id, reason=reason).exclude(node_id__in=list(node_ids))
        if others.exists():
            return
        full = Node.objects.filter(pk__in=list(node_ids), disk_full_at__isnull=False).values_list("pk", flat=True)
        node_ids = sorted(set(node_ids) - set(full))
    for node_id in node_ids:
        _strike(node_id, reason, job_id, attempt_id, detail, incident=f"launch of attempt {attempt_id}")


def blame_for_leaving(
    *, node_id: int, reason: StrikeReason, job_id: int, attempt_id: int, detail: str, incident: str = ""
) -> None:
    """Blame the node for having gone away under an attempt; `incident` is empty for a boot or a silence."""
    heard_at, boot_id = NodeLease.objects.values_list("seen_at", "node__boot_id").get(pk=node_id)
    if not incident:
        rebooted = reason is StrikeReason.NODE_REBOOTED
        incident = f"boot {boot_id}" if rebooted else f"silence since {heard_at.isoformat()}"
    _strike(node_id, reason, job_id, attempt_id, detail, incident=incident)


def blame_gpu(*, node_id: int, gpu_id: int, reason: StrikeReason, job_id: int, attempt_id: int, detail: str) -> None:
    """Blame a GPU, and with it its node, for having failed under an attempt."""
    incident = f"{reason} of GPU {gpu_id} under attempt {attempt_id}"
    _strike(node_id, reason, job_id, attempt_id, detail, incident=incident, gpu_id=gpu_id)


def blame_for_failure(
    *, node_ids: Collection[int], failure: str, owner_id: int, job_id: int, attempt_id: int, detail: str
) -> None:
    """Blame the nodes for a failure of a class that another node may heal, by the word of the job's log.

    Anybody can print anything. So however many of an owner's jobs say so, a day of that owner counts once for a node.
    """
    incident = f"{failure} told by jobs of user {owner_id} on {database_now():%Y-%m-%d}"
    for node_id in node_ids:
        _strike(node_id, StrikeReason.TOLD_BY_JOBS, job_id, attempt_id, detail, incident=incident)


def nodes_of_failed_gpus(attempt_id: int) -> list[int]:
    """The nodes that are blamed for a GPU under this attempt."""
    struck = Strike.objects.filter(attempt_id=attempt_id, gpu__isnull=False)
    return sorted(set(struck.values_list("node_id", flat=True)))


def forgive_strikes(*, node: Node, reason: str, actor: str) -> None:
    """Let no strike that the node has so far count any longer; the rows stay."""
    reason = require_reason(reason)
    with transaction.atomic():
        now = database_now()
        counted = strikes_of([node.pk], now=now).get(node.pk, 0.0)
        forgiven = Strike.objects.filter(node=node, forgiven_at=None).update(forgiven_at=now)
        if not forgiven:
            raise Conflict(f"node {node.name} has no strikes")
        data = {"node": node.name, "strikes": forgiven, "reason": reason}
        record("node.forgiven", actor=actor, node_id=node.pk, data=data)
        before, after = {"strikes": forgiven, "counted": counted}, {"strikes": 0, "reason": reason}
        audit("forgive", actor=actor, object_type="node", object_id=node.name, before=before, after=after)


def _strike(
    node_id: int,
    reason: StrikeReason,
    job_id: int,
    attempt_id: int,
    detail: str,
    *,
    incident: str,
    gpu_id: int | None = None,
) -> None:
    what = {"gpu_id": gpu_id, "reason": reason, "job_id": job_id, "attempt_id": attempt_id, "detail": detail[:500]}
    strike, is_new = Strike.objects.get_or_create(node_id=node_id, incident=incident, defaults=what)
    if is_new:
        name = Node.objects.values_list("name", flat=True).get(pk=node_id)
        record("node.struck", actor="platform", node_id=node_id, data={"node": name, "reason": strike.reason})
