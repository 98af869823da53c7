"""Registration of agents, their leases, and the health that follows from both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from muster.common.clock import database_now
from muster.common.errors import Conflict, MusterError
from muster.common.models import DatabaseNow
from muster.common.rows import first_of
from muster.common.secrets import digest, new_secret
from muster.common.statements import Statement
from muster.events.models import Restore
from muster.events.services import mail_operators, record, wake_pool
from muster.fleet.checks import begin_checks
from muster.fleet.hold import held_back
from muster.fleet.inventory import Reported, store_inventory
from muster.fleet.models import Node, NodeLease, Pool, Tick
from nodeagent.protocol.messages import REGISTER_FIRST
from scheduler.model.lifecycle import LeaseState, NodeAdmin, NodeHealth, require_move

# A web process or a reaper that was silent for longer than this was out, and its silence is not the nodes'.
MAX_SILENCE_S = 10


class Unauthorized(MusterError, status=401, code="unauthorized", title="Not authorized"):
    """The token or credential is not one of ours."""


class RegisterFirst(MusterError, status=REGISTER_FIRST, code="register-first", title="The agent has to register again"):
    """The database was restored from a backup, and the agent has not registered since."""


class StaleNonce(MusterError, status=412, code="stale-nonce", title="The nonce was used or replaced"):
    """The nonce of a registration is used, or not the last one that its node was given."""


# What no call of an agent reads is not read for each of them.
_WIDE = (
    *("inventory", "labels", "links"),
    *("pool__policy_params", "pool__placement_params", "pool__admission_params", "pool__fallback"),
)
# Rows are locked in their order, as by every other process that does the same.
_RENEWAL = """
WITH told AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS told (node_id, epoch, seq)),
free AS (SELECT lease.node_id FROM fleet_nodelease lease JOIN told USING (node_id) WHERE lease.epoch = told.epoch
         ORDER BY lease.node_id FOR NO KEY UPDATE OF lease SKIP LOCKED)
