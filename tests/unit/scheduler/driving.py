"""Moving a small world on: decisions carried out by people who stop at once, time, and ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.engine.cycle import CycleConfig, compose, decide
from scheduler.model import Job, Snapshot
from scheduler.model.invariants import check
from scheduler.model.plan import apply, release


def carried_out(world: Snapshot, config: CycleConfig) -> Snapshot:
    """The world after decisions about this moment, until nothing changes: who is preempted lets go at once."""
    for _ in range(20):
        plan = decide(world, config)
        if check(world, plan, compose(config).admission):
            raise AssertionError(f"unlawful: {check(world, plan, compose(config).admission)}")
        if not plan.places and not plan.preempts:
            return apply(world, plan)
        world = release(apply(world, plan), [preempt.job_id for preempt in plan.preempts])
    raise AssertionError("decisions about one moment go on and on")


def later(world: Snapshot, now: float, arrived: Iterable[Job] = (), ended: Iterable[int] = ()) -> Snapshot:
    """The world at another moment: with jobs that have come, and without the attempts of those that have ended."""
    gone = set(ended)
    return replace(
        world,
        now=now,
        waiting=tuple(sorted([*world.waiting, *arrived], key=lambda job: job.id)),
        running=tuple(run for run in world.running if run.job.id not in gone),
    )


def running(world: Snapshot) -> set[int]:
    """The ids of the jobs that run."""
    return {run.job.id for run in world.running if not run.stopping}
