"""The targets that a lane stores, and what cycles do with them.

A target that is `stored` is standing: the next cycle of its pool carries it out, or compares it in shadow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from muster.dispatch.config.settings import config_of, fallback_of
from muster.dispatch.models import Lane, Target
from muster.dispatch.snapshot.records import packed, plan_of, snapshot_of
from muster.events.services import wake_pool
from muster.fleet.models import Pool
from scheduler.engine.cycle import CycleConfig
from scheduler.engine.target import Target as EngineTarget
from scheduler.engine.target import agreement, target_of
from scheduler.model import Snapshot
from scheduler.model.codec import to_json
from scheduler.model.plan import Plan

MAX_DROPPED_TOLD = 100
_STORED = Target.State.STORED


def lane_of(pool: Pool) -> Lane | None:
    """The lane of the pool; None without one, while it is off, and while the pool has fallen back."""
    lane = Lane.objects.filter(pool=pool).exclude(mode=Lane.Mode.OFF).first()
    return lane if lane is not None and fallback_of(pool) is None else None


def carrying(pool: Pool) -> Lane | None:
    """The lane of the pool if cycles carry out its targets."""
    lane = lane_of(pool)
    return lane if lane is not None and lane.mode == Lane.Mode.ON else None


def filling_config(pool: Pool, lane: Lane | None) -> CycleConfig:
    """The configuration of a cycle: the pool's, with the fill policy where targets are carried out."""
    config = config_of(pool)
    return config if lane is None else replace(config, policy=lane.fill_policy, policy_params=lane.fill_params)


def store(pool: Pool, snapshot: Snapshot, config: CycleConfig, plan: Plan, *, solve_ms: float) -> Target:
    """Store what a lane solved, and let a cycle of the pool carry it out. Earlier targets are superseded."""
    Target.objects.filter(pool=pool, state=_STORED).update(state=Target.State.SUPERSEDED)
    target = Target.objects.create(
        pool=pool,
        solve_ms=solve_ms,
        places=len(plan.places),
        preempts=len(plan.preempts),
        wake_at=None if plan.wake_at is None else datetime.fromtimestamp(plan.wake_at, UTC),
        config=to_json(config),
        snapshot=packed(snapshot),
        plan=packed(plan),
    )
    wake_pool(pool.pk)
    return target


def store_failure(pool: Pool, snapshot: Snapshot, config: CycleConfig, why: str, *, solve_ms: float) -> Target:
    """Store a solve without a plan, for the operators and for a replay."""
    return Target.objects.create(
        pool=pool,
        solve_ms=solve_ms,
        state=Target.State.DISCARDED,
        reason=why[:2000],
        config=to_json(config),
        snapshot=packed(snapshot),
    )


def standing(lane: Lane | None) -> Target | None:
    """The target that the next cycle carries out or compares."""
    return None if lane is None else Target.objects.filter(pool=lane.pool_id, state=_STORED).order_by("pk").last()


def latest(lane: Lane | None) -> Target | None:
    """The last target of the lane that was not discarded, carried out or not."""
    if lane is None:
        return None
    kept = Target.objects.filter(pool=lane.pool_id, plan__isnull=False).exclude(state=Target.State.DISCARDED)
    return kept.order_by("pk").last()


def stored(target: Target) -> EngineTarget:
    """The target as a decision reads it."""
    return target_of(snapshot_of(target.snapshot or b""), plan_of(target.plan or b""))


def applied(target: Target, dropped: Mapping[int, str]) -> None:
    """Record that a cycle carried the target out, without the parts that it dropped."""
    told = {str(job_id): why for job_id, why in sorted(dropped.items())[:MAX_DROPPED_TOLD]}
    Target.objects.filter(pk=target.pk).update(state=Target.State.APPLIED, dropped=told)


def discard(target: Target, why: str) -> None:
    """Record that a target is not carried out, because no valid plan came of it."""
    Target.objects.filter(pk=target.pk).update(state=Target.State.DISCARDED, reason=why[:2000])


def compare(target: Target, snapshot: Snapshot) -> None:
    """Record where the cycles have placed the jobs of a target that is not carried out."""
    found = agreement(snapshot, plan_of(target.plan or b""))
    Target.objects.filter(pk=target.pk).update(state=Target.State.COMPARED, agreement=found)
