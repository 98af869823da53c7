"""Probation: a job that was moved or has grown is checked again, and goes back if it has become slower.

1. At the change, the job's policy state records its speed and what it held.
2. `trial_s` after the job was placed, once its new speed is known, the two speeds are compared.
3. If it is slower, it goes back to as many GPUs on its former nodes, if they are free. In any case it is not moved
   again, neither closer together nor to make room, or does not grow to that size again.

Only a job alone on its GPUs before and after is compared: otherwise the cause of a slowdown is unknown.
"""

from __future__ import annotations

from scheduler.engine.context import CycleContext
from scheduler.model import Running
from scheduler.policies.gandiva.homes import BEFORE, MOST, STAYS, Home, kept_memo, left_home, memo_of, without_trial
from scheduler.policies.gandiva.moves import due_runs, held_as_demand, too_late
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S

# The relative noise between two measurements of a speed.
_CHANCE = 0.05


def due_at(run: Running, trial_s: float | None) -> float | None:
    """When to judge the job's last change; None without a change or a known speed."""
    return run.placed_at + trial_s if trial_s is not None and BEFORE in run.job.memo else None


def judge(context: CycleContext, nodes: Nodes, trial_s: float, restart_s: float) -> None:
    """Send back jobs that a change has made slower."""
    for run in due_runs(context):
        at = due_at(run, trial_s)
        if at is None or at > context.now + SOON_S or run.speed is None or run.rate is not None:
            continue
        if not context.stays(run):
            continue
        memo, home = memo_of(context, run.job), left_home(run.job)
        if run.speed >= memo[BEFORE] * (1 - _CHANCE):
            context.note(run.job, run, without_trial(memo))
            continue
        grown = sum(home.values()) < run.gpus
        learnt = {MOST: run.gpus - 1.0} if grown else {STAYS: 1.0}
        went = not too_late(context, run, restart_s) and _go_back(context, nodes, run, home)
        context.note(run.job, run, {**(kept_memo(run.job) if went else without_trial(memo)), **learnt})


def _go_back(context: CycleContext, nodes: Nodes, run: Running, home: Home) -> bool:
    """Whether the job goes back to what it held before."""
    held = held_as_demand(context, run)
    if held is None or context.limit_reached or any(map(nodes.is_blocked, home)):
        return False
    context.release(run)
    found = nodes.room(held._replace(gpus=sum(home.values())) if held.split else held, home)
    if found is None:
        context.undo_release(run)
        return False
    context.take(run.job, found)
    context.preempt(run, run.job.id, "it is slower here, and goes back to its former GPUs")
    return True
