"""The world of a pool as one decision sees it, read from Postgres in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import groupby
from operator import itemgetter

from django.db import connection, transaction
from django.db.models import Q

from muster.common.clock import database_now
from muster.fleet.models import Gpu, Node, Pool
from muster.jobs.models import Job
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
# Every placement asks this, and to put it together by Django took several times as long as the answer.
_RUNNING = """
SELECT attempt.id, allocation.node_id, allocation.rank,
       coalesce(array_agg(claim.gpu_id ORDER BY claim.gpu_id) FILTER (WHERE claim.id IS NOT NULL), ARRAY[]::bigint[]),
       allocation.cpus, allocation.memory_mib, attempt.state, attempt.placed_at, {job_fields}
FROM jobs_attempt attempt
JOIN jobs_job job ON job.id = attempt.job_id
JOIN jobs_allocation allocation ON allocation.attempt_id = attempt.id
LEFT JOIN jobs_gpuclaim claim ON claim.allocation_id = allocation.id AND claim.released_at IS NULL
WHERE attempt.state = ANY(%s) AND allocation.state <> %s AND ({which})
GROUP BY attempt.id, allocation.id, job.id
ORDER BY attempt.id, allocation.rank
"""
_SELECTED = ", ".join(f"job.{name}" for name in _JOB_FIELDS)
_IN_POOL = "job.pool_id = %s"
_ON_NODES_OR_IN_VC = (
    "job.vc_id = %s OR attempt.id IN (SELECT attempt_id FROM jobs_allocation WHERE node_id = ANY(%s) AND state <> %s)"
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
            running=_running(_IN_POOL, pool.pk),
            tenants=tenants,
            vcs=vcs,
        )


def locked_snapshot(pool: Pool, vc: VirtualCluster, job: Job, nodes: list[Node], *, now: datetime) -> model.Snapshot:
    """A small snapshot for the law: one job, the nodes its gang would use, and whoever holds anything that counts.

    What counts: every live attempt on these nodes, and every live attempt of the job's virtual cluster. The virtual
    cluster, the job and the nodes are rows that the caller has locked.
    """
    node_ids = {node.pk for node in nodes}
    running = _running(_ON_NODES_OR_IN_VC, vc.pk, sorted(node_ids), AllocationState.RELEASED.value)
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


def _running(which: str, *params: int | str | list[int]) -> tuple[model.Running, ...]:
    """The live attempts that the condition finds, each with everything it still holds, in one query."""
    live = [state.value for state in sorted(ATTEMPT_LIVE)]
    with connection.cursor() as cursor:
        cursor.execute(
            _RUNNING.format(which=which, job_fields=_SELECTED), [live, AllocationState.RELEASED.value, *params]
        )
        rows = cursor.fetchall()
    running: list[model.Running] = []
    for attempt_id, group in groupby(rows, key=itemgetter(0)):
        shares = list(group)
        state, placed_at, *job = shares[0][6:]
        running.append(
            model.Running(
                attempt_id=attempt_id,
                job=_job(dict(zip(_JOB_FIELDS, job, strict=True))),
                state=AttemptState(state),
                allocations=tuple(
                    model.AllocationView(node_id, rank, tuple(gpu_ids), cpus, memory_mib)
                    for _, node_id, rank, gpu_ids, cpus, memory_mib, *_ in shares
                ),
                placed_at=placed_at.timestamp(),
            )
        )
    return tuple(running)
