"""The world of a pool as one decision sees it, read from Postgres in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import connection, transaction
from django.db.models import Q

from muster.common.clock import database_now
from muster.fleet.models import Gpu, Node, Pool
from muster.jobs.models import Allocation, Attempt, Job
from muster.tenants.models import Quota, VirtualCluster
from scheduler import model
from scheduler.lifecycle import (
    ATTEMPT_LIVE,
    AllocationState,
    AttemptState,
    Desired,
    JobClass,
    JobState,
    NodeAdmin,
    NodeHealth,
)

_JOB_FIELDS = (
    "id",
    "tenant_id",
    "vc_id",
    "owner_id",
    "priority",
    "klass",
    "gpu_type",
    "gpus",
    "nodes",
    "cpus",
    "memory_mib",
    "submitted_at",
    "eligible_at",
    "time_limit_s",
    "attained_gpu_s",
    "avoid_nodes",
)
_ATTEMPT_FIELDS = (
    "attempt__job_id",
    "attempt__job__vc_id",
    "attempt__job__klass",
    "attempt__state",
    "attempt__placed_at",
)


@contextmanager
def one_moment() -> Iterator[None]:
    """A transaction in which every query sees the same moment; nothing can be written in it."""
    with transaction.atomic():
        # Inside a test's or a caller's transaction the level cannot be changed any more; there, nothing else runs.
        if not connection.in_atomic_block or len(connection.savepoint_ids) == 0:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def pool_snapshot(pool: Pool, *, seed: int) -> model.Snapshot:
    """The pool as it is now: every node, every waiting job, every live attempt."""
    with one_moment():
        waiting = Job.objects.filter(pool=pool, state=JobState.QUEUED, desired=Desired.RUN)
        tenants, vcs = _virtual_clusters(Q(pool=pool))
        return model.Snapshot(
            now=database_now().timestamp(),
            seed=seed,
            pool_id=pool.pk,
            nodes=_nodes(Node.objects.filter(pool=pool).exclude(admin=NodeAdmin.RETIRED)),
            waiting=_waiting(waiting.order_by("pk").values(*_JOB_FIELDS)),
            running=_running(Q(job__pool=pool)),
            tenants=tenants,
            vcs=vcs,
        )


def locked_snapshot(pool: Pool, vc: VirtualCluster, job: Job, nodes: list[Node], *, now: datetime) -> model.Snapshot:
    """A small snapshot for the law: one job, the nodes its gang would use, and whoever holds anything that counts.

    What counts: every live attempt on these nodes, and every live attempt of the job's virtual cluster. The virtual
    cluster, the job and the nodes are rows that the caller has locked.
    """
    node_ids = {node.pk for node in nodes}
    running = _running(Q(allocations__node__in=node_ids) | Q(job__vc_id=vc.pk))
    # A virtual cluster's GPUs may lie on other nodes: the guard counts them by type, so their nodes come along.
    others = {share.node_id for attempt in running for share in attempt.allocations} - node_ids
    held_elsewhere = list(Node.objects.filter(pk__in=others)) if others else []
    tenants, vcs = _with_quotas([vc])
    return model.Snapshot(
        now=now.timestamp(),
        seed=0,
        pool_id=pool.pk,
        nodes=_nodes([*nodes, *held_elsewhere]),
        waiting=(job_view(job, job_id=job.pk),),
        running=running,
        tenants=tenants,
        vcs=vcs,
    )


def job_view(job: Job, *, job_id: int) -> model.Job:
    """A job that is not stored yet, as a decision would see it."""
    values = {name: getattr(job, name) for name in _JOB_FIELDS}
    return _job(values | {"id": job_id})


def _nodes(nodes: Iterable[Node]) -> tuple[model.Node, ...]:
    rows = sorted(nodes, key=lambda node: node.pk)
    gpus: defaultdict[int, list[model.Gpu]] = defaultdict(list)
    fields = ("id", "node_id", "index", "uuid", "type", "memory_mib", "healthy")
    query = Gpu.objects.filter(node__in=[node.pk for node in rows], present=True).order_by("pk")
    for values in query.values_list(*fields):
        gpu = model.Gpu(*values)
        gpus[gpu.node_id].append(gpu)
    return tuple(
        model.Node(
            id=node.pk,
            name=node.name,
            rack=node.rack,
            cpus=node.cpus,
            memory_mib=node.memory_mib,
            version=node.version,
            schedulable=node.admin == NodeAdmin.ACTIVE and node.health == NodeHealth.READY,
            why_not=_why_not(node),
            gpus=tuple(gpus[node.pk]),
        )
        for node in rows
    )


def _why_not(node: Node) -> str:
    if node.admin != NodeAdmin.ACTIVE:
        return f"{node.admin}: {node.reason}"
    return "" if node.health == NodeHealth.READY else str(node.health)


def _virtual_clusters(which: Q) -> tuple[tuple[model.Tenant, ...], tuple[model.VirtualCluster, ...]]:
    return _with_quotas(list(VirtualCluster.objects.filter(which).select_related("tenant").order_by("pk")))


def _with_quotas(
    rows: list[VirtualCluster],
) -> tuple[tuple[model.Tenant, ...], tuple[model.VirtualCluster, ...]]:
    quotas: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for vc_id, gpu_type, gpus in (
        Quota.objects.filter(vc__in=[row.pk for row in rows])
        .order_by("vc_id", "gpu_type")
        .values_list("vc_id", "gpu_type", "gpus")
    ):
        quotas[vc_id][gpu_type] = gpus
    tenants = {row.tenant_id: row.tenant for row in rows}
    return (
        tuple(model.Tenant(pk, tenants[pk].name, tenants[pk].weight) for pk in sorted(tenants)),
        tuple(model.VirtualCluster(row.pk, row.tenant_id, row.name, quotas[row.pk]) for row in rows),
    )


def _waiting(rows: Iterable[dict[str, object]]) -> tuple[model.Job, ...]:
    return tuple(_job(row) for row in rows)


def _job(values: dict[str, object]) -> model.Job:
    row: dict[str, object] = dict(values)
    submitted_at, eligible_at, avoid = row["submitted_at"], row["eligible_at"], row["avoid_nodes"]
    row["submitted_at"] = submitted_at.timestamp() if isinstance(submitted_at, datetime) else 0.0
    row["eligible_at"] = eligible_at.timestamp() if isinstance(eligible_at, datetime) else 0.0
    row["avoid_nodes"] = tuple(avoid) if isinstance(avoid, list) else ()
    row["gpu_type"] = row["gpu_type"] or None
    row["klass"] = JobClass(str(row["klass"]))
    # A queued job has no live attempt: its state changes only when the last allocation has been released.
    return model.Job(**row, preemptible=row["klass"] is JobClass.OPPORTUNISTIC, still_stopping=False)  # type: ignore[arg-type]


def _running(which: Q) -> tuple[model.Running, ...]:
    """The live attempts that the condition finds, each with everything it still holds, in one query."""
    rows = (
        Allocation.objects.filter(
            attempt__in=Attempt.objects.filter(which, state__in=ATTEMPT_LIVE).order_by().values("pk")
        )
        .exclude(state=AllocationState.RELEASED)
        .order_by("attempt_id", "rank")
        .annotate(
            gpu_ids=ArrayAgg(
                "claims__gpu_id", filter=Q(claims__released_at=None), order_by="claims__gpu_id", default=[]
            )
        )
        .values_list("attempt_id", "node_id", "rank", "gpu_ids", "cpus", "memory_mib", *_ATTEMPT_FIELDS)
    )
    running: list[model.Running] = []
    for attempt_id, group in groupby(rows, key=itemgetter(0)):
        shares = list(group)
        job_id, vc_id, klass, state, placed_at = shares[0][6:]
        running.append(
            model.Running(
                attempt_id=attempt_id,
                job_id=job_id,
                vc_id=vc_id,
                klass=JobClass(klass),
                state=AttemptState(state),
                allocations=tuple(
                    model.AllocationView(node_id, rank, tuple(gpu for gpu in gpu_ids if gpu), cpus, memory_mib)
                    for _, node_id, rank, gpu_ids, cpus, memory_mib, *_ in shares
                ),
                placed_at=placed_at.timestamp(),
            )
        )
    return tuple(running)
