"""Apply a plan: each unit in one transaction, validated again under lock by the same invariants.

A refusal is a normal result: it is counted, and a later cycle tries the job again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Case, JSONField, Value, When
from psycopg2.errors import DeadlockDetected, ExclusionViolation, UniqueViolation

from muster.common.errors import Invalid
from muster.dispatch.apply.launch import NoPort, launch, request_at
from muster.dispatch.apply.locks import Locks, locks_of
from muster.dispatch.apply.plan_units import Unit, batches_of, units_of
from muster.dispatch.config.policy_state import keep_pool_state
from muster.dispatch.models import Planner
from muster.dispatch.snapshot.caps import lock_capped
from muster.dispatch.snapshot.groups import Budgets
from muster.dispatch.snapshot.reservations import keep_for
from muster.dispatch.snapshot.snapshot import NOTHING_SEEN, locked_snapshot
from muster.events.services import record, recorded_together
from muster.fleet.models import Node, Pool
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import Attempt, Job
from muster.jobs.transitions import forget_reservations
from muster.tenants.models import VirtualCluster
from scheduler import model
from scheduler.engine.cycle import CycleConfig, compose
from scheduler.model.invariants import PlanValidator, awaits_preemption, changed_since, check
from scheduler.model.lifecycle import ATTEMPT_LIVE, AttemptState, Desired, JobState, NodeAdmin
from scheduler.model.plan import RESERVATION_S, Place, Plan, Preempt
from scheduler.model.reasons import Reason
from scheduler.model.request import Request

log = logging.getLogger(__name__)

MAX_NOTES_PER_TRANSACTION = 500


@dataclass(frozen=True, slots=True)
class Refusal:
    """A placement, or a preemption of a GPU-sharing job, that was not applied, and the reason."""

    job_id: int
    reason: str


@dataclass(slots=True)
class Applied:
    """The result of a plan: the ids of the jobs that started, got a reservation, or are stopping; the refusals."""

    started: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, other: Applied) -> None:
        """Add the counts of another result."""
        self.started += other.started
        self.reserved += other.reserved
        self.preempted += other.preempted
        self.refusals += other.refusals

    def refuse(self, unit: Unit, reason: str) -> None:
        """Count the placements of the unit as refused, or its preemption if it has no placement."""
        self.refusals += [Refusal(one.job_id, reason) for one in unit.places or unit.preempts]

    def unless(self, unit: Unit, reason: str | None) -> bool:
        """Refuse the unit if there is a reason; returns whether there was none."""
        if reason is not None:
            self.refuse(unit, reason)
        return reason is None


def apply_plan(
    pool: Pool, snapshot: model.Snapshot, plan: Plan, config: CycleConfig, planner: Planner | None = None
) -> Applied:
    """Apply the plan unit by unit and return the result.

    1. Drop reservations that can no longer be met, and write what the policy remembers of jobs and pool.
    2. Start the jobs whose resources are free, several units in one transaction.
    3. For each remaining job, stop its victims and reserve their resources.

    If the planner wants all or nothing, steps 2 and 3 are one transaction, and one refusal refuses all units.
    """
    for job_id in plan.drops:
        forget_reservations([job_id])
    _write_notes(snapshot, plan)
    keep_pool_state(pool, planner, snapshot.pool_state, plan)
    applied, units = Applied(), units_of(snapshot, plan, compose(config).admission)
    locks = locks_of(pool, config, snapshot.cell_versions)
    if planner is not None and planner.all_or_nothing:
        applied = apply_together(pool, units, config, snapshot, locks)
    else:
        for batch in batches_of(snapshot, units):
            applied.add(apply_units(pool, batch, config, snapshot, locks))
    for refusal in applied.refusals:
        log.info("place_refused job=%s reason=%s", refusal.job_id, refusal.reason)
    return applied


class _Conflict(Exception):
    """Some units of a plan that is applied whole were refused."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(refusals[0].reason)
        self.refusals = refusals


