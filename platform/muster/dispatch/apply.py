"""Carrying a plan out: one transaction for all that goes together, checked again under lock by the same law.

A plan is a wish. A refusal is a normal result: it is counted, and the job is looked at again in the next cycle.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Case, JSONField, Value, When
from psycopg2.errors import DeadlockDetected, ExclusionViolation, UniqueViolation
from psycopg2.extras import NumericRange

from muster.common.clock import database_now
from muster.dispatch.reservations import keep_for
from muster.dispatch.snapshot import NOTHING_SEEN, locked_snapshot
from muster.dispatch.units import Unit, units_of
from muster.events.services import record, recorded_together, wake_node
from muster.fleet.models import Node, Pool
from muster.jobs.attempts import stop_attempt
from muster.jobs.models import SLOTS_PER_GPU, Allocation, Attempt, GpuClaim, Job
from muster.jobs.transitions import forget_reservations, move_job
from muster.tenants.models import VirtualCluster
from scheduler import model
from scheduler.cycle import CycleConfig, compose
from scheduler.law import check, late
from scheduler.lifecycle import ATTEMPT_LIVE, AttemptState, Desired, JobState, Reason
from scheduler.plan import RESERVATION_S, Place, Plan, Preempt

log = logging.getLogger(__name__)

# Below the range from which kernels hand out ports by themselves.
FIRST_PORT, LAST_PORT = 20_000, 29_999
NOTES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Refusal:
    """A place that was not carried out, and why."""

    job_id: int
    reason: str


@dataclass(slots=True)
class Applied:
    """What became of a plan: the ids of the jobs that started, of those that start once others have stopped, and of
    those that stop; and what was refused."""

    started: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, other: Applied) -> None:
        """Count the other's too."""
        self.started += other.started
        self.reserved += other.reserved
        self.preempted += other.preempted
        self.refusals += other.refusals


class _Refused(Exception):
    pass


def apply_plan(pool: Pool, snapshot: model.Snapshot, plan: Plan, config: CycleConfig) -> Applied:
    """Carry out what the plan wants, unit by unit, and return what became of it.

    1. What is kept for jobs that cannot have it any more is let go of, and the policy's notes are written.
    2. Whoever can start at once starts.
    3. Whoever needs others to stop has them stopped, and what they hold kept for it.
    """
    for job_id in plan.drops:
        forget_reservations([job_id])
    _write_notes(snapshot, plan)
    versions = {node.id: node.version for node in snapshot.nodes}
    applied = Applied()
    for unit in units_of(snapshot, plan, compose(config).guard):
        applied.add(apply_unit(pool, unit, config, versions, seen=snapshot.node_by_id))
    for refusal in applied.refusals:
        log.info("place_refused job=%s reason=%s", refusal.job_id, refusal.reason)
    return applied


def apply_unit(
    pool: Pool,
    unit: Unit,
    config: CycleConfig,
    versions: Mapping[int, int],
    *,
    seen: Mapping[int, model.Node] = NOTHING_SEEN,
) -> Applied:
    """Carry out all of the unit, or nothing of it and say why.

    `versions` are the node versions of the plan's snapshot: a node that changed since refuses the unit. Locks are
    taken in the documented order: virtual clusters, jobs, attempts and nodes, each by id; the claims lock themselves
    by their index. `seen` are nodes as they were shortly before, which need not be read again to count by type what
    the virtual clusters hold elsewhere.
    """
    try:
        with transaction.atomic(), recorded_together():
            return _apply(pool, unit, config, versions, seen)
    except _Refused as refusal:
        reason = str(refusal)
    except (IntegrityError, OperationalError) as error:
        # Another cycle was faster: the index refused the second claim of a slot, attempt, port or reservation.
        if not isinstance(error.__cause__, ExclusionViolation | UniqueViolation | DeadlockDetected):
            raise
        constraint = getattr(error.__cause__.diag, "constraint_name", None) or "deadlock"
        reason = f"lost a race: {constraint}"
    return Applied(refusals=[Refusal(place.job_id, reason) for place in unit.places])


