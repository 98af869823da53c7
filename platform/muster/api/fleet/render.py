"""Pools, nodes, GPUs and virtual clusters as JSON, each list in a constant number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Count, F, Q, QuerySet, Sum

from muster.accounts.models import User
from muster.common.clock import moment, utc_now
from muster.fleet import models
from muster.fleet.maintenance import planned_of
from muster.fleet.models import NodeDisk
from muster.fleet.networks import host_network_reason
from muster.fleet.package import install_commands
from muster.fleet.runtimes import AGENT_IN, NO_CONTAINERS
from muster.fleet.strikes import strikes_of
from muster.jobs.models import Allocation, GpuClaim, Job
from muster.tenants.selectors import tenants_of
from muster_client.answers.fleet import (
    Gpu,
    GpuCheck,
    GpuJob,
    HealthReport,
    Maintenance,
    Node,
    NodeDetail,
    NodeJob,
    NodeLink,
    NodeStrike,
    Pool,
    PoolGpus,
)
from scheduler.model.lifecycle import ATTEMPT_LIVE, AllocationState, AttemptState, NodeAdmin, NodeHealth

_STRIKES_SHOWN, _REPORTS_SHOWN = 20, 20
_GPU_COLUMNS = (
    "id",
    "uuid",
    "index",
    "type",
    "memory_mib",
    "numa_node",
    "healthy",
    "health",
    "health_at",
    "health_why",
    "node_id",
    "node__name",
    "reading__utilization",
    "reading__memory_used_mib",
    "reading__temperature_c",
    "reading__power_w",
)


def gpu_list(user: User, gpus: QuerySet[models.Gpu]) -> list[Gpu]:
    """The GPUs by node and index. Of a job that the user may not see, only that it is there is told."""
    return [document for _, document in _gpus(user, gpus)]


def _gpus(user: User, gpus: QuerySet[models.Gpu]) -> Iterable[tuple[int, Gpu]]:
    rows = list(gpus.filter(present=True).order_by("node__name", "index").values_list(*_GPU_COLUMNS))
    holders = _holders(user, [row[0] for row in rows])
    for row in rows:
        pk, uuid, index, kind, memory, numa, healthy, health, since, why, node_id, node, *reading = row
        utilization, used, temperature, power = reading
        yield (
            node_id,
            {
                "uuid": uuid,
                "index": index,
                "node": node,
                "type": kind,
                "memory_mib": memory,
                "numa_node": numa,
                "healthy": healthy,
                "health": health,
                "health_since": moment(since),
                "health_why": why or None,
                "utilization": utilization,
                "memory_used_mib": used,
                "temperature_c": temperature,
                "power_w": power,
                "jobs": holders.get(pk, []),
                "busy": pk in holders,
            },
        )


def _holders(user: User, gpu_ids: list[int]) -> dict[int, list[GpuJob]]:
    """The jobs on each held GPU that the user may see, oldest claim first."""
    mine = None if user.is_operator else set(tenants_of(user).values_list("pk", flat=True))
    claims = (
        GpuClaim.objects.filter(released_at__isnull=True, gpu_id__in=gpu_ids)
        .order_by("pk")
        .values_list(
            "gpu_id",
            "allocation__attempt__job_id",
            "allocation__attempt__job__name",
            "allocation__attempt__job__owner__username",
            "allocation__attempt__job__tenant__name",
            "allocation__attempt__job__tenant_id",
        )
    )
    holders: dict[int, list[GpuJob]] = {}
    for gpu_id, job_id, name, owner, tenant, tenant_id in claims:
        seen = holders.setdefault(gpu_id, [])
        if mine is None or tenant_id in mine:
            seen.append({"id": job_id, "name": name, "owner": owner, "tenant": tenant})
    return holders


def node_list(user: User, nodes: QuerySet[models.Node]) -> list[Node]:
    """The nodes by name with their GPUs; six queries for all of them."""
    rows = list(
        nodes.select_related("pool", "lease", "server")
        .defer("inventory", "links")
        .annotate(runtimes=F("inventory__runtimes"))
        .order_by("name")
    )
    held = (
        Allocation.objects.filter(node__in=rows)
        .exclude(state=AllocationState.RELEASED)
        .values_list("node_id")
        .annotate(cpus=Sum("cpus"), memory_mib=Sum("memory_mib"))
    )
    used = {node_id: (cpus, memory_mib) for node_id, cpus, memory_mib in held}
    gpus: dict[int, list[Gpu]] = defaultdict(list)
    for node_id, document in _gpus(user, models.Gpu.objects.filter(node__in=rows)):
        gpus[node_id].append(document)
    strikes = strikes_of([node.pk for node in rows], now=utc_now())
    return [_node(user, node, used.get(node.pk, (0, 0)), strikes.get(node.pk, 0.0), gpus[node.pk]) for node in rows]


def node_document(user: User, node: models.Node) -> NodeDetail:
    """The node with its GPUs, their links, and what it was last blamed for."""
    (row,) = node_list(user, models.Node.objects.filter(pk=node.pk))
    left = NodeDisk.objects.filter(pk=node.pk).first()
    return {
        **row,
        "driver_version": node.inventory.get("driver_version") or None,
        "toolkit_version": node.inventory.get("toolkit_version") or None,
        "disk_mib": left.size_mib if left else None,
        "disk_free_mib": left.free_mib if left else None,
        "running_jobs": _running_jobs(user, node),
        "last_strikes": _last_strikes(user, node),
        "health_reports": _health_reports(user, node),
        "gpu_checks": _gpu_checks(user, node),
        "install": install_commands() if user.is_operator and row["agent_in_container"] else None,
        "links": node.links,
        "maintenance": [maintenance(one) for one in planned_of(node)],
    }


def maintenance(row: models.Maintenance) -> Maintenance:
    """A maintenance that is planned or under way."""
    return {
        "id": row.pk,
        "pool": row.pool.name,
        "node": row.node.name if row.node else None,
        "begins_at": moment(row.begins_at),
        "ends_at": moment(row.ends_at),
        "running_jobs": row.running_jobs,
        "reason": row.reason,
        "begun_at": moment(row.begun_at),
        "created_by": row.created_by,
    }


def _running_jobs(user: User, node: models.Node) -> list[NodeJob]:
    """The jobs with a live attempt on the node that is not being stopped yet, as far as the user may see them."""
    held = (
        Allocation.objects.filter(node=node, attempt__state__in=ATTEMPT_LIVE)
        .exclude(attempt__state=AttemptState.STOPPING)
        .exclude(state=AllocationState.RELEASED)
    )
    jobs = Job.objects.filter(pk__in=held.values("attempt__job_id")).select_related("owner", "tenant").order_by("pk")
    if not user.is_operator:
        jobs = jobs.filter(tenant__in=tenants_of(user))
    return [
        {
            "id": job.pk,
            "name": job.name,
            "owner": job.owner.username,
            "tenant": job.tenant.name,
            "gpus": job.gpus * job.nodes,
            "nodes": job.nodes,
            "preemptible": job.preemptible,
        }
        for job in jobs
    ]


def _last_strikes(user: User, node: models.Node) -> list[NodeStrike]:
    """The newest strikes. Of a job that the user may not see, neither its number nor its agent's words are told."""
    rows = list(node.strikes.select_related("gpu").order_by("-at", "-pk")[:_STRIKES_SHOWN])
    jobs = Job.objects.filter(pk__in={row.job_id for row in rows})
    if not user.is_operator:
        jobs = jobs.filter(tenant__in=tenants_of(user))
    seen = set(jobs.values_list("pk", flat=True))
    return [
        {
            "at": moment(row.at),
            "reason": row.reason,
            "gpu": row.gpu.index if row.gpu else None,
            "job": row.job_id if row.job_id in seen else None,
            "detail": row.detail if row.job_id in seen else None,
            "forgiven_at": moment(row.forgiven_at),
        }
        for row in rows
    ]


