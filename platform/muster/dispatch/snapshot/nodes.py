"""The nodes of a snapshot: what their rows and those of their GPUs say, and what else concerns them at the moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from django.db.models import F, QuerySet

from muster.common.statements import Statement
from muster.dispatch.restore_pause import placement_pause
from muster.dispatch.snapshot.kept import KeptRows
from muster.dispatch.snapshot.parts import Parts
from muster.fleet.health import WARNING_STRIKES
from muster.fleet.maintenance import ClosingTime, closing_of
from muster.fleet.models import Node, Pool
from muster.fleet.runtimes import forms_of
from muster.tenants.models import VirtualCluster
from scheduler import model
from scheduler.diagnosis.health import HealthLevel
from scheduler.model.lifecycle import NodeAdmin, NodeHealth

# Validation ignores strikes: they make a placement prefer other nodes, but they do not refuse one.
NO_STRIKES: Mapping[int, float] = MappingProxyType({})

_GPUS = Statement("""
SELECT id, node_id, index, uuid, type, memory_mib, healthy, health = %s
FROM fleet_gpu WHERE node_id = ANY(%s) AND present ORDER BY id
""")
# A node has another version when its row or that of one of its GPUs has.
_VERSIONS = Statement("""
SELECT pg_postmaster_start_time(), string_agg(node.id || ',' || node.xmin || node.ctid || gpus.versions, ' ')
FROM fleet_node node
CROSS JOIN LATERAL (
    SELECT coalesce(string_agg(gpu.xmin || gpu.ctid::text, '' ORDER BY gpu.id), '') AS versions
    FROM fleet_gpu gpu WHERE gpu.node_id = node.id AND gpu.present
) gpus
WHERE node.pool_id = %s AND node.admin <> %s
""")


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node with its GPUs as their rows say; `view` is how a decision sees it when nothing else concerns it."""

    row: Node
    view: model.Node


_kept = KeptRows[StoredNode]()


def nodes_of(pool: Pool) -> QuerySet[Node]:
    """The nodes of the pool that are not retired, with what their inventories say of runtimes and volumes."""
    rows = Node.objects.filter(pool=pool).exclude(admin=NodeAdmin.RETIRED).defer("inventory")
    return rows.annotate(runtimes=F("inventory__runtimes"), mount_roots=F("inventory__mount_roots"))


def stored_nodes(rows: Iterable[Node]) -> list[StoredNode]:
    """The nodes with their GPUs, by id."""
    nodes = sorted(rows, key=lambda node: node.pk)
    gpus: defaultdict[int, list[model.Gpu]] = defaultdict(list)
    for values in _GPUS.rows(HealthLevel.WARNING.value, [node.pk for node in nodes]):
        gpu = model.Gpu(*values)
        gpus[gpu.node_id].append(gpu)
    return [StoredNode(node, _view(node, tuple(gpus[node.pk]))) for node in nodes]


def kept_nodes(pool: Pool) -> list[StoredNode]:
    """As `stored_nodes` of `nodes_of` the pool; only nodes that have changed are read anew."""

    def read(unread: Mapping[int, str]) -> dict[str, StoredNode]:
        return {unread[node.row.pk]: node for node in stored_nodes(nodes_of(pool).filter(pk__in=unread))}

    nodes = _kept.read(pool.pk, lambda: _VERSIONS.rows(pool.pk, NodeAdmin.RETIRED.value)[0], read)
    return sorted(nodes, key=lambda node: node.row.pk)


def views_of(
    nodes: Sequence[StoredNode], parts: Parts, strikes: Mapping[int, float] = NO_STRIKES
) -> tuple[model.Node, ...]:
    """The nodes as a decision sees them at the moment: with their strikes, maintenance and a pause of placement."""
    rows = [node.row for node in nodes]
    closing = closing_of(rows) if parts.maintenance else {}
    only_tenants, pause = _only_tenants(rows), placement_pause() if parts.paused else ""
    found = []
    for node in nodes:
        row, view = node.row, node.view
        changes: dict[str, Any] = {}
        if pause:
            changes |= {"schedulable": False, "unschedulable_reason": pause}
        if row.pk in strikes:
            changes["strikes"] = strikes[row.pk] + view.strikes
        if row.pk in closing:
            changes |= _closing(row, closing[row.pk])
        if view.single_user and view.tenant_id is None:
            changes["tenant_id"] = only_tenants.get(row.pool_id)
        found.append(replace(view, **changes) if changes else view)
    return tuple(found)


def _view(node: Node, gpus: tuple[model.Gpu, ...]) -> model.Node:
    why_not, of_one_tenant = _why_not(node), _is_of_one_tenant(node)
    return model.Node(
        id=node.pk,
        name=node.name,
        rack=node.rack,
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        version=node.version,
        schedulable=not why_not,
        unschedulable_reason=why_not,
        gpus=gpus,
        links=tuple(map(tuple, node.links)),
        strikes=WARNING_STRIKES * any(gpu.warned for gpu in gpus),
        single_user=of_one_tenant,
        tenant_id=node.single_user_tenant_id if of_one_tenant else None,
        labels={str(name): str(value) for name, value in node.labels.items()},
        runtimes=forms_of(
            _said(node, "runtimes"), str(node.labels.get("default-image", "")), _said(node, "mount_roots")
        ),
    )


def _closing(node: Node, closing: ClosingTime) -> dict[str, Any]:
    found: dict[str, Any] = {"drains": closing.moves_jobs_off, "maintenance_reason": closing.reason}
    if closing.at is not None:
        found["maintenance_starts_at"] = closing.at.timestamp()
    # A node that is switched off for maintenance comes back when that ends. For a node that is out of service for
    # another reason, or whose agent is barred, the time is unknown.
    if closing.until is not None and not node.barred and (closing.at is None or not _why_not(node)):
        found["maintenance_ends_at"] = closing.until.timestamp()
    return found


def _is_of_one_tenant(node: Node) -> bool:
    return node.single_user and not node.single_user_shared


def _only_tenants(nodes: Iterable[Node]) -> dict[int, int]:
    """For pools with a single-user node that has no tenant: the pool's tenant, if there is exactly one."""
    pools = {node.pool_id for node in nodes if _is_of_one_tenant(node) and node.single_user_tenant_id is None}
    tenants: defaultdict[int, set[int]] = defaultdict(set)
    if pools:
        for pool_id, tenant_id in VirtualCluster.objects.filter(pool__in=pools).values_list("pool_id", "tenant_id"):
            tenants[pool_id].add(tenant_id)
    return {pool_id: min(found) for pool_id, found in tenants.items() if len(found) == 1}


def _said(node: Node, what: str) -> Collection[str]:
    """One key of the agent's inventory; read by itself where the whole inventory is deferred."""
    return (getattr(node, what) if hasattr(node, what) else node.inventory.get(what)) or ()


def _why_not(node: Node) -> str:
    if node.admin != NodeAdmin.ACTIVE:
        return f"{node.admin}: {node.reason}"
    if node.must_report:
        return "its agent has not reported since the restore"
    return node.barred if node.health == NodeHealth.READY else str(node.health)
