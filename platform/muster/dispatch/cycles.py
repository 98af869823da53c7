"""One scheduling cycle: snapshot, decide, apply, and the record of all three."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.db.models import F
from psycopg2.errors import LockNotAvailable

from muster.dispatch.apply.apply import Applied, Refusal, apply_plan
from muster.dispatch.apply.loans import keep_loans
from muster.dispatch.apply.pending import (
    pending_reserved,
    pending_while_paused,
    stored_holds,
    write_pending_reasons,
    write_queue_orders,
)
from muster.dispatch.config.planners import name_of
from muster.dispatch.config.policy_state import set_timer
from muster.dispatch.config.settings import config_of, fall_back, simpler_config
from muster.dispatch.hooks import end_cycle
from muster.dispatch.lanes import targets
from muster.dispatch.models import Cycle, Lane, Planner, Target
from muster.dispatch.restore_pause import placement_pause
from muster.dispatch.snapshot.kept import StoredHold, WaitingRows
from muster.dispatch.snapshot.parts import Work, work_of
from muster.dispatch.snapshot.records import packed, plan_of, snapshot_of
from muster.dispatch.snapshot.reservations import delete_expired_reservations
from muster.dispatch.snapshot.snapshot import planner_snapshot
from muster.events.services import forget_hint, wake_pool
from muster.fleet.models import Pool
from scheduler.admission import ADMISSIONS
from scheduler.engine.cycle import CycleConfig, compose, decide, decide_by_target
from scheduler.model import Snapshot
from scheduler.model.codec import from_json, to_json
from scheduler.model.invariants import Violation, check
from scheduler.model.plan import Plan
from scheduler.model.planners import own_part

log = logging.getLogger(__name__)

CYCLE_TIMEOUT_S = 30
# The first half of the key of the advisory locks; the second half is the id of the pool or of the planner.
_POOL_SPACE, _PLANNER_SPACE = 0x6D757374, 0x6D757375
# Each half has 32 bits, and ids after a restore may have more. Planners with the same key share a lock.
_LOCK_KEYS = 1 << 31


@dataclass(frozen=True, slots=True)
class CycleResult:
    """The result of a cycle; `cycle_id` is None if no job was waiting."""

    cycle_id: int | None
    plan: Plan
    applied: Applied

    @property
    def refusals(self) -> list[Refusal]:
        return self.applied.refusals


def run_cycle(pool_id: int, *, trigger: str, planner_id: int | None = None) -> CycleResult:
    """Run one cycle of a planner of the pool, by default of its default planner.

    1. Wait for the planner's lock, which only reduces refusals; planners of one pool run at the same time.
    2. Delete the hint before taking the snapshot, so that later changes send a new hint.
    3. Make a plan. If that fails, or the plan violates an invariant, record the failure and fall back to simpler
       settings.
    4. Apply the plan unit by unit, and write the pending reasons that changed: after a restore, the pause of placement.
    5. Ask for another cycle if this one reached its limit of placements, or if some of its placements were refused. If
       all were, the sweep retries later.

    A pool without waiting jobs is left as it is, unless its timer is due.
    """
    key = (_POOL_SPACE, pool_id % _LOCK_KEYS) if planner_id is None else (_PLANNER_SPACE, planner_id % _LOCK_KEYS)
    with _cycle_lock(key), _gc_paused():
        if planner_id is None and trigger != "hint":
            forget_hint(pool_id)
        work = work_of(pool_id, planner_id)
        if work is not None and trigger == "command" and work.left_s is not None:
            work = replace(work, left_s=0.0)  # it does not wait for the timer
        if work is None or not work.any:
            return _nothing()
        pool = Pool.objects.get(pk=pool_id)
        planner = None if planner_id is None else Planner.objects.get(pk=planner_id)
        if work.expired:
            delete_expired_reservations(pool)
        result, again = _cycle(pool, planner, trigger, work)
        if planner is None and (work.loans or (result.applied.started and ADMISSIONS.has(pool.admission, "lends"))):
            keep_loans(pool)
        if work.after:
            end_cycle(pool)
    if again:
        wake_pool(pool_id)
    return result


def _nothing() -> CycleResult:
    return CycleResult(None, Plan(places=(), holds=()), Applied())


def _cycle(pool: Pool, planner: Planner | None, trigger: str, work: Work) -> tuple[CycleResult, bool]:
    """The result of the cycle, and whether another cycle would find more to do."""
    pause = placement_pause() if work.paused else ""
    if pause:
        write_pending_reasons(pending_while_paused(pool.pk, pause), {}, stored_holds(pool.pk))
        return _nothing(), False
    lane = targets.lane_of(pool) if work.lane else None
    standing = targets.standing(lane)
    if standing is None and not work.waiting and not work.is_due:
        return _nothing(), False
    carried = standing if lane is not None and lane.mode == Lane.Mode.ON else None
    decided = decide_for(pool, planner, trigger, carried, has_lane=work.lane)
    result = carry_out(pool, planner, trigger, decided)
    if standing is not None and carried is None:
        targets.compare(standing, decided.snapshot)
    return result


def carry_out(pool: Pool, planner: Planner | None, trigger: str, decided: Decided) -> tuple[CycleResult, bool]:
    """Apply a plan and record the cycle; see `_cycle`. The pool may have changed since the plan was made."""
    started = time.perf_counter()
    plan, snapshot = decided.plan, decided.snapshot
    applied = apply_plan(pool, snapshot, plan, decided.config, planner)
    if decided.target is not None:
        targets.applied(decided.target, decided.dropped)
    changed = write_pending_reasons(
        [*plan.holds, *pending_reserved(plan, applied.reserved)],
        {refusal.job_id: refusal.reason for refusal in applied.refusals},
        decided.stored,
    )
    write_queue_orders(snapshot, plan)
    set_timer(pool, planner, plan.wake_at)
    decided.timings["apply_ms"] = (time.perf_counter() - started) * 1000
    result = _record(pool, planner, trigger, decided, applied, changed)
    again = len(plan.places) >= decided.config.max_places or 0 < len(applied.refusals) < len(plan.places)
    return result, again


@dataclass(frozen=True, slots=True)
class Decided:
    """A valid plan, its inputs, and the pending reasons that are stored of the jobs that wait."""

    config: CycleConfig
    snapshot: Snapshot
    plan: Plan
    timings: dict[str, float]
    stored: Mapping[int, StoredHold]
    target: Target | None = None
    dropped: Mapping[int, str] = field(default_factory=dict)


def decide_for(
    pool: Pool, planner: Planner | None, trigger: str, target: Target | None = None, *, has_lane: bool = True
) -> Decided:
    """A valid plan by the target and the settings of the planner, or by simpler ones if these fail."""
    while True:
        lane = targets.carrying(pool) if has_lane and planner is None else None
        config = targets.filling_config(pool, lane) if planner is None else config_of(pool, planner)
        started = time.perf_counter()
        rows = WaitingRows(pool.pk)
        snapshot = planner_snapshot(pool, planner, seed=pool.pk, rows=rows)
        taken = time.perf_counter()
        plan: Plan | None = None
        dropped: Mapping[int, str] = {}
        violations: tuple[Violation, ...] = ()
        error = ""
        try:
            if target is None:
                plan = decide(snapshot, config)
            else:
                plan, dropped = decide_by_target(snapshot, config, targets.stored(target))
            plan = own_part(snapshot, plan)
            violations = check(snapshot, plan, compose(config).admission)
        # A plug-in may fail in any way. The failure is recorded, and the pool falls back.
        except Exception as failure:
            if target is None and simpler_config(config) is None:
                raise
            log.exception("policy_failed pool=%s policy=%s", pool.name, config.policy)
            error = f"{type(failure).__name__}: {failure}"
        timings = {"snapshot_ms": (taken - started) * 1000, "decide_ms": (time.perf_counter() - taken) * 1000}
        if plan is not None and not violations and not error:
            return Decided(config, snapshot, plan, timings, rows.stored, target, dropped)
        if violations:
            error = f"the plan violates an invariant: {violations[0].message}"
            log.error("plan_invalid pool=%s policy=%s first=%s", pool.name, config.policy, violations[0].message)
        if target is not None:  # without it, the same configuration may do
            targets.discard(target, error)
            target = None
            continue
        to = simpler_config(config)
        if to is None:
            raise InvalidPlan(error)
        cycle = Cycle.objects.create(
            pool=pool,
            planner=name_of(planner),
            trigger=trigger,
            waiting=len(snapshot.waiting),
            error=error[:2000],
            violations=[asdict(violation) for violation in violations[:50]],
            snapshot=packed(snapshot),
            config=to_json(config),
            plan=packed(plan) if plan is not None else None,
            **timings,
        )
        fall_back(pool, planner, failed=config, to=to, why=error[:500], cycle_id=cycle.pk)


class InvalidPlan(Exception):
    """Even the default settings made an invalid plan; the cycle ends without changes."""


def replay(cycle: Cycle) -> tuple[Plan, Plan]:
    """The stored plan of a cycle, and the plan that the present code makes from its stored snapshot."""
    if cycle.snapshot is None or cycle.plan is None:
        raise ValueError(f"cycle {cycle.pk} failed, or changed nothing, so there is no plan to compare with")
    if cycle.target is not None and cycle.target.plan is None:
        raise ValueError(f"the target of cycle {cycle.pk} is not stored any more, so its plan cannot be made again")
    snapshot, config = stored_snapshot(cycle), from_json(CycleConfig, cycle.config)
    stored = None if cycle.target is None else targets.stored(cycle.target)
    again = decide(snapshot, config) if stored is None else decide_by_target(snapshot, config, stored)[0]
    return plan_of(cycle.plan), own_part(snapshot, again)


def stored_snapshot(cycle: Cycle) -> Snapshot:
    return snapshot_of(cycle.snapshot or b"")


def _record(  # noqa: PLR0917 (called once)
    pool: Pool, planner: Planner | None, trigger: str, decided: Decided, applied: Applied, changed: int
) -> CycleResult:
    plan, snapshot, timings = decided.plan, decided.snapshot, decided.timings
    kept: dict[str, Any] = {}
    remembers = plan.pool_state is not None and plan.pool_state != snapshot.pool_state
    if plan.places or plan.preempts or plan.drops or plan.notes or remembers or changed:
        kept = {
            "snapshot": packed(snapshot),
            "config": to_json(decided.config),
            "plan": packed(plan),
            "target": decided.target,
        }
    else:
        # A cycle that changed something keeps its configuration when its snapshot is dropped.
        cycles = Cycle.objects.filter(pool=pool, planner=name_of(planner)).order_by("-pk")
        last = cycles.values("pk", "held", "config").first()
        if last and last["config"] is None and last["held"] == len(plan.holds):
            # One row counts all consecutive cycles that changed nothing.
            Cycle.objects.filter(pk=last["pk"]).update(repeats=F("repeats") + 1, **timings)
            return CycleResult(last["pk"], plan, applied)
    cycle = Cycle.objects.create(
        pool=pool,
        planner=name_of(planner),
        trigger=trigger,
        waiting=len(snapshot.waiting),
        placed=len(applied.started),
        reserved=len(applied.reserved),
        preempted=len(applied.preempted),
        held=len(plan.holds),
        refused=len(applied.refusals),
        refusals=[{"job": refusal.job_id, "reason": refusal.reason} for refusal in applied.refusals],
        **timings,
        **kept,
    )
    return CycleResult(cycle.pk, plan, applied)


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which scanned the objects of a cycle for a fifth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _cycle_lock(key: tuple[int, int]) -> Iterator[None]:
    """Wait for the planner's lock. If one holder keeps it for the whole wait, it hangs, and its backend is terminated.

    The lock belongs to the database connection, so a worker that dies releases it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", list(key))
        locked: bool = cursor.fetchone()[0]
        while not locked:
            holder = _holder(cursor, key)
            locked = _lock(cursor, key)
            if not locked and holder is not None and _holder(cursor, key) == holder:
                log.error("cycle_hangs key=%s backend=%s: ended", key, holder)
                cursor.execute("SELECT pg_terminate_backend(%s)", [holder])
    try:
        yield
    finally:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", list(key))
        except (OperationalError, InterfaceError):
            connection.close()  # a broken connection has already lost its locks, and any other loses them now


def _lock(cursor: CursorWrapper, key: tuple[int, int]) -> bool:
    """Whether the lock was acquired within the cycle's timeout."""
    cursor.execute("SET lock_timeout = %s", [f"{CYCLE_TIMEOUT_S}s"])
    try:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", list(key))
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return False
        raise
    finally:
        cursor.execute("SET lock_timeout = DEFAULT")
    return True


def _holder(cursor: CursorWrapper, key: tuple[int, int]) -> int | None:
    cursor.execute(
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()"
        " WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted",
        list(key),
    )
    row = cursor.fetchone()
    return row[0] if row else None
