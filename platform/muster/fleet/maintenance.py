"""Times in which nodes are to be free of jobs: planned by operators, and carried out by the reaper's rounds.

1. Once it is planned, snapshots hold the time at which each node closes (`closing_of`): no job is placed there that
   might not end by then, see `scheduler.model.eligibility`.
2. When it begins, its nodes are drained, and their preemptible jobs are moved off if asked for. A node that an operator
   has cordoned stays cordoned.
3. When it is over or called off, the nodes that were drained for it take jobs again, unless an operator has changed
   their state since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from muster.common.clock import database_now
from muster.common.errors import Conflict, Invalid, NotFound
from muster.events.services import audit, record, wake_pool
from muster.fleet.models import Maintenance, Node, Pool, RunningJobs
from muster.fleet.services import drain_node, require_reason, resume_node
from scheduler.model.lifecycle import NodeAdmin

ACTOR = "maintenance"
MAX_REASON_CHARS = 300
STILL_SO = (NodeAdmin.DRAINING, NodeAdmin.CORDONED)

# A clock that is a little behind, or a form that was filled in slowly, is no wish for the past.
_LATE = timedelta(minutes=1)
_UNSAID: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ClosingTime:
    """The closing of a node: its time (None: it has closed), reason, whether jobs are moved off, and end, if known."""

    at: datetime | None
    moves_jobs_off: bool
    reason: str
    until: datetime | None


def plan_maintenance(
    *,
    pool: str | None = None,
    node: str | None = None,
    begins_at: datetime | None,
    ends_at: datetime,
    reason: str,
    actor: str,
    running_jobs: RunningJobs = RunningJobs.WAIT,
) -> Maintenance:
    """Have the node, or every node of the pool, free of jobs between the two moments; None begins at once.

    `Invalid` names what is wrong, and `Conflict` what it would overlap.
    """
    if bool(pool) == bool(node):
        raise Invalid.field("node", "name either a node or a pool")
    reason = require_reason(reason)
    if len(reason) > MAX_REASON_CHARS:
        raise Invalid.field("reason", f"say why, in at most {MAX_REASON_CHARS} characters")
    now = database_now()
    begins_at = begins_at or now
    if ends_at <= begins_at:
        raise Invalid.field("ends_at", "it must come after begins_at")
    if ends_at <= now:
        raise Invalid.field("ends_at", "it is past already")
    if begins_at < now - _LATE:
        raise Invalid.field("begins_at", "it is past already; leave it out to begin at once")
    with transaction.atomic():
        found = _node(node) if node else None
        # Two that are planned at once must not each miss the other.
        locked = _pool(found.pool_id if found else None, pool)
        other = _overlapping(locked, found, begins_at, ends_at)
        if other is not None:
            raise Conflict(f"it would overlap with {other}, from {_words(other.begins_at)} to {_words(other.ends_at)}")
        row = Maintenance.objects.create(
            pool=locked,
            node=found,
            begins_at=begins_at,
            ends_at=ends_at,
            running_jobs=running_jobs,
            reason=reason,
            created_by=actor,
        )
        audit("plan", actor=actor, object_type="maintenance", object_id=row.pk, after=_shown(row))
        _tell("maintenance.planned", row, actor)
        wake_pool(locked.pk)
    return row


def call_off(*, maintenance: Maintenance, actor: str, reason: str = "") -> None:
    """End the maintenance now, or call it off before it begins; one that is over is a `Conflict`."""
    why = {"why": require_reason(reason)} if reason else {}
    with transaction.atomic():
        row = _locked(maintenance.pk)
        if row is None:
            raise Conflict(f"{maintenance} is over")
        before, after = _shown(row), why or None
        audit("call_off", actor=actor, object_type="maintenance", object_id=row.pk, before=before, after=after)
        _end(row, "maintenance.called_off", actor, why)


def keep_maintenance(pool: Pool) -> None:
    """Begin what is due in the pool, and end what is over."""
    now = database_now()
    due = Maintenance.objects.filter(pool=pool, over_at=None, begins_at__lte=now).order_by("begins_at", "pk")
    for pk, ends_at in list(due.values_list("pk", "ends_at")):
        with transaction.atomic():
            row = _locked(pk)
            if row is None:
                continue
            if ends_at <= now:
                _end(row, "maintenance.over", ACTOR)
            else:
                _begin(row, now)


def planned() -> QuerySet[Maintenance]:
    """Every maintenance that is not over, the next one first."""
    return Maintenance.objects.filter(over_at=None).select_related("pool", "node").order_by("begins_at", "pk")


def planned_of(node: Node) -> QuerySet[Maintenance]:
    """Maintenance of the node, or of its whole pool, that is planned or under way."""
    return planned().filter(Q(node=node) | Q(node=None, pool_id=node.pool_id))


def closing_of(nodes: Iterable[Node]) -> dict[int, ClosingTime]:
    """The closing times of nodes by id; other nodes are left out. One that was drained for it is kept free by its own
    state, until it is over.

    When a node opens again for good is not known while another maintenance of it follows.
    """
    rows = list(nodes)
    found: dict[int, ClosingTime] = {}
    for one in Maintenance.objects.filter(pool__in={node.pool_id for node in rows}, over_at=None).order_by("begins_at"):
        moves = one.running_jobs == RunningJobs.MOVE
        for node in rows:
            if one.node_id != node.pk and (one.node_id or one.pool_id != node.pool_id):
                continue
            before = found.get(node.pk)
            if node.pk not in one.drained:
                found[node.pk] = (
                    ClosingTime(one.begins_at, moves, one.reason, one.ends_at)
                    if before is None
                    else replace(before, at=before.at or one.begins_at, until=None)
                )
            elif _is_ours(node, one):
                found[node.pk] = ClosingTime(None, moves, one.reason, one.ends_at)
    return found


def _begin(row: Maintenance, now: datetime) -> None:
    """Drain the nodes that are not drained yet; one that joins the pool meanwhile is drained when it has."""
    if row.begun_at is None:
        Maintenance.objects.filter(pk=row.pk).update(begun_at=now)
        _tell("maintenance.began", row, ACTOR)
    drained = list(row.drained)
    for node in _nodes_of(row).filter(admin=NodeAdmin.ACTIVE).exclude(pk__in=drained):
        drain_node(node=node, reason=_reason(row), actor=ACTOR, move=row.running_jobs == RunningJobs.MOVE)
        drained.append(node.pk)
    if drained != row.drained:
        Maintenance.objects.filter(pk=row.pk).update(drained=drained)


def _end(row: Maintenance, kind: str, actor: str, why: Mapping[str, str] = _UNSAID) -> None:
    Maintenance.objects.filter(pk=row.pk).update(over_at=database_now())
    _tell(kind, row, actor, why)
    ours = Node.objects.filter(pk__in=row.drained, admin__in=STILL_SO, reason__startswith=_begins(row))
    for node in ours.order_by("pk"):
        resume_node(node=node, reason=f"the maintenance is over: {row.reason}", actor=actor)
    wake_pool(row.pool_id)


def _nodes_of(row: Maintenance) -> QuerySet[Node]:
    rows = Node.objects.filter(pool_id=row.pool_id).order_by("pk")
    return rows.filter(pk=row.node_id) if row.node_id else rows


def _reason(row: Maintenance) -> str:
    """The reason of a drain, as the node's page shows it."""
    return f"{_begins(row)}until {_words(row.ends_at)}: {row.reason}"


