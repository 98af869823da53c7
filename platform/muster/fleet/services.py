"""Adding pools and nodes, and what operators do with nodes."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from muster.common.errors import Conflict, Invalid
from muster.common.models import DatabaseNow
from muster.common.secrets import digest, new_secret
from muster.common.validation import require_valid
from muster.events.models import Restore
from muster.events.services import audit, record, wake_pool
from muster.fleet.models import Gpu, GpuCheck, HealthReport, Node, NodeLease, Pool
from muster.fleet.selectors import holding
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import NodeAdmin, TransitionError, require_move

JOIN_TOKEN_LIFE = timedelta(hours=24)


def create_pool(*, name: str, actor: str, **settings: object) -> Pool:
    """A new pool with the given timers and policy."""
    pool = Pool(name=name, **settings)
    require_valid(pool)
    with transaction.atomic():
        pool.save(force_insert=True)
        audit("create", actor=actor, object_type="pool", object_id=name, after={"name": name, **settings})
    return pool


def create_node(
    *, pool: Pool, name: str, actor: str, address: str = "", rack: str = "", single_user_shared: bool = False
) -> tuple[Node, str]:
    """A new node and its join token, which works once, for a day, and is shown this once only."""
    node = Node(pool=pool, name=name, address=address, rack=rack, single_user_shared=single_user_shared)
    # After a restore the machine may be one that joined after the backup, and that still runs jobs.
    node.must_report = Restore.objects.exists()
    secret = new_secret("mjoin")
    node.join_digest, node.join_expires_at = digest(secret), timezone.now() + JOIN_TOKEN_LIFE
    require_valid(node)
    with transaction.atomic():
        node.save(force_insert=True)
        NodeLease.objects.create(node=node)
        audit("create", actor=actor, object_type="node", object_id=name, after={"name": name, "pool": pool.name})
        record("node.created", actor=actor, node_id=node.pk, data={"node": name})
    return node, secret


def renew_join_token(*, node: Node, actor: str) -> str:
    """A fresh join token for a node that must be enrolled again; the agent's present credential goes on working."""
    secret = new_secret("mjoin")
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(
            join_digest=digest(secret), join_expires_at=timezone.now() + JOIN_TOKEN_LIFE
        )
        audit("renew_join_token", actor=actor, object_type="node", object_id=node.name)
    return secret


def invalidate_credential(*, node: Node, actor: str) -> str:
    """A join token for the node, whose agent is refused from now on until it joins with the token."""
    with transaction.atomic():
        Node.objects.filter(pk=node.pk).update(credential_digest="")
        audit("invalidate_credential", actor=actor, object_type="node", object_id=node.name)
        return renew_join_token(node=node, actor=actor)


def cordon_node(*, node: Node, reason: str, actor: str) -> None:
    """Let nothing new start on the node; what runs there goes on."""
    _change_admin(node=node, target=NodeAdmin.CORDONED, reason=require_reason(reason), actor=actor)


def drain_node(*, node: Node, reason: str, actor: str, move: bool = False) -> None:
    """Let nothing new start, and wait until what runs there has ended.

    With `move`, the reaper stops the preemptible jobs, with their grace, and queues them again.
    """
    reason = require_reason(reason)
    _change_admin(node=node, target=NodeAdmin.DRAINING, reason=reason, actor=actor, moves_jobs_off=move)


def move_jobs_off(*, node: Node, reason: str, actor: str) -> None:
    """Drain the node, stop its preemptible jobs and queue them again; also for a node that drains already."""
    reason = require_reason(reason)
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if row.admin != NodeAdmin.DRAINING:
            drain_node(node=row, reason=reason, actor=actor, move=True)
            return
        Node.objects.filter(pk=row.pk).update(moves_jobs_off=True, reason=reason, drained_for_gpu_at=None)
        before = {"moves_jobs_off": row.moves_jobs_off, "reason": row.reason}
        after = {"moves_jobs_off": True, "reason": reason}
        record("node.jobs_moved_off", actor=actor, node_id=row.pk, data={"node": row.name, "reason": reason})
        audit("move_jobs_off", actor=actor, object_type="node", object_id=row.name, before=before, after=after)