def _health_reports(user: User, node: models.Node) -> list[HealthReport]:
    """The latest reports about the node and its GPUs. The agent's words may name processes, so operators have them."""
    rows = node.health_reports.select_related("gpu").order_by("-last_at", "-pk")[:_REPORTS_SHOWN]
    return [
        {
            "at": moment(row.at),
            "last_at": moment(row.last_at),
            "count": row.count,
            "gpu": row.gpu.index if row.gpu else None,
            "kind": row.kind,
            "xid": row.xid,
            "level": row.level,
            "action": row.action,
            "words": row.words,
            "detail": row.detail if user.is_operator else None,
            "over_at": moment(row.over_at),
        }
        for row in rows
    ]


def _gpu_checks(user: User, node: models.Node) -> list[GpuCheck]:
    """The newest check of each GPU that was ever checked, or is to be now."""
    rows = (
        models.GpuCheck.objects.filter(gpu__node=node, gpu__present=True).select_related("gpu").order_by("gpu__index")
    )
    return [
        {
            "gpu": row.gpu.index,
            "wanted": row.asked_at is not None,
            "at": moment(row.at),
            "result": row.result or None,
            "how": row.how,
            "detail": row.detail if user.is_operator else None,
            "duration_s": row.duration_s,
            "tflops": row.tflops,
            "gb_s": row.gb_s,
            "streak": row.streak,
        }
        for row in rows
        if row.at is not None or row.asked_at is not None
    ]


