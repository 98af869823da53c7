"""Celery tasks: the scheduling loop, its sweeps, the reaper, and the deletion of old records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from django.db import DatabaseError, InterfaceError, close_old_connections
from django.db.models import Sum
from django.db.models.functions import Length
from django.utils import timezone

from muster.common.periodic import consumes
from muster.dispatch.config.planners import planner_ids
from muster.dispatch.config.policy_state import timers_s
from muster.dispatch.cycles import run_cycle as run_one_cycle
from muster.dispatch.lanes.lane_processes import LaneProcesses
from muster.dispatch.models import Cycle, Target
from muster.dispatch.reaper import pools_to_reap
from muster.dispatch.reaper import reap as reap_pool
from muster.dispatch.snapshot.parts import all_work
from muster.events.services import ask_for_cycle, forget_hint
from muster.fleet.leases import tick
from muster.fleet.models import Pool
from muster.jobs.models import IdempotencyKey

log = logging.getLogger(__name__)

# When the last requested cycle of a planner that had something to decide on ended in this process.
_decided_at: dict[tuple[int, int | None], float] = {}

SWEEP_EVERY_S = 2.0
TIMER_EVERY_S = 0.25
GATHER_S = 0.04
SNAPSHOTS_KEPT_FOR = timedelta(hours=24)
SNAPSHOTS_KEPT_BYTES = 1 << 30
CYCLES_KEPT_FOR = timedelta(days=30)
KEYS_KEPT_FOR = timedelta(days=7)


@shared_task(name="dispatch.run_cycle")
def run_cycle(pool_id: int, planner_id: int | None = None) -> None:
    """Run a requested cycle. A request for a pool is one for each of its planners.

    In a burst it waits until `GATHER_S` after the last decision, so that one cycle serves several changes.
    """
    time.sleep(max(0.0, _decided_at.get((pool_id, planner_id), 0.0) + GATHER_S - time.monotonic()))
    if planner_id is None:
        forget_hint(pool_id)
        for each in planner_ids(pool_id):
            ask_for_cycle(pool_id, each)
    if run_one_cycle(pool_id, trigger="hint", planner_id=planner_id).cycle_id is not None:
        _decided_at[pool_id, planner_id] = time.monotonic()


def sweep() -> None:
    """Run a cycle of each planner that has anything to do, in case a request for one was lost."""
    for work in all_work():
        if work.any:
            _run_planner(work.pool_id, work.planner_id, trigger="sweep")


def run_due_timers() -> None:
    """Run a cycle of each planner whose timer is due. A timer that the last cycle left due is the sweep's."""
    for (pool_id, planner_id), left_s in timers_s().items():
        if -SWEEP_EVERY_S < left_s <= 0:
            _run_planner(pool_id, planner_id, trigger="timer")


def _run_planner(pool_id: int, planner_id: int | None, *, trigger: str) -> None:
    """Run a cycle; an error such as bad settings is logged, and stops no other planner."""
    _alone(pool_id, lambda: run_one_cycle(pool_id, trigger=trigger, planner_id=planner_id))


def reap() -> None:
    """Check every pool for lost nodes and overdue attempts; one statement tells in which there may be any."""
    tick("reaper")
    for pool_id in pools_to_reap():
        _alone(pool_id, partial(_reap, pool_id))


def _reap(pool_id: int) -> None:
    reap_pool(Pool.objects.get(pk=pool_id))


@shared_task(name="dispatch.forget_old_cycles")
def forget_old_cycles() -> None:
    """Delete snapshots past a day or a gibibyte of each kind, targets past a day, old cycles and idempotency keys."""
    now = timezone.now()
    Cycle.objects.filter(started_at__lt=now - SNAPSHOTS_KEPT_FOR).update(snapshot=None, plan=None)
    for snapshots in (Cycle.objects.filter(snapshot__isnull=False), Target.objects.filter(snapshot__isnull=False)):
        while (snapshots.aggregate(size=Sum(Length("snapshot")))["size"] or 0) > SNAPSHOTS_KEPT_BYTES:
            oldest = list(snapshots.order_by("pk").values_list("pk", flat=True)[:200])
            snapshots.filter(pk__in=oldest).update(snapshot=None, plan=None)
    Cycle.objects.filter(started_at__lt=now - CYCLES_KEPT_FOR).delete()
    Target.objects.filter(made_at__lt=now - SNAPSHOTS_KEPT_FOR).delete()
    IdempotencyKey.objects.filter(created_at__lt=now - KEYS_KEPT_FOR).delete()


class SweepTimer(threading.Thread):
    """The schedule worker's own timer: scheduling progresses without Redis.

    It sweeps once every `SWEEP_EVERY_S`, and in between runs the cycles of pools whose timers are due.
    """

    def __init__(self) -> None:
        super().__init__(name="sweep-timer", daemon=True)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Sweep, reap and run timers until stopped; wait while the database is down."""
        swept_at, pause_s = time.monotonic(), SWEEP_EVERY_S
        while not self._stopped.wait(pause_s):
            close_old_connections()
            pause_s = SWEEP_EVERY_S
            try:
                if time.monotonic() >= swept_at + SWEEP_EVERY_S:
                    reap()
                    sweep()
                    tick("schedule")
                    swept_at = time.monotonic()
                else:
                    run_due_timers()
                pause_s = self._pause_s(swept_at)
            except (DatabaseError, InterfaceError) as error:
                log.warning("sweep_failed error=%s", error)
            finally:
                close_old_connections()

    def _pause_s(self, swept_at: float) -> float:
        """The time until the next sweep or, if that is sooner, the next timer."""
        to_sweep_s = swept_at + SWEEP_EVERY_S - time.monotonic()
        to_timer_s = min((left_s for left_s in timers_s().values() if left_s > 0), default=SWEEP_EVERY_S)
        return max(0.0, min(to_sweep_s, max(to_timer_s, TIMER_EVERY_S)))

    def stop(self) -> None:
        self._stopped.set()


def _alone(pool_id: int, act: Callable[[], object]) -> None:
    """Act on a pool. An error in it, such as bad settings, is logged and stops no other pool."""
    try:
        act()
    except (DatabaseError, InterfaceError):
        raise
    except Exception:
        log.exception("pool_failed pool=%s", pool_id)


_threads: list[SweepTimer | LaneProcesses] = []


@worker_ready.connect
def _start_threads(sender: object = None, **_: object) -> None:
    if consumes(sender, "schedule"):
        for thread in (SweepTimer(), LaneProcesses()):
            _threads.append(thread)
            thread.start()


@worker_shutting_down.connect
def _stop_threads(**_: object) -> None:
    for thread in _threads:
        thread.stop()
