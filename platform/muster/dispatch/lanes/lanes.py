"""The loop of a lane: solve when the pool has changed or a moment has come, and store the target."""

from __future__ import annotations

import logging
import threading
import time

from django.db import DatabaseError, InterfaceError, close_old_connections, connection
from django.db.models import Max

from muster.common.clock import database_now
from muster.common.session_lock import SessionLock
from muster.common.statements import Statement
from muster.dispatch.config.settings import config_of, fall_back, simpler_config
from muster.dispatch.lanes import targets
from muster.dispatch.lanes.solver import SolveError, Solver
from muster.dispatch.models import Lane, Target
from muster.dispatch.snapshot.snapshot import planner_snapshot
from muster.events.models import Event
from scheduler.model.planners import own_part

log = logging.getLogger(__name__)

LOOK_EVERY_S, SURE_FOR_S = 0.5, 5.0
# The first half of the key of the advisory lock of a lane; the second half is the pool's id.
_LOCK_SPACE = 0x6C616E65
_LOCK_KEYS = 1 << 31
# What a solve depends on: jobs that wait or run, and nodes.
_CHANGES = """
SELECT md5(concat(
    (SELECT string_agg(concat_ws(':', id, state, desired, priority, eligible_at, request), ',' ORDER BY id)
     FROM jobs_job WHERE pool_id = %s AND (startable OR state = 'active')),
    (SELECT string_agg(concat_ws(':', id, version, health, admin), ',' ORDER BY id)
     FROM fleet_node WHERE pool_id = %s)))
"""
_WANTED = Statement("SELECT pool_id FROM dispatch_lane WHERE mode <> 'off'")


class PoolLane:
    """The lane of one pool, in a process of its own."""

    def __init__(self, pool_id: int) -> None:
        self.pool_id = pool_id
        self._stopped = threading.Event()
        self._seen: tuple[str, object] | None = None  # the pool and its settings at the last solve
        self._newest_event: int | None = None
        self._sure_until = 0.0
        self._wake_at: float | None = None
        self._lock = SessionLock(_LOCK_SPACE, pool_id % _LOCK_KEYS)
        self._solver = Solver()

    def stop(self) -> None:
        self._stopped.set()
        self._solver.end()

    def run(self) -> None:
        """Solve until stopped, or until the pool has no lane any more. Another process with this lane goes first."""
        try:
            while not self._stopped.is_set():
                close_old_connections()
                try:
                    if not (self._lock.held or self._lock.take()):
                        log.info("lane_taken pool=%s", self.pool_id)
                    elif not self.turn():
                        return
                except (DatabaseError, InterfaceError) as error:
                    log.warning("lane_failed pool=%s error=%s", self.pool_id, error)
                self._stopped.wait(LOOK_EVERY_S)
        finally:
            self._solver.end()

    def turn(self) -> bool:
        """Solve if there is a reason to; returns whether the pool still has a lane."""
        lane = Lane.objects.select_related("pool").filter(pool_id=self.pool_id).first()
        if lane is None or lane.mode == Lane.Mode.OFF:
            return False
        if targets.lane_of(lane.pool) is None:
            return True  # the pool has fallen back: its operators decide when it goes on
        settings = (lane.mode, config_of(lane.pool))
        due = self._wake_at is not None and self._wake_at <= database_now().timestamp()
        if not due and self._seen is not None and self._seen[1] == settings and not self._may_have_changed():
            return True
        seen = (self._changes(), settings)
        if seen != self._seen or due:
            self._solve(lane)
            self._seen = seen
        return True

    def _may_have_changed(self) -> bool:
        """Whether anything was recorded since the last look. Ids may commit late, so now and then it is assumed."""
        newest, before = Event.objects.aggregate(newest=Max("pk"))["newest"], self._newest_event
        self._newest_event = newest
        if newest != before or time.monotonic() >= self._sure_until:
            self._sure_until = time.monotonic() + SURE_FOR_S
            return True
        return False

    def _solve(self, lane: Lane) -> Target:
        """Solve and store a target; a solve that fails is recorded, and the pool falls back."""
        pool, config, started = lane.pool, config_of(lane.pool), time.perf_counter()
        snapshot = planner_snapshot(pool, None, seed=pool.pk)
        try:
            plan = own_part(snapshot, self._solver.solve(snapshot, config, limit_s=lane.limit_s))
        except SolveError as error:
            solve_ms = (time.perf_counter() - started) * 1000
            if self._stopped.is_set():
                return targets.store_failure(pool, snapshot, config, "the lane was stopped", solve_ms=solve_ms)
            log.exception("solve_failed pool=%s policy=%s", pool.name, config.policy)
            target = targets.store_failure(pool, snapshot, config, str(error), solve_ms=solve_ms)
            to = simpler_config(config)
            if to is not None:
                fall_back(pool, failed=config, to=to, why=str(error)[:500], cycle_id=None)
            return target
        self._wake_at = plan.wake_at
        return targets.store(pool, snapshot, config, plan, solve_ms=(time.perf_counter() - started) * 1000)

    def _changes(self) -> str:
        with connection.cursor() as cursor:
            cursor.execute(_CHANGES, [self.pool_id, self.pool_id])
            return str(cursor.fetchone()[0])


def pools_with_lanes() -> set[int]:
    return {pool_id for (pool_id,) in _WANTED.rows()}
