"""The state of a planner's policy, and its timer: stored after each cycle, and read by the next one."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from muster.common.statements import Statement
from muster.dispatch.models import Planner, PlannerState, PolicyState
from muster.fleet.models import Pool
from scheduler import model
from scheduler.model.plan import Plan

log = logging.getLogger(__name__)

_TIMERS = Statement("""
SELECT pool_id, planner_id, extract(epoch FROM wake_at - clock_timestamp())::float8 FROM (
    SELECT pool_id, NULL::bigint AS planner_id, wake_at FROM dispatch_policystate UNION ALL
    SELECT planner.pool_id, planner.id, state.wake_at FROM dispatch_plannerstate state
    JOIN dispatch_planner planner ON planner.id = state.planner_id
) AS timer WHERE wake_at IS NOT NULL ORDER BY wake_at, pool_id, planner_id
""")


def pool_state_of(pool: Pool, planner: Planner | None = None) -> model.PoolState | None:
    """The state of the planner's policy for the pool, as last stored."""
    rows, key = _stored(pool, planner)
    row = rows.filter(**key).first()
    return None if row is None or not row.version else model.PoolState(row.policy, row.version, row.data)


def keep_pool_state(pool: Pool, planner: Planner | None, before: model.PoolState | None, plan: Plan) -> None:
    """Store what the plan remembers, if it differs from what the cycle read."""
    new = plan.pool_state
    if new is None or new == before:
        return
    if before is not None and (before.policy, before.version) != (new.policy, new.version):
        log.info(
            "pool_state_replaced pool=%s planner=%s was=%s %s is=%s %s",
            pool.name,
            planner.name if planner is not None else "",
            before.policy,
            before.version,
            new.policy,
            new.version,
        )
    rows, key = _stored(pool, planner)
    rows.update_or_create(**key, defaults={"policy": new.policy, "version": new.version, "data": new.data})


def set_timer(pool: Pool, planner: Planner | None, wake_at: float | None) -> None:
    """Store when the planner must decide again; None: only after an event."""
    moment = None if wake_at is None else datetime.fromtimestamp(wake_at, UTC)
    rows, key = _stored(pool, planner)
    known = rows.filter(**key).values_list("wake_at", flat=True).first()
    if known != moment:
        rows.update_or_create(**key, defaults={"wake_at": moment})


def timers_s() -> dict[tuple[int, int | None], float]:
    """The seconds until each timer is due, by the ids of its pool and planner; negative ones are overdue."""
    return {(pool_id, planner_id): left_s for pool_id, planner_id, left_s in _TIMERS.rows()}


def _stored(pool: Pool, planner: Planner | None) -> tuple[Any, dict[str, Any]]:
    """The manager of the states of such planners, and the key of this one."""
    if planner is None:
        return PolicyState.objects, {"pool": pool}
    return PlannerState.objects, {"planner": planner}
