"""Carrying a plan out: one transaction a gang, checked again under lock by the same law.

A plan is a wish. A refusal is a normal result: it is counted, and the job is looked at again in the next cycle.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from django.db import IntegrityError, OperationalError, transaction
from psycopg2.errors import DeadlockDetected, ExclusionViolation, UniqueViolation
from psycopg2.extras import NumericRange

from muster.common.clock import database_now
from muster.common.rows import first_of
from muster.dispatch.snapshot import locked_snapshot
from muster.events.services import record, recorded_together, wake_node
from muster.fleet.models import Node, Pool
from muster.jobs.models import SLOTS_PER_GPU, Allocation, Attempt, GpuClaim, Job
from muster.jobs.transitions import move_job
from muster.tenants.models import VirtualCluster
from scheduler.cycle import CycleConfig, compose
from scheduler.law import check
from scheduler.lifecycle import ATTEMPT_LIVE, Desired, JobState
from scheduler.plan import Place, Plan

log = logging.getLogger(__name__)

# Below the range from which kernels hand out ports by themselves.
FIRST_PORT, LAST_PORT = 20_000, 29_999


@dataclass(frozen=True, slots=True)
class Refusal:
    """A place that was not carried out, and why."""

    job_id: int
    reason: str


class _Refused(Exception):
    pass


def apply_place(pool: Pool, place: Place, config: CycleConfig, versions: dict[int, int]) -> Refusal | None:
    """Give the gang its GPUs, or say why not.

    `versions` are the node versions of the plan's snapshot: a node that changed since refuses the place. Locks are
    taken in the documented order: virtual cluster, job, nodes by id; the claims lock themselves by their index.
    """
    try:
        with transaction.atomic(), recorded_together():
            _apply(pool, place, config, versions)
    except _Refused as refusal:
        return Refusal(place.job_id, str(refusal))
    except (IntegrityError, OperationalError) as error:
        # Another cycle was faster: the index refused the second claim of a slot, attempt or port.
        if isinstance(error.__cause__, ExclusionViolation | UniqueViolation | DeadlockDetected):
            constraint = getattr(error.__cause__.diag, "constraint_name", None) or "deadlock"
            return Refusal(place.job_id, f"lost a race: {constraint}")
        raise
    return None


def apply_plan(pool: Pool, plan: Plan, config: CycleConfig, versions: dict[int, int]) -> list[Refusal]:
    """Carry out every place of the plan and return those that were refused."""
    refusals = []
    for place in plan.places:
        refusal = apply_place(pool, place, config, versions)
        if refusal:
            log.info("place_refused job=%s reason=%s", refusal.job_id, refusal.reason)
            refusals.append(refusal)
    return refusals


def _apply(pool: Pool, place: Place, config: CycleConfig, versions: dict[int, int]) -> None:
    # The lock on the virtual cluster makes two cycles that both see the last of a quota take turns.
    vc = first_of(
        VirtualCluster.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .filter(jobs=place.job_id)
    )
    if vc is None:
        raise _Refused("the job is gone")
    job = Job.objects.select_for_update(no_key=True).get(pk=place.job_id)
    if job.state != JobState.QUEUED or job.desired != Desired.RUN:
        raise _Refused(f"the job is {job.state}, and its owner wants it to {job.desired}")
    node_ids = sorted(share.node_id for share in place.allocations)
    nodes = list(Node.objects.select_for_update(no_key=True).filter(pk__in=node_ids).order_by("pk"))
    stale = [node.name for node in nodes if node.version != versions.get(node.pk)]
    if stale or len(nodes) != len(set(node_ids)):
        raise _Refused(f"changed since the snapshot: {', '.join(stale) or 'a node'}")
    snapshot = locked_snapshot(pool, vc, job, nodes, now=database_now())
    violations = check(snapshot, Plan(places=(place,), holds=()), compose(config).guard)
    if violations:
        raise _Refused(violations[0].message)
    _insert(pool, job, place, {node.pk: node for node in nodes})


def _insert(pool: Pool, job: Job, place: Place, nodes: dict[int, Node]) -> None:
    number = job.attempt_count + 1
    shares = sorted(place.allocations, key=lambda share: share.rank)
    first = nodes[shares[0].node_id]
    address = first.address or first.name
    attempt = Attempt.objects.create(
        job=job,
        number=number,
        stage=job.stage,
        master_addr=address,
        master_port=_free_port(address, job.pk),
        stop_after_s=pool.stop_after_s,
    )
    allocations = Allocation.objects.bulk_create(
        [
            Allocation(
                attempt=attempt, node_id=share.node_id, rank=share.rank, cpus=share.cpus, memory_mib=share.memory_mib
            )
            for share in shares
        ]
    )
    GpuClaim.objects.bulk_create(
        [
            GpuClaim(
                allocation=allocation,
                gpu_id=gpu_id,
                span=NumericRange(gpu_id * SLOTS_PER_GPU, (gpu_id + 1) * SLOTS_PER_GPU, "[)"),
            )
            for allocation, share in zip(allocations, shares, strict=True)
            for gpu_id in share.gpu_ids
        ]
    )
    data = {"attempt": number, "nodes": [nodes[share.node_id].name for share in shares]}
    move_job(job, JobState.ACTIVE, actor="scheduler", data=data, attempt_count=number)
    record("attempt.placed", actor="scheduler", tenant_id=job.tenant_id, job_id=job.pk, data=data | {"state": "placed"})
    for share in shares:
        wake_node(share.node_id)


def _free_port(address: str, job_id: int) -> int:
    """A port that no live attempt at the address has; the search starts at a place of the job's own."""
    taken = set(
        Attempt.objects.filter(master_addr=address, state__in=ATTEMPT_LIVE).values_list("master_port", flat=True)
    )
    count = LAST_PORT - FIRST_PORT + 1
    for step in range(count):
        port = FIRST_PORT + (job_id + step) % count
        if port not in taken:
            return port
    raise _Refused(f"every port of {address} is taken")
