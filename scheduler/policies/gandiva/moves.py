"""Moves bring a job closer together, or make room for a waiting job.

A move is a preemption of the job for itself and a place in the same plan, so only jobs with checkpoints are moved. A
job is moved at the earliest `introspect_s` after it was placed, and checked at most that often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.authoring import Job, Running
from scheduler.policies.gandiva.job_state import LAST_SEARCH, NO_MOVES, reset_state, state_of
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import AllocationView, CycleContext, Demand, Free, defragment, demand_of


def due_at(run: Running, introspect_s: float | None) -> float | None:
    """The next time to check if a scattered running job could be closer together; None for other jobs."""
    if introspect_s is None or len(run.allocations) < 2 or NO_MOVES in run.job.policy_state or not _movable(run):
        return None
    return max(run.placed_at, run.job.policy_state.get(LAST_SEARCH, run.placed_at)) + introspect_s


def bring_together(context: CycleContext, nodes: Nodes, introspect_s: float, restart_s: float) -> None:
    """Move the due scattered jobs to fewer nodes, or fewer racks, largest first."""
    for run in sorted(_due(context, introspect_s), key=lambda one: (-one.gpus, one.job.id)):
        if context.limit_reached:
            return
        if not _bring_together(context, nodes, run, restart_s):
            context.note(run.job, run, {**state_of(context, run.job), LAST_SEARCH: context.now})


def make_room(
    context: CycleContext, nodes: Nodes, left: Iterable[Job], introspect_s: float, restart_s: float
) -> Job | None:
    """Place the first due job of those left, by moving others; returns the job if that failed."""
    now, free = context.now, context.state.free
    for job in left:
        due = (
            job.request.first.gpus
            and job.id not in context.places
            and now >= job.policy_state.get(LAST_SEARCH, -introspect_s) + introspect_s
        )
        if not due or context.limit_reached:
            continue
        demands = [
            demand for demand in context.admissible(job)[0] if free.gpus(demand.gpu_type) >= demand.gpus * demand.nodes
        ]
        if not demands:
            continue
        settled = [
            run
            for run in context.view.running
            if run.placed_at + introspect_s <= now + SOON_S
            and context.stays(run)
            and NO_MOVES not in run.job.policy_state
            and not ends_too_soon(context, run, restart_s)
            and not any(nodes.is_blocked(share.node_id) for share in run.allocations)
        ]
        return None if any(_make_room(context, job, one, settled, restart_s) for one in demands) else job
    return None


def _movable(run: Running) -> bool:
    return run.job.preemptible and run.job.checkpoints and not run.stopping


def due_runs(context: CycleContext) -> Sequence[Running]:
    """The running jobs whose state may have changed since the last decision."""
    view, due = context.view, context.state.due
    if due is None:
        return list(view.running)
    return [view.running_by_job[job_id] for job_id in sorted(due) if job_id in view.running_by_job]


def _due(context: CycleContext, introspect_s: float) -> Iterable[Running]:
    for run in due_runs(context):
        at = due_at(run, introspect_s)
        if at is not None and at <= context.now + SOON_S and context.stays(run):
            yield run


def _bring_together(context: CycleContext, nodes: Nodes, run: Running, restart_s: float) -> bool:
    """Move the job's GPUs closer together; True if it moves."""
    held = demand_for_held(context, run)
    if held is None or ends_too_soon(context, run, restart_s):
        return False
    context.release(run)
    found = nodes.find_place(run.job, held) or context.find(run.job, held)
    if found is None or _spread(context, found) >= _spread(context, run.allocations):
        context.undo_release(run)
        return False
    context.take(run.job, found)
    context.preempt(run, run.job.id, "it moves to GPUs that are closer together")
    reset_state(context, run, probation=True)
    return True


def _make_room(context: CycleContext, job: Job, demand: Demand, settled: Sequence[Running], restart_s: float) -> bool:
    free = context.state.free
    moves = defragment(
        free, settled, demand, context.placement, now=context.now, restart_s=lambda _: max(1.0, restart_s)
    )
    if not moves or len(context.places) + len(moves) >= context.max_places:
        return False
    for move in moves:
        context.release(move.run)
    found = context.placement.place(free, demand, ())
    if found is None or not _fit(
        free, [found, *(move.allocations for move in moves)]
    ):  # the search assumed the release of jobs that stay after all
        for move in reversed(moves):
            context.undo_release(move.run)
        return False
    context.take(job, found)
    for move in moves:
        context.take(move.run.job, move.allocations)
        context.preempt(move.run, move.run.job.id, f"it moves to make room for job {job.id}")
        reset_state(context, move.run, probation=True)
    return True


def _fit(free: Free, lots: Sequence[tuple[AllocationView, ...]]) -> bool:
    """True if all of these are free together."""
    taken = []
    for allocations in lots:
        if not free.can_take(allocations):
            break
        free.take(allocations)
        taken.append(allocations)
    for allocations in reversed(taken):
        free.give(allocations)
    return len(taken) == len(lots)


def ends_too_soon(context: CycleContext, run: Running, restart_s: float) -> bool:
    """True if the job ends before a move could pay off."""
    left_s = run.remaining_s(context.now)
    return left_s is not None and left_s <= restart_s


def demand_for_held(context: CycleContext, run: Running) -> Demand | None:
    """The demand for what the job holds, to be placed elsewhere; None if some of it is out of service."""
    free, job = context.state.free, run.job
    gpu_ids = [gpu_id for share in run.allocations for gpu_id in share.gpu_ids]
    in_service = all(free.node(share.node_id) is not None for share in run.allocations)
    if not gpu_ids or not in_service or not all(map(free.usable, gpu_ids)):
        return None
    return demand_of(free.given_to(run), closed=context.closed_to(job))


def _spread(context: CycleContext, allocations: Sequence[AllocationView]) -> tuple[int, int]:
    """The number of nodes and of racks that these allocations use."""
    return len(allocations), len({context.view.node_by_id[share.node_id].rack for share in allocations})