def _apply(
    pool: Pool, unit: Unit, config: CycleConfig, versions: Mapping[int, int], seen: Mapping[int, model.Node]
) -> Applied:
    placed, stopped = [one.job_id for one in unit.places], [one.job_id for one in unit.preempts]
    # The lock on the virtual cluster makes two cycles that both see the last of a quota take turns.
    vcs = list(
        VirtualCluster.objects.select_for_update(no_key=True, of=("self",))
        .select_related("tenant")
        .filter(pk__in=Job.objects.filter(pk__in=placed).values("vc_id"))
        .order_by("pk")
    )
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in={*placed, *stopped}).order_by("pk")
    jobs = {job.pk: job for job in rows}
    _require_wanted(unit, jobs)
    attempts = _locked_attempts(stopped)
    nodes = _locked_nodes(unit, versions)
    locked = list(nodes.values())
    snapshot = locked_snapshot(pool, vcs, list(jobs.values()), locked, seen=seen, now=database_now())
    guard = compose(config).guard
    violations = check(snapshot, unit.plan, guard)
    if violations:
        raise _Refused(violations[0].message)
    waits = late(snapshot, unit.plan, guard)
    applied = Applied(preempted=stopped)
    for preempt in sorted(unit.preempts, key=lambda one: one.job_id):
        _preempt(preempt, attempts, jobs)
    for place in unit.places:
        if place.job_id in waits:
            _reserve(jobs[place.job_id], place)
            applied.reserved.append(place.job_id)
            continue
        if any(kept.job_id == place.job_id for kept in snapshot.reservations):
            forget_reservations([place.job_id])
        _insert(pool, jobs[place.job_id], place, nodes)
        applied.started.append(place.job_id)
    return applied


def _require_wanted(unit: Unit, jobs: Mapping[int, Job]) -> None:
    """Return if everybody still wants what the plan wants for them."""
    stopped = {one.job_id for one in unit.preempts}
    for place in unit.places:
        job = jobs.get(place.job_id)
        if job is None:
            raise _Refused("the job is gone")
        if job.desired != Desired.RUN or (job.state != JobState.QUEUED and job.pk not in stopped):
            raise _Refused(f"the job is {job.state}, and its owner wants it to {job.desired}")


def _locked_attempts(job_ids: list[int]) -> dict[int, int]:
    """The live attempts of the jobs, under lock, by job."""
    if not job_ids:
        return {}
    rows = Attempt.objects.select_for_update(no_key=True).filter(job__in=job_ids, state__in=ATTEMPT_LIVE)
    return {job_id: pk for pk, job_id in rows.order_by("pk").values_list("pk", "job_id")}


def _locked_nodes(unit: Unit, versions: Mapping[int, int]) -> dict[int, Node]:
    """The nodes of the places, under lock, none of which has changed since the snapshot."""
    node_ids = {share.node_id for place in unit.places for share in place.allocations}
    nodes = {
        node.pk: node for node in Node.objects.select_for_update(no_key=True).filter(pk__in=node_ids).order_by("pk")
    }
    stale = [node.name for node in nodes.values() if node.version != versions.get(node.pk)]
    if stale or len(nodes) != len(node_ids):
        raise _Refused(f"changed since the snapshot: {', '.join(stale) or 'a node'}")
    return nodes


def _preempt(preempt: Preempt, attempts: Mapping[int, int], jobs: Mapping[int, Job]) -> None:
    """Stop the job with its grace. Whom it stops for is told to its own tenant only."""
    detail, stops, gains = preempt.detail, jobs[preempt.job_id], jobs.get(preempt.for_job_id)
    if gains is not None and gains.pk != stops.pk and gains.tenant_id == stops.tenant_id:
        detail = f"{detail}: job {gains.pk}"
    stop_attempt(
        attempt_id=attempts[preempt.job_id],
        outcome=AttemptState.PREEMPTED,
        reason=Reason.PREEMPTED,
        detail=detail,
        actor="scheduler",
    )


def _reserve(job: Job, place: Place) -> None:
    keep_for(job_id=job.pk, allocations=place.allocations, for_s=RESERVATION_S)
    record("job.reserved", actor="scheduler", tenant_id=job.tenant_id, job_id=job.pk, data={"gpus": job.gpus_total})


def _write_notes(snapshot: model.Snapshot, plan: Plan) -> None:
    """Store what the policy wants to be told again, where it differs from what it was told."""
    told = {job.id: job.memo for job in snapshot.waiting} | {run.job.id: run.job.memo for run in snapshot.running}
    changed = {note.job_id: dict(note.memo) for note in plan.notes if told.get(note.job_id) != note.memo}
    ids = sorted(changed)
    for start in range(0, len(ids), NOTES_AT_ONCE):
        some = ids[start : start + NOTES_AT_ONCE]
        with transaction.atomic():
            rows = Job.objects.select_for_update(no_key=True).filter(pk__in=some).order_by("pk")
            found = list(rows.values_list("pk", flat=True))
            if found:
                memos = Case(*(When(pk=pk, then=Value(changed[pk], JSONField())) for pk in found))
                Job.objects.filter(pk__in=found).update(memo=memos)


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
