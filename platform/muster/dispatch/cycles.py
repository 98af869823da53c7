"""One scheduling cycle: snapshot, decide, apply, and the record of all three."""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper
from django.db.models import F
from psycopg2.errors import LockNotAvailable

from muster.dispatch.apply import Refusal, apply_plan
from muster.dispatch.holds import write_holds
from muster.dispatch.models import Cycle
from muster.dispatch.snapshot import pool_snapshot
from muster.events.services import forget_hint, wake_pool
from muster.fleet.models import Pool
from muster.jobs.models import Job
from scheduler.cycle import CycleConfig, config_from_dict, config_to_dict, decide
from scheduler.lifecycle import JobState
from scheduler.model import Snapshot, snapshot_from_dict, snapshot_to_dict
from scheduler.plan import Plan, plan_from_dict, plan_to_dict

log = logging.getLogger(__name__)

MOST_PLACES = 256
CYCLE_TIMEOUT_S = 30
# The first half of the key of our advisory locks; the second is the pool's id.
_LOCK_SPACE = 0x6D757374


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What a cycle did; `cycle_id` is None for one that found nothing waiting."""

    cycle_id: int | None
    plan: Plan
    refusals: list[Refusal]


def config_of(pool: Pool) -> CycleConfig:
    """The pool's settings as the scheduler reads them."""
    return CycleConfig(
        policy=pool.policy,
        policy_params=pool.policy_params,
        placement=pool.placement,
        placement_params=pool.placement_params,
        guard=pool.guard,
        guard_params=pool.guard_params,
        max_places=MOST_PLACES,
    )


def run_cycle(pool_id: int, *, trigger: str) -> CycleResult:
    """Run one cycle of the pool.

    1. The lock of the pool is waited for; correctness does not depend on it, only the number of refusals does.
    2. The hint is deleted before the snapshot is taken, so that what changes afterwards sends a new one.
    3. The plan is carried out gang by gang; holds are written where they changed.
    4. A cycle that was full, or that was refused some of its places, asks for another one. One that was refused all of
       them does not: whatever refuses it would refuse the next one too, and the sweep comes back to it.
    """
    with _pool_lock(pool_id):
        pool = Pool.objects.get(pk=pool_id)
        forget_hint(pool_id)
        started = time.perf_counter()
        if not Job.objects.filter(pool=pool, state=JobState.QUEUED).exists():
            return CycleResult(None, Plan(places=(), holds=()), [])
        config = config_of(pool)
        snapshot = pool_snapshot(pool, seed=pool_id)
        taken = time.perf_counter()
        plan = decide(snapshot, config)
        decided = time.perf_counter()
        refusals = apply_plan(pool, plan, config, {node.id: node.version for node in snapshot.nodes})
        changed = write_holds(pool_id, plan.holds, {refusal.job_id: refusal.reason for refusal in refusals})
        applied = time.perf_counter()
        result = _record(
            pool=pool,
            trigger=trigger,
            snapshot=snapshot,
            config=config,
            plan=plan,
            refusals=refusals,
            changed=changed,
            timings={
                "snapshot_ms": (taken - started) * 1000,
                "decide_ms": (decided - taken) * 1000,
                "apply_ms": (applied - decided) * 1000,
            },
        )
    if len(plan.places) >= MOST_PLACES or 0 < len(refusals) < len(plan.places):
        wake_pool(pool_id)
    return result


def replay(cycle: Cycle) -> tuple[Plan, Plan]:
    """The stored plan of a cycle, and the plan that the present code makes of its stored snapshot."""
    if cycle.snapshot is None or cycle.plan is None:
        raise ValueError(f"cycle {cycle.pk} changed nothing, so its snapshot was not kept")
    snapshot = snapshot_from_dict(_unpacked(cycle.snapshot))
    return plan_from_dict(_unpacked(cycle.plan)), decide(snapshot, config_from_dict(cycle.config))


def _record(
    *,
    pool: Pool,
    trigger: str,
    snapshot: Snapshot,
    config: CycleConfig,
    plan: Plan,
    refusals: list[Refusal],
    changed: int,
    timings: dict[str, float],
) -> CycleResult:
    kept: dict[str, Any] = {}
    if plan.places or changed:
        kept = {
            "snapshot": _packed(snapshot_to_dict(snapshot)),
            "config": config_to_dict(config),
            "plan": _packed(plan_to_dict(plan)),
        }
    else:
        # A cycle that changed something keeps its configuration, also when its snapshot has been dropped.
        last = Cycle.objects.filter(pool=pool).order_by("-pk").values("pk", "held", "config").first()
        if last and last["config"] is None and last["held"] == len(plan.holds):
            # The same nothing again: one row counts for all of them.
            Cycle.objects.filter(pk=last["pk"]).update(repeats=F("repeats") + 1, **timings)
            return CycleResult(last["pk"], plan, refusals)
    cycle = Cycle.objects.create(
        pool=pool,
        trigger=trigger,
        waiting=len(snapshot.waiting),
        placed=len(plan.places) - len(refusals),
        held=len(plan.holds),
        refused=len(refusals),
        refusals=[{"job": refusal.job_id, "reason": refusal.reason} for refusal in refusals],
        **timings,
        **kept,
    )
    return CycleResult(cycle.pk, plan, refusals)


def _packed(data: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), level=1)


def _unpacked(data: bytes | memoryview) -> Any:
    return json.loads(zlib.decompress(data))


@contextmanager
def _pool_lock(pool_id: int) -> Iterator[None]:
    """Wait for the pool's lock; whoever held it all the time that we waited hangs, and its backend is ended.

    The lock belongs to the database connection, so that a worker that dies lets go of it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK_SPACE, pool_id])
        locked: bool = cursor.fetchone()[0]
        while not locked:
            holder = _holder(cursor, pool_id)
            locked = _lock(cursor, pool_id)
            if not locked and holder is not None and _holder(cursor, pool_id) == holder:
                log.error("cycle_hangs pool=%s backend=%s: ended", pool_id, holder)
                cursor.execute("SELECT pg_terminate_backend(%s)", [holder])
    try:
        yield
    finally:
        # A connection that broke has lost its locks already.
        if connection.is_usable():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK_SPACE, pool_id])


def _lock(cursor: CursorWrapper, pool_id: int) -> bool:
    """Whether we got the lock within the cycle's time-out."""
    cursor.execute("SET lock_timeout = %s", [f"{CYCLE_TIMEOUT_S}s"])
    try:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [_LOCK_SPACE, pool_id])
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return False
        raise
    finally:
        cursor.execute("SET lock_timeout = DEFAULT")
    return True


def _holder(cursor: CursorWrapper, pool_id: int) -> int | None:
    """The database backend that has the pool's lock."""
    cursor.execute(
        "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database AND datname = current_database()"
        " WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND granted",
        [_LOCK_SPACE, pool_id],
    )
    row = cursor.fetchone()
    return row[0] if row else None