def apply_together(
    pool: Pool,
    units: Sequence[Unit],
    config: CycleConfig,
    seen: model.Snapshot | None = None,
    locks: Locks | None = None,
) -> Applied:
    """Apply all units in one transaction, or none of them if one is refused."""
    applied = Applied()
    if not units:
        return applied
    try:
        with transaction.atomic(), recorded_together():
            applied = _apply(pool, units, seen, locks or locks_of(pool, config))
            if applied.refusals:
                raise _Conflict(applied.refusals)
            return applied
    except _Conflict as conflict:
        told = {refusal.job_id: refusal.reason for refusal in conflict.refusals}
        rest = f"the plan is applied whole, and job {conflict.refusals[0].job_id} was refused: {conflict}"
    except (NoPort, IntegrityError, OperationalError) as error:
        told, rest = {}, _reason_of(error)
    applied = Applied()
    for unit in units:
        for one in unit.places or unit.preempts:
            applied.refusals.append(Refusal(one.job_id, told.get(one.job_id, rest)))
    return applied


def _reason_of(error: NoPort | IntegrityError | OperationalError) -> str:
    """The reason why the database refused a transaction, if another one was faster; otherwise raises."""
    if isinstance(error, NoPort):
        return str(error)
    if not isinstance(error.__cause__, ExclusionViolation | UniqueViolation | DeadlockDetected):
        raise error
    # Another cycle was faster: the index refused the second claim of a slot, attempt, port or reservation.
    return f"lost a race: {getattr(error.__cause__.diag, 'constraint_name', None) or 'deadlock'}"


def apply_unit(pool: Pool, unit: Unit, config: CycleConfig, seen: model.Snapshot | None = None) -> Applied:
    """Apply the whole unit, or nothing of it and return why; see `apply_units`."""
    return apply_units(pool, [unit], config, seen)


def apply_units(
    pool: Pool,
    units: Sequence[Unit],
    config: CycleConfig,
    seen: model.Snapshot | None = None,
    locks: Locks | None = None,
) -> Applied:
    """Apply the units in one transaction; each is applied as a whole or refused with a reason.

    `seen` is the snapshot of the plan: a unit is refused if a GPU has another type now, or a victim is another attempt.
    Any other change since then counts only if it breaks an invariant on the locked rows. Locks are taken in the
    documented order: those of `locks`, virtual clusters, jobs, attempts and nodes, each by id; the claims lock
    themselves by their index.

    A check that fails before anything is written refuses one unit. If the database refuses a statement, the unit at
    fault is unknown: the transaction is rolled back, and each unit runs in a transaction of its own.
    """
    locks = locks or locks_of(pool, config)
    try:
        with transaction.atomic(), recorded_together():
            done = _apply(pool, units, seen, locks)
        locks.committed()
        return done
    except (NoPort, IntegrityError, OperationalError) as error:
        reason = _reason_of(error)
    applied = Applied()
    if len(units) == 1:
        applied.refuse(units[0], reason)
        return applied
    for unit in units:
        applied.add(apply_units(pool, [unit], config, seen, locks))
    return applied