def _begins(row: Maintenance) -> str:
    """The beginning of the drain reason. At the end it tells the nodes whose state no operator has changed since."""
    return f"maintenance {row.pk} "


def _is_ours(node: Node, row: Maintenance) -> bool:
    """Whether the node will be resumed when the maintenance is over."""
    return node.admin in STILL_SO and node.reason.startswith(_begins(row))


def _words(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _locked(pk: int) -> Maintenance | None:
    return Maintenance.objects.select_for_update(no_key=True).filter(pk=pk, over_at=None).first()


def _node(name: str) -> Node:
    node = Node.objects.filter(name=name).exclude(admin=NodeAdmin.RETIRED).first()
    if node is None:
        raise NotFound(f"there is no node {name}")
    return node


def _pool(pk: int | None, name: str | None) -> Pool:
    found = Pool.objects.select_for_update(no_key=True).filter(Q(pk=pk) if pk else Q(name=name)).first()
    if found is None:
        raise NotFound(f"there is no pool {name}")
    return found


def _overlapping(pool: Pool, node: Node | None, begins_at: datetime, ends_at: datetime) -> Maintenance | None:
    rows = planned().filter(pool=pool, begins_at__lt=ends_at, ends_at__gt=begins_at)
    return (rows.filter(Q(node=node) | Q(node=None)) if node else rows).first()


def _shown(row: Maintenance) -> dict[str, object]:
    return {
        "pool": row.pool.name,
        "node": row.node.name if row.node else None,
        "begins_at": row.begins_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
        "running_jobs": row.running_jobs,
        "reason": row.reason,
    }


def _tell(kind: str, row: Maintenance, actor: str, why: Mapping[str, str] = _UNSAID) -> None:
    record(kind, actor=actor, node_id=row.node_id, data={"maintenance": row.pk, **_shown(row), **why})
