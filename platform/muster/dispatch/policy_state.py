"""What the policy of a pool remembers, and its timer: stored after each cycle, and read by the next one."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from django.db import connection

from muster.dispatch.models import PolicyState
from muster.fleet.models import Pool
from scheduler import model
from scheduler.model.plan import Plan

log = logging.getLogger(__name__)


def pool_state_of(pool: Pool) -> model.PoolState | None:
    """What the policy of the pool remembered last."""
    row = PolicyState.objects.filter(pool=pool).first()
    return None if row is None or not row.version else model.PoolState(row.policy, row.version, row.data)


def keep_pool_state(pool: Pool, before: model.PoolState | None, plan: Plan) -> None:
    """Store what the plan remembers, if it differs from what the cycle read."""
    new = plan.pool_state
    if new is None or new == before:
        return
    if before is not None and (before.policy, before.version) != (new.policy, new.version):
        log.info(
            "pool_state_replaced pool=%s was=%s %s is=%s %s",
            pool.name,
            before.policy,
            before.version,
            new.policy,
            new.version,
        )
    PolicyState.objects.update_or_create(
        pool=pool, defaults={"policy": new.policy, "version": new.version, "data": new.data}
    )


def set_timer(pool: Pool, wake_at: float | None) -> None:
    """Store when the pool must be decided on again; None: only after an event."""
    moment = None if wake_at is None else datetime.fromtimestamp(wake_at, UTC)
    known = PolicyState.objects.filter(pool=pool).values_list("wake_at", flat=True).first()
    if known != moment:
        PolicyState.objects.update_or_create(pool=pool, defaults={"wake_at": moment})


def timers_s() -> dict[int, float]:
    """The seconds until each timer is due, by the id of its pool; negative ones are overdue."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pool_id, extract(epoch FROM wake_at - clock_timestamp())::float8"
            " FROM dispatch_policystate WHERE wake_at IS NOT NULL ORDER BY wake_at, pool_id"
        )
        return dict(cursor.fetchall())