def _apply(pool: Pool, units: Sequence[Unit], seen: model.Snapshot | None, locks: Locks) -> Applied:
    placed = [place.job_id for unit in units for place in unit.places]
    stopped = [preempt.job_id for unit in units for preempt in unit.preempts]
    locked = locks.take(place for unit in units for place in unit.places)
    admission = locked.validator
    vcs = _locked_vcs(pool, placed, all_clusters=locked.all_clusters)
    gaining = [one.for_job_id for unit in units for one in unit.preempts if one.for_job_id is not None]
    rows = Job.objects.select_for_update(no_key=True).filter(pk__in={*placed, *stopped, *gaining}).order_by("pk")
    jobs = {job.pk: job for job in rows}
    applied = Applied()
    wanted = [unit for unit in units if applied.unless(unit, _withdrawn(pool, unit, jobs))]
    budgets = Budgets(jobs.values())
    wanted = [unit for unit in wanted if applied.unless(unit, budgets.take((one.job_id for one in unit.places), jobs))]
    attempts = _locked_attempts([preempt.job_id for unit in wanted for preempt in unit.preempts])
    nodes = _locked_nodes(pool, wanted)
    wanted = [unit for unit in wanted if applied.unless(unit, _without_node(unit, nodes))]
    if not wanted:
        return applied
    known = NOTHING_SEEN if seen is None else seen.node_by_id
    in_service = Node.objects.filter(pool=pool).exclude(admin=NodeAdmin.RETIRED)
    checked = [*(in_service if locked.all_nodes else nodes.values())]
    snapshot = locked_snapshot(pool, vcs, list(jobs.values()), checked, seen=known)
    current = [unit for unit in wanted if applied.unless(unit, _outdated(unit, seen, snapshot))]
    valid = _valid(snapshot, current, admission, applied)
    given: dict[int, Request] = {}
    accepted = [unit for unit in valid if applied.unless(unit, _not_accepted(unit, jobs, snapshot, given))]
    if len(accepted) < len(valid):
        valid = _valid(snapshot, accepted, admission, applied)
    waits = awaits_preemption(snapshot, _together(valid), admission)
    kept = {reservation.job_id for reservation in snapshot.reservations}
    starts: list[tuple[Job, Place, Request]] = []
    for unit in valid:
        for preempt in sorted(unit.preempts, key=lambda one: one.job_id):
            _preempt(preempt, attempts, jobs)
            applied.preempted.append(preempt.job_id)
        for place in unit.places:
            if place.job_id in waits:
                _reserve(jobs[place.job_id], place)
                applied.reserved.append(place.job_id)
            else:
                starts.append((jobs[place.job_id], place, given[place.job_id]))
                applied.started.append(place.job_id)
    locks.bind((place for unit in valid for place in unit.places), snapshot.gpu_by_id)
    forget_reservations([job.pk for job, *_ in starts if job.pk in kept])
    launch(pool, starts, nodes)
    return applied


def _locked_vcs(pool: Pool, job_ids: list[int], *, all_clusters: bool) -> list[VirtualCluster]:
    """The virtual clusters of the jobs, locked; with `all_clusters` those of the whole pool, the others unlocked.

    The lock makes two plans that both see the last of a limit take turns.
    """
    lock_capped(job_ids)
    rows = VirtualCluster.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    locked = list(rows.filter(pk__in=Job.objects.filter(pk__in=job_ids).values("vc_id")).order_by("pk"))
    if not all_clusters:
        return locked
    others = VirtualCluster.objects.filter(pool=pool).exclude(pk__in=[vc.pk for vc in locked])
    return sorted([*locked, *others.select_related("tenant")], key=lambda vc: vc.pk)


def _valid(
    snapshot: model.Snapshot, units: Sequence[Unit], admission: PlanValidator, applied: Applied
) -> Sequence[Unit]:
    """The units that are valid on the locked rows; each is judged as if the valid units before it were applied."""
    if not check(snapshot, _together(units), admission):
        return units
    valid: list[Unit] = []
    for unit in units:
        violations = check(snapshot, _together([*valid, unit]), admission)
        if applied.unless(unit, violations[0].message if violations else None):
            valid.append(unit)
    return valid


def _together(units: Iterable[Unit]) -> Plan:
    """The units as one plan, for validation."""
    units = list(units)
    places = tuple(place for unit in units for place in unit.places)
    return Plan(places, (), preempts=tuple(preempt for unit in units for preempt in unit.preempts))


def _not_accepted(
    unit: Unit, jobs: Mapping[int, Job], snapshot: model.Snapshot, given: dict[int, Request]
) -> str | None:
    """The job that does not accept its GPUs, and the reason, or None; `given` takes each job's request."""
    for place in unit.places:
        try:
            given[place.job_id] = request_at(jobs[place.job_id], place, snapshot.gpu_by_id)
        except Invalid as error:
            return error.detail
    return None