def _node(user: User, node: models.Node, used: tuple[int, int], strikes: float, gpus: list[Gpu]) -> Node:
    lease = getattr(node, "lease", None)
    return {
        "name": node.name,
        "pool": node.pool.name,
        "admin": node.admin,
        "health": node.health,
        "reason": node.reason or None,
        "runtimes": getattr(node, "runtimes", None) or [],
        "no_containers": node.labels.get(NO_CONTAINERS) or None,
        "agent_in_container": bool(node.labels.get(AGENT_IN)),
        "barred": node.barred or None,
        "single_user": node.single_user,
        "single_user_shared": node.single_user_shared,
        "host_network": host_network_reason(node) or None,
        "address": node.address,
        "cpus": node.cpus,
        "cpus_used": used[0],
        "memory_mib": node.memory_mib,
        "memory_used_mib": used[1],
        "rack": node.rack,
        "labels": {str(key): str(value) for key, value in node.labels.items() if key != NO_CONTAINERS},
        # A node that no agent has joined yet was never seen; its lease row is older than that.
        "last_seen_at": moment(lease.seen_at) if lease and node.health != NodeHealth.PENDING else None,
        "link": _link(user, node),
        "strikes": strikes,
        "gpus": gpus,
    }


def _link(user: User, node: models.Node) -> NodeLink | None:
    server = getattr(node, "server", None)
    if server is None:
        return None
    reason = server.reason if user.is_operator else None
    return {"state": server.state, "reason": reason, "since": moment(server.since)}


def pool_list(pools: QuerySet[models.Pool]) -> list[Pool]:
    """The pools by name with their GPUs by type; four queries for all of them."""
    nodes = dict(
        models.Node.objects.exclude(admin=NodeAdmin.RETIRED)
        .values_list("pool_id")
        .annotate(count=Count("id"))
        .order_by()
    )
    usable = Q(healthy=True, node__admin=NodeAdmin.ACTIVE, node__health=NodeHealth.READY, node__barred="")
    held = Q(pk__in=GpuClaim.objects.filter(released_at__isnull=True).values("gpu_id"))
    counted = (
        models.Gpu.objects.filter(present=True)
        .exclude(node__admin=NodeAdmin.RETIRED)
        .values_list("node__pool_id", "type")
        .annotate(total=Count("id"), used=Count("id", filter=held), free=Count("id", filter=usable & ~held))
        .order_by("type")
    )
    gpus: dict[int, list[PoolGpus]] = defaultdict(list)
    for pool_id, kind, total, used, free in counted:
        gpus[pool_id].append({"type": kind, "total": total, "used": used, "free": free})
    return [
        {
            "name": pool.name,
            "policy": pool.policy,
            "placement": pool.placement,
            "admission": pool.admission,
            "nodes": nodes.get(pool.pk, 0),
            "gpus": gpus[pool.pk],
        }
        for pool in pools.order_by("name")
    ]