def resume_node(*, node: Node, actor: str, reason: str = "") -> None:
    """Give a cordoned or draining node back to the scheduler; the reason is for the audit log and the event.

    `Conflict` while what lay on one that was declared gone is not let go: it would be kept, whatever the audit says.
    """
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if row.gone_at is not None and holds_anything(row):
            raise Conflict(f"node {row.name} was declared gone, and what lay there is not let go yet: try again soon")
        if reason:
            reason = require_reason(reason)
        _change_admin(node=node, target=NodeAdmin.ACTIVE, reason=reason, actor=actor)
        forgotten = {"reason": "", "black_hole_at": None, "given_back_at": None, "gone_at": None, "gone_why": ""}
        Node.objects.filter(pk=node.pk).update(resumed_at=DatabaseNow(), **forgotten)


def retire_node(*, node: Node, reason: str, actor: str) -> None:
    """Take a cordoned node out for good: its agent is refused from now on. What still runs there is a `Conflict`."""
    with transaction.atomic():
        _change_admin(node=node, target=NodeAdmin.RETIRED, reason=require_reason(reason), actor=actor)
        # The lock on the node that was just taken keeps the applier from placing anything there meanwhile.
        if holds_anything(node):
            raise Conflict(f"jobs still hold GPUs of node {node.name}: drain it first")
        Node.objects.filter(pk=node.pk).update(credential_digest="", join_digest="", join_expires_at=None)


def repair_gpus(*, node: Node, reason: str, actor: str) -> None:
    """Let jobs have the node's failed GPUs again and forget warnings; one that its agent does not report stays away."""
    reason = require_reason(reason)
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True, of=("self",)).get(pk=node.pk)
        broken = list(Gpu.objects.filter(node=node, present=True).exclude(health=HealthLevel.OK).order_by("index"))
        if not broken:
            raise Conflict(f"node {node.name} has no unhealthy GPU that its agent reports")
        mend_gpus(broken)
        GpuCheck.objects.filter(gpu__in=broken).update(in_doubt=False, given_back_at=None)
        Node.objects.filter(pk=node.pk).update(version=F("version") + 1)
        uuids = [gpu.uuid for gpu in broken]
        record("node.repaired", actor=actor, node_id=node.pk, data={"node": node.name, "gpus": uuids, "reason": reason})
        before, after = {"unhealthy": uuids}, {"unhealthy": [], "reason": reason}
        audit("repair", actor=actor, object_type="node", object_id=node.name, before=before, after=after)
        wake_pool(node.pool_id)


def mend_gpus(gpus: list[Gpu]) -> None:
    """Let GPUs be well again, and what was reported of them no longer count; under the lock of their node."""
    Gpu.objects.filter(pk__in=[gpu.pk for gpu in gpus]).update(
        health=HealthLevel.OK, health_at=DatabaseNow(), health_why="", heals="", failed_boot=""
    )
    HealthReport.objects.filter(gpu__in=gpus, over_at__isnull=True).update(over_at=DatabaseNow())


def require_reason(reason: str) -> str:
    """The reason that an operator gave, or `Invalid` for one that says nothing."""
    reason = reason.strip()
    if not reason or len(reason) > 500 or not reason.isprintable():
        raise Invalid.field("reason", "say why, in 1 to 500 printable characters")
    return reason


def holds_anything(node: Node) -> bool:
    """Whether any rank of a job is on the node, or is kept there."""
    return holding(Node.objects.filter(pk=node.pk)).exists()


def _change_admin(*, node: Node, target: NodeAdmin, reason: str, actor: str, moves_jobs_off: bool = False) -> None:
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        source = NodeAdmin(row.admin)
        try:
            require_move("node_admin", source, target)
        except TransitionError as error:
            raise Conflict(f"node {row.name} is {source}: it cannot become {target} from there") from error
        changed = {"admin": target, "reason": reason, "moves_jobs_off": moves_jobs_off, "drained_for_gpu_at": None}
        Node.objects.filter(pk=row.pk, admin=source).update(version=F("version") + 1, **changed)
        data = {"node": row.name, "from": source, "to": target, "reason": reason}
        if moves_jobs_off:
            data["jobs"] = "move"
        record(f"node.{target}", actor=actor, node_id=row.pk, data=data)
        before, after = {"admin": source, "reason": row.reason}, {"admin": target, "reason": reason}
        audit(target, actor=actor, object_type="node", object_id=row.name, before=before, after=after)
        wake_pool(row.pool_id)
