"""Probation: a job that was moved or has grown is checked again, and goes back if it has become slower.

1. At the change, the job's policy state records its speed and what it held.
2. `trial_s` after the job was placed, once its new speed is known, the two speeds are compared.
3. If it is slower, it goes back to as many GPUs on its former nodes, if they are free. In any case it is not moved
   again, neither closer together nor to make room, or does not grow to that size again.

Only a job alone on its GPUs before and after is compared: otherwise the cause of a slowdown is unknown.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.authoring import Running
from scheduler.policies.gandiva.job_state import (
    MAX_GPUS,
    NO_MOVES,
    SPEED_BEFORE,
    SliceNodes,
    lasting_state,
    nodes_before_change,
    state_of,
    without_probation,
)
from scheduler.policies.gandiva.moves import demand_for_held, due_runs, ends_too_soon
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import CycleContext, demand_of

# The relative noise between two measurements of a speed.
_CHANCE = 0.05


def due_at(run: Running, trial_s: float | None) -> float | None:
    """The time to judge the job's last change; None without a change or a known speed."""
    return run.placed_at + trial_s if trial_s is not None and SPEED_BEFORE in run.job.policy_state else None


def judge(context: CycleContext, nodes: Nodes, trial_s: float, restart_s: float) -> None:
    """Send back jobs that a change has made slower."""
    for run in due_runs(context):
        at = due_at(run, trial_s)
        if at is None or at > context.now + SOON_S or run.speed is None or run.rate is not None:
            continue
        if not context.stays(run):
            continue
        policy_state, before = state_of(context, run.job), nodes_before_change(run.job)
        if run.speed >= policy_state[SPEED_BEFORE] * (1 - _CHANCE):
            context.note(run.job, run, without_probation(policy_state))
            continue
        grown = sum(before.values()) < run.gpus
        learnt = {MAX_GPUS: run.gpus - 1.0} if grown else {NO_MOVES: 1.0}
        went = not ends_too_soon(context, run, restart_s) and _go_back(context, nodes, run, before)
        context.note(run.job, run, {**(lasting_state(run.job) if went else without_probation(policy_state)), **learnt})


def _go_back(context: CycleContext, nodes: Nodes, run: Running, before: SliceNodes) -> bool:
    """Put the job back on its nodes before the change; True if it moves."""
    held = demand_for_held(context, run)
    if held is None or context.limit_reached or any(map(nodes.is_blocked, before)):
        return False
    context.release(run)
    if held.divisible:
        held = demand_of(held.request, replace(held.choice, gpus=sum(before.values())))
    elif sum(before.values()) < run.gpus:
        (held, *_) = context.demands_on(run.job, str(held.gpu_type), sum(before.values()))
    found = nodes.place_on(held, before)
    if found is None:
        context.undo_release(run)
        return False
    context.take(run.job, found)
    context.preempt(run, run.job.id, "it is slower here, and goes back to its former GPUs")
    return True
