"""Grow and shrink: an elastic job takes GPUs of its node that have been idle for a while, and returns them on demand.

The job's policy state remembers since when GPUs of its node have been idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scheduler.authoring import Job, Running
from scheduler.policies.gandiva.job_state import MAX_GPUS, reset_state, state_of
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import AllocationView, CycleContext, Demand, FreeNode

_IDLE = "idle"


def due_at(run: Running, grow_after_s: float | None) -> float | None:
    """The time at which idle GPUs of the job's node have been idle for long enough; None without known idle GPUs."""
    return (
        run.job.policy_state[_IDLE] + grow_after_s
        if grow_after_s is not None and _IDLE in run.job.policy_state
        else None
    )


def grow(context: CycleContext, nodes: Nodes, grow_after_s: float, restart_s: float) -> None:
    """Grow each elastic job into GPUs of its node that have been idle for long enough, unless a job waits; oldest
    first.

    Note the idle GPUs of the nodes of jobs placed in this decision.
    """
    none_waits = not any(
        job.id not in context.places and job.eligible_at <= context.now and job.request.needs_gpus
        for job in context.view.waiting
    )
    placed = sorted(context.places.items())
    elastic = [run for run in context.view.running if _is_elastic(run.job, run.allocations) and context.stays(run)]
    for run in sorted(elastic, key=lambda one: (one.placed_at, one.job.id)):
        left_s = run.remaining_s(context.now)
        able = none_waits and not context.limit_reached
        more = _idle_on_node(context, nodes, run.job, run.allocations[0], left_s, restart_s=restart_s) if able else ()
        since = run.job.policy_state.get(_IDLE)
        if not more:
            if since is not None:
                policy_state = state_of(context, run.job)
                context.note(run.job, run, {key: value for key, value in policy_state.items() if key != _IDLE})
        elif since is None:
            context.note(run.job, run, {**state_of(context, run.job), _IDLE: context.now})
        elif since + grow_after_s <= context.now + SOON_S:
            gpus = run.gpus + len(more)
            _resize(context, run, (*run.allocations[0].gpu_ids, *more), f"it grows from {run.gpus} GPUs to {gpus}")
    for job_id, place in placed if none_waits else ():
        mover = context.view.running_by_job.get(job_id)
        job = context.view.waiting_by_id[job_id] if mover is None else mover.job
        left_s = job.remaining_s if mover is None else mover.remaining_s(context.now)
        if _is_elastic(job, place.allocations) and _idle_on_node(
            context, nodes, job, place.allocations[0], left_s, restart_s=restart_s
        ):
            context.note(job, mover, {**state_of(context, job), _IDLE: context.now})


def all_grown(context: CycleContext) -> Sequence[Running]:
    """The jobs that run with more GPUs than they asked for."""
    return [
        run for run in context.view.running if run.job.request.max_gpus > run.job.request.first.gpus and _has_grown(run)
    ]


def shrink(
    context: CycleContext, nodes: Nodes, job: Job, demands: Sequence[Demand], candidates: Sequence[Running]
) -> bool:
    """Shrink grown candidates to the size they asked for until the job fits; True if it found room.

    Only candidates whose GPUs the job needs shrink.
    """
    if context.limit_reached:
        return False
    grown = [run for run in candidates if context.stays(run)]
    if not grown:
        return False
    grown.sort(key=lambda run: (run.job.request.gpus_total - run.gpus, run.job.id))
    return any(_shrink(context, nodes, job, demand, grown) for demand in demands)


def _shrink(context: CycleContext, nodes: Nodes, job: Job, demand: Demand, grown: Sequence[Running]) -> bool:
    gone: list[Running] = []
    found = None
    for run in grown:
        if len(context.places) + len(gone) + 2 > context.max_places:
            break
        context.release(run)
        _hold(context, run, 1)
        gone.append(run)
        if context.quota_denial(job, demand) is None:
            found = nodes.find_place(job, demand) or context.find(job, demand)
        if found is not None:
            break
    if found is not None:
        context.take(job, found)
    for run in reversed(gone):
        _hold(context, run, -1)
        if context.can_stay(run):
            context.undo_release(run)
        else:
            context.take(run.job, _own(run))
            context.preempt(run, run.job.id, "it shrinks to the size it asked for, because other jobs wait")
            reset_state(context, run)
    return found is not None