def _withdrawn(pool: Pool, unit: Unit, jobs: Mapping[int, Job]) -> str | None:
    """The reason why a job of the unit may no longer be started or stopped; None if all may."""
    stopped = {one.job_id for one in unit.preempts}
    for place in unit.places:
        job = jobs.get(place.job_id)
        if job is None:
            return "the job is gone"
        if job.pool_id != pool.pk:
            return "the job is in the queue of another pool now"
        if job.held and job.pk not in stopped:
            return "the job is held back until it is released"
        if job.blocked_by and job.pk not in stopped:
            return "the job waits for other jobs"
        if job.desired != Desired.RUN or (job.state != JobState.QUEUED and job.pk not in stopped):
            return f"the job is {job.state}, and its owner wants it to {job.desired}"
    return None


def _locked_attempts(job_ids: list[int]) -> dict[int, int]:
    """The live attempts of the jobs, locked, by job."""
    if not job_ids:
        return {}
    rows = Attempt.objects.select_for_update(no_key=True).filter(job__in=job_ids, state__in=ATTEMPT_LIVE)
    return {job_id: pk for pk, job_id in rows.order_by("pk").values_list("pk", "job_id")}


def _locked_nodes(pool: Pool, units: Iterable[Unit]) -> dict[int, Node]:
    """The nodes of the placements, locked."""
    node_ids = {share.node_id for unit in units for place in unit.places for share in place.allocations}
    rows = Node.objects.select_for_update(no_key=True).filter(pool=pool, pk__in=node_ids).order_by("pk")
    return {node.pk: node for node in rows}


def _without_node(unit: Unit, nodes: Mapping[int, Node]) -> str | None:
    """Says that the pool lacks a node of the unit; None if it has all of them."""
    ids = sorted({share.node_id for place in unit.places for share in place.allocations} - nodes.keys())
    return f"node {ids[0]} is not in this pool" if ids else None


def _outdated(unit: Unit, seen: model.Snapshot | None, snapshot: model.Snapshot) -> str | None:
    """The fact that the unit relies on and that has changed since the plan's snapshot; None if none has."""
    violations = () if seen is None else changed_since(seen, snapshot, unit.plan)
    return violations[0].message if violations else None


def _preempt(preempt: Preempt, attempts: Mapping[int, int], jobs: Mapping[int, Job]) -> None:
    """Stop the job with its grace period. The event names the other job only to its own tenant."""
    detail, stops = preempt.detail, jobs[preempt.job_id]
    gains = None if preempt.for_job_id is None else jobs.get(preempt.for_job_id)
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
    keep_for(place, for_s=RESERVATION_S)
    record("job.reserved", actor="scheduler", tenant_id=job.tenant_id, job_id=job.pk, data={"gpus": job.gpus_total})


def _write_notes(snapshot: model.Snapshot, plan: Plan) -> None:
    """Store the policy state of jobs where it differs from the stored one."""
    told = {job.id: job.policy_state for job in snapshot.waiting} | {
        run.job.id: run.job.policy_state for run in snapshot.running
    }
    changed = {
        note.job_id: dict(note.policy_state) for note in plan.notes if told.get(note.job_id) != note.policy_state
    }
    ids = sorted(changed)
    for start in range(0, len(ids), MAX_NOTES_PER_TRANSACTION):
        some = ids[start : start + MAX_NOTES_PER_TRANSACTION]
        with transaction.atomic():
            rows = Job.objects.select_for_update(no_key=True).filter(pk__in=some).order_by("pk")
            found = list(rows.values_list("pk", flat=True))
            if found:
                memos = Case(*(When(pk=pk, then=Value(changed[pk], JSONField())) for pk in found))
                Job.objects.filter(pk__in=found).update(memo=memos)