UPDATE fleet_nodelease lease SET seen_at = clock_timestamp(), seq = told.seq, state = %s
FROM told JOIN free USING (node_id) WHERE lease.node_id = told.node_id AND lease.epoch = told.epoch
RETURNING lease.node_id
"""
# A time that is to come is one of a clock that was set back since; no node would be judged until it has come.
_TICK = Statement("""
INSERT INTO fleet_tick AS tick (name, at, answering_since) VALUES (%s, clock_timestamp(), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET at = excluded.at, answering_since = CASE
    WHEN abs(extract(epoch FROM excluded.at - tick.at)) > %s THEN excluded.at ELSE tick.answering_since END
RETURNING answering_since
""")


@dataclass(frozen=True, slots=True)
class Registration:
    """A node that may now speak under a new epoch; `rebooted` when its processes of before are gone."""

    node: Node
    epoch: int
    rebooted: bool


@dataclass(frozen=True, slots=True)
class Renewal:
    """A beat: the epoch under which the agent speaks, and the number of its message."""

    epoch: int
    seq: int


def greet(*, secret: str, credential: str) -> str:
    """A nonce for the next registration of the node that the secret belongs to; those from before are void."""
    nonce = new_secret("mustern")
    with transaction.atomic():
        Node.objects.filter(pk=_node_of(secret, credential).pk).update(nonce=nonce)
    return nonce


def register(
    *,
    secret: str,
    credential: str,
    nonce: str,
    boot_id: str,
    state_id: str,
    agent_version: str,
    reported: Reported,
) -> Registration:
    """A new epoch for the node that the secret belongs to; an older agent of the node is superseded by it.

    A join token binds the credential that comes with it: an answer that was lost can be asked for again with both. The
    newest nonce says that who sent this was alive after all that had registered before.
    """
    with transaction.atomic():
        node = _node_of(secret, credential)
        if node.admin == NodeAdmin.RETIRED:
            raise Conflict(f"node {node.name} is retired")
        if not nonce or nonce != node.nonce:
            raise StaleNonce(f"this registration of node {node.name} came too late; ask for another nonce")
        rebooted = bool(node.boot_id) and node.boot_id != boot_id
        changed = store_inventory(node, reported)
        Node.objects.filter(pk=node.pk).update(nonce="", boot_id=boot_id, agent_version=agent_version[:40])
        NodeLease.objects.filter(pk=node.pk).update(
            epoch=F("epoch") + 1, state=LeaseState.GRANTED, seq=0, granted_at=DatabaseNow(), seen_at=DatabaseNow()
        )
        epoch = NodeLease.objects.values_list("epoch", flat=True).get(pk=node.pk)
        data = {"node": node.name, "epoch": epoch, "rebooted": rebooted, "inventory_changed": changed}
        if state_id != node.state_id:
            # After the new epoch is stored: from then on, an agent with the old state folder gets no answer to a beat.
            Node.objects.filter(pk=node.pk).update(state_id=state_id, state_since=DatabaseNow())
            data["state_lost"] = bool(node.state_id)
        record("node.registered", actor=f"agent of {node.name}", node_id=node.pk, data=data)
        set_health(node, NodeHealth.READY)
        begin_checks(node, restarted=rebooted)
        wake_pool(node.pool_id)
    return Registration(node, epoch, rebooted)


def supersede(node: Node) -> None:
    """Let no agent that has registered speak for the node any more: the next one has to register."""
    NodeLease.objects.filter(pk=node.pk).update(epoch=F("epoch") + 1)


def renew(*, node: Node, epoch: int, seq: int) -> None:
    """Renew the lease of this epoch by one narrow UPDATE.

    A superseded epoch is a `Conflict`; `RegisterFirst`: none has registered since a restore.
    """
    if not NodeLease.objects.filter(pk=node.pk, epoch=epoch).update(
        seen_at=DatabaseNow(), seq=seq, state=LeaseState.RENEWED
    ):
        raise _refusal(node, epoch)
    if node.health != NodeHealth.READY:
        with transaction.atomic():
            locked = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
            set_health(locked, NodeHealth.READY)


def renew_free(beats: Mapping[Node, Renewal]) -> dict[Node, bool]:
    """Renew the leases of many nodes by one UPDATE, and return of each whether it was renewed.

    A superseded epoch is not, nor a row that another transaction has locked; `renew` tells the two apart.
    """
    columns = [
        [node.pk for node in beats],
        [beat.epoch for beat in beats.values()],
        [beat.seq for beat in beats.values()],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_RENEWAL, [*columns, LeaseState.RENEWED])
        renewed = {node_id for (node_id,) in cursor.fetchall()}
    return {node: node.pk in renewed for node in beats}


def require_epoch(*, node: Node, epoch: int) -> None:
    """Return if the epoch was the node's when it was read; raises what `renew` raises if not."""
    if node.lease.epoch != epoch:
        raise _refusal(node, epoch)


def hold_epoch(*, node: Node, epoch: int) -> None:
    """Keep the epoch the node's until the transaction ends; raises what `renew` raises if it is not."""
    leases = NodeLease.objects.select_for_update(no_key=True).filter(pk=node.pk, epoch=epoch)
    if first_of(leases) is None:
        raise _refusal(node, epoch)


def _refusal(node: Node, epoch: int) -> MusterError:
    if node.lease.state == LeaseState.VOID:
        return RegisterFirst(f"the platform was restored from a backup: node {node.name} has to register again")
    return Conflict(f"epoch {epoch} of node {node.name} is superseded")


def node_of_credential(secret: str) -> Node:
    """The node whose agent has this credential, with its pool and its lease."""
    return known(nodes_of_credentials([secret])[secret])


def require_secret(secret: str) -> None:
    """Return if the secret is a credential or a join token of a node, and raise `Unauthorized` if not."""
    hashed = digest(secret)
    if not Node.objects.filter(Q(credential_digest=hashed) | Q(join_digest=hashed)).exists():
        raise Unauthorized(
            "the secret is not a node's credential or join token; an operator can make a new join token"
            f"{_hint_after_restore()}"
        )


def _hint_after_restore() -> str:
    restore = Restore.objects.order_by("-pk").first()
    if restore is None:
        return ""
    return (
        f". The platform was restored from a backup of {restore.backup_at:%Y-%m-%d %H:%M:%S} UTC: a node that joined"
        " after it must be added and join again"
    )


def nodes_of_credentials(secrets: Iterable[str]) -> dict[str, Node | None]:
    """The node of each credential, as `node_of_credential` tells it, in one query; None for what is none."""
    digests = {secret: digest(secret) for secret in secrets}
    nodes = Node.objects.select_related("pool", "lease").defer(*_WIDE)
    found = {node.credential_digest: node for node in nodes.filter(credential_digest__in=digests.values())}
    return {secret: found.get(hashed) for secret, hashed in digests.items()}


def known(node: Node | None) -> Node:
    """The node, or `Unauthorized` if there is none."""
    if node is None:
        raise Unauthorized(f"the credential is not that of any node{_hint_after_restore()}")
    return node


def set_health(node: Node, target: NodeHealth) -> bool:
    """Move the node's health if it is not there already; the caller holds the node's lock."""
    source = NodeHealth(node.health)
    if source is target:
        return False
    require_move("node_health", source, target)
    went = {"down_at": DatabaseNow()} if target is NodeHealth.DOWN else {}
    if not Node.objects.filter(pk=node.pk, health=source).update(health=target, version=F("version") + 1, **went):
        return False
    node.health = target
    data = {"node": node.name, "from": source, "to": target}
    record(f"node.{target}", actor="platform", node_id=node.pk, data=data)
    if target is NodeHealth.DOWN:
        mail_operators(subject=f"Node {node.name} is down", body=f"The agent of {node.name} no longer answers.")
    wake_pool(node.pool_id)
    return True


def tick(name: str) -> datetime:
    """Note that this part of the platform works, and return since when it has done so without a gap."""
    since: datetime
    ((since,),) = _TICK.rows(name, MAX_SILENCE_S)
    return since


def answering_since(now: datetime) -> datetime:
    """Since when agents could have been heard: `now` itself while the web process is out."""
    return max(tick("reaper"), _works_since("web", now))


def _works_since(part: str, now: datetime) -> datetime:
    """Since when the part of the platform works without a gap: `now` itself while it is out."""
    row = Tick.objects.filter(name=part, at__gte=now - timedelta(seconds=MAX_SILENCE_S)).first()
    return now if row is None else row.answering_since


def judge_nodes(pool: Pool) -> list[Node]:
    """Move nodes that are silent to suspect and down, and return those that are down.

    Only time in which the platform itself was answering counts, and `fleet.hold` may keep them.
    """
    now = database_now()
    since = answering_since(now)
    linked_since = max(since, _works_since("links", now))
    nodes = list(
        Node.objects.filter(pool=pool).exclude(health=NodeHealth.PENDING).select_related("lease").order_by("pk")
    )
    over_ssh = set(Node.objects.filter(pool=pool, server__isnull=False).values_list("pk", flat=True))
    silent_s = {node.pk: (now - max(node.lease.seen_at, since)).total_seconds() for node in nodes}
    # No job is placed on a silent node, whatever the cause; a node is given up only if its link was up meanwhile.
    unheard_s = {
        pk: min(for_s, (now - linked_since).total_seconds()) if pk in over_ssh else for_s
        for pk, for_s in silent_s.items()
    }
    suspects = [n for n in nodes if n.health == NodeHealth.READY and silent_s[n.pk] > pool.suspect_after_s]
    lost = [
        node
        for node in nodes
        if node.health in {NodeHealth.READY, NodeHealth.SUSPECT} and unheard_s[node.pk] > pool.unreachable_after_s
    ]
    held = held_back(pool, nodes, lost, unheard_s=unheard_s, now=now)
    for node in suspects:
        _move_under_lock(node, NodeHealth.SUSPECT)
    for node in lost:
        if node.pk not in held:
            _move_under_lock(node, NodeHealth.DOWN)
    return [node for node in nodes if node.health == NodeHealth.DOWN]


def _move_under_lock(node: Node, target: NodeHealth) -> None:
    with transaction.atomic():
        row = Node.objects.select_for_update(no_key=True).get(pk=node.pk)
        if not NodeLease.objects.filter(pk=node.pk, seen_at=node.lease.seen_at).exists():
            return  # it has been heard while it was judged
        if row.health == NodeHealth.READY and target is NodeHealth.DOWN:
            set_health(row, NodeHealth.SUSPECT)
        if row.health in {NodeHealth.READY, NodeHealth.SUSPECT}:
            set_health(row, target)
        if target is NodeHealth.DOWN:
            NodeLease.objects.filter(pk=node.pk, seen_at=node.lease.seen_at).update(state=LeaseState.EXPIRED)
        node.health = row.health


def _node_of(secret: str, credential: str) -> Node:
    """The node of a credential or a join token, locked; a join token is used up by it."""
    if len(credential) < 32:
        raise Unauthorized("the agent's credential must have at least 32 characters")
    locked = Node.objects.select_for_update(no_key=True, of=("self",)).select_related("pool")
    node = locked.filter(credential_digest=digest(secret)).first()
    if node is not None:
        if secret != credential:
            raise Unauthorized("the credential in the body is not the one in the header")
        return node
    node = locked.filter(join_digest=digest(secret)).first()
    if node is None:
        raise Unauthorized("the join token is not one of ours, or was replaced by a newer one")
    if node.join_expires_at is None:
        if node.credential_digest != digest(credential):
            raise Unauthorized("the join token has been used; an operator can make a new one")
        return node
    if node.join_expires_at <= database_now():
        raise Unauthorized("the join token has expired; an operator can make a new one")
    Node.objects.filter(pk=node.pk).update(credential_digest=digest(credential), join_expires_at=None)
    return node