def _hold(context: CycleContext, run: Running, times: int) -> None:
    """Take the allocations that the shrunk job keeps, or give them back with `times` -1."""
    if times > 0:
        context.state.free.take(_own(run))
        context.ledger.take(run.job, _own(run))
    else:
        context.state.free.give(_own(run))
        context.ledger.give(run.job, _own(run))


def _own(run: Running) -> tuple[AllocationView, ...]:
    """The allocations that a grown job keeps when it shrinks."""
    return (_share_of(run, run.allocations[0].gpu_ids[: run.job.request.first.gpus]),)


def _share_of(run: Running, gpu_ids: Sequence[int]) -> AllocationView:
    """The allocation of a job on one node with these GPUs of its node, and the CPUs and memory that go with them."""
    request = run.job.request
    size, lots = request.resized(request.first, len(gpu_ids)), len(gpu_ids) if request.divisible else 1
    return replace(run.allocations[0], gpu_ids=tuple(gpu_ids), cpus=size.cpus * lots, memory_mib=size.memory_mib * lots)


def _resize(context: CycleContext, run: Running, gpu_ids: Sequence[int], detail: str) -> None:
    job = run.job
    share = _share_of(run, gpu_ids)
    context.release(run)
    context.take(job, (share,))
    context.preempt(run, job.id, detail)
    reset_state(context, run, probation=True)


def _is_elastic(job: Job, allocations: Sequence[AllocationView]) -> bool:
    """True if the job may have another size, on the one node where it runs."""
    # Check the size first: few jobs are elastic, and every decision checks all running jobs.
    able = (
        job.request.max_gpus > job.request.first.gpus
        and job.request.nodes == 1
        and bool(job.speeds)
        and job.preemptible
        and job.checkpoints
    )
    return able and len(job.request.choices) == 1 and len(allocations) == 1


def _has_grown(run: Running) -> bool:
    return _is_elastic(run.job, run.allocations) and run.gpus > run.job.request.first.gpus


def _idle_on_node(
    context: CycleContext, nodes: Nodes, job: Job, share: AllocationView, left_s: float | None, *, restart_s: float
) -> tuple[int, ...]:
    """The idle GPUs of the job's node that would save more time than a restart takes."""
    node, gpus = context.state.free.node(share.node_id), len(share.gpu_ids)
    if node is None or nodes.shared(node.id) or not all(map(context.state.free.usable, share.gpu_ids)):
        return ()
    kind = context.state.free.type_of(share.gpu_ids[0])
    most = min(job.request.max_gpus, len(job.speeds), int(job.policy_state.get(MAX_GPUS, job.request.max_gpus)))
    for more in range(min(node.count(kind), most - gpus), 0, -1):
        if not _has_room(node, context.demands_on(job, kind, gpus + more)[0], share):
            continue
        now, then = job.speed_on(gpus), job.speed_on(gpus + more)
        if then <= now or then <= job.speed_on(gpus + more - 1):
            continue
        if left_s is not None and left_s / now - left_s / then <= restart_s:
            continue
        if context.quota_denial(job, context.demands_on(job, kind, more)[0]) is None:
            return tuple(node.gpus[kind][:more])
    return ()


def _has_room(node: FreeNode, demand: Demand, share: AllocationView) -> bool:
    """True if the node has the CPUs and memory by which the demand exceeds the allocation on it."""
    lots = demand.gpus if demand.divisible else 1
    cpus, memory_mib = demand.cpus * lots - share.cpus, demand.memory_mib * lots - share.memory_mib
    return node.id not in demand.closed and node.cpus >= cpus and node.memory_mib >= memory_mib
