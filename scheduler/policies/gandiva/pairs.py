"""Pairs: under overload, two jobs with low utilisation share their GPUs.

1. A pair is judged a while after it was made. If the measured relative speeds of the two add up to no more than time
   slicing gives, the pair is undone, and the two jobs are never paired again. If the speed alone of the second job is
   unknown, the first one must have more than half.
2. A job without GPUs is paired with the running job of its size with the lowest utilisation.
3. When no job waits, the later job of a pair moves to free GPUs of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.authoring import Config, Job, Running
from scheduler.policies.gandiva.job_state import are_banned, ban_state, lasting_state, reset_state
from scheduler.policies.gandiva.moves import demand_for_held
from scheduler.policies.gandiva.nodes import Nodes
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import SLOTS, AttemptState, CycleContext, Denial, QueueWalk, colocate

# The combined progress of two time-sliced jobs, relative to a job alone on the GPUs.
_TIME_SLICED = 1.0


def due_at(run: Running, trial_s: float | None) -> float | None:
    """The time to judge the pair that this job completed; None for a job that shares nothing."""
    return run.placed_at + trial_s if trial_s is not None and run.rate is not None else None


def judge(context: CycleContext, trial_s: float) -> None:
    """Undo the pairs that are no faster than time slicing."""
    for first, second in _pairs(context):
        if second.placed_at + trial_s > context.now + SOON_S or not _slower_than_slices(first.rate, second.rate):
            continue
        goer = next((run for run in (second, first) if run.job.preemptible and run.job.checkpoints), None)
        if goer is None:
            continue  # a stop without a checkpoint would cost more
        other = first if goer is second else second
        context.release(goer)
        context.preempt(goer, other.job.id, "the two jobs on its GPUs are slower than with time slices")
        context.note(goer.job, goer, {**lasting_state(goer.job), **ban_state(other.job)})


def pack(context: CycleContext, nodes: Nodes, walk: QueueWalk) -> Sequence[Job]:
    """Pair each remaining job, in order, with the host of the lowest utilisation; returns the paired jobs."""
    hosts, packed = _hosts(context), list[Job]()
    while hosts and not context.limit_reached and (entry := walk.next()) is not None:
        job, _ = entry
        if not job.request.shares_gpu or not job.request.needs_gpus:
            walk.drop()
        elif job.id not in context.places and job.id not in context.reserved:
            host = _pack(context, nodes, job, hosts)
            if host is not None:
                hosts.remove(host)
                packed.append(job)
            elif not lasting_state(job) and not any(are_banned(job, host.job) for host in hosts):
                walk.drop()  # other jobs of its class find no host either
    return packed


def separate(context: CycleContext, nodes: Nodes, restart_s: float) -> None:
    """Move the later job of each slowed pair to GPUs of its own."""
    for _, run in _pairs(context):
        if context.limit_reached:
            return
        left_s, held = run.remaining_s(context.now), demand_for_held(context, run)
        movable = run.job.preemptible and run.job.checkpoints and context.stays(run)
        if not movable or held is None or run.rate == 1.0 or (left_s is not None and left_s <= restart_s):
            continue
        found = nodes.find_place(run.job, held) or context.find(run.job, held)
        if found is None or context.quota_denial(run.job, held) is not None:
            continue
        context.release(run)
        context.take(run.job, found)
        context.preempt(run, run.job.id, "it moves to GPUs of its own")
        reset_state(context, run)


def _slower_than_slices(*rates: float | None) -> bool:
    known = [rate for rate in rates if rate is not None]
    return bool(known) and sum(known) <= _TIME_SLICED * len(known) / len(rates)


def _pairs(context: CycleContext) -> Iterator[tuple[Running, Running]]:
    """The pairs that share GPUs, the later job second; by id."""
    view = context.view
    pairs = {holders for gpu_id in context.state.free.shared if len(holders := view.holders_of_gpu.get(gpu_id, ())) > 1}
    for pair in sorted(pairs):
        runs = sorted((view.running_by_job[one] for one in pair), key=lambda run: (run.placed_at, run.attempt_id))
        if all(map(context.stays, runs)):
            yield runs[0], runs[1]


def _hosts(context: CycleContext) -> list[Running]:
    """The jobs whose GPUs have room for another job, lowest utilisation first."""
    late = {preempt.for_job_id for preempt in context.preempts.values()}
    there = [run for run in context.view.running if run.job.request.shares_gpu and context.stays(run)]
    for place in context.places.values():
        job = context.view.waiting_by_id.get(place.job_id)
        if job is not None and job.request.shares_gpu and job.id not in late:
            there.append(Running(-job.id, job, AttemptState.PLACED, place.allocations, context.now))
    alone = [run for run in there if run.gpus and 0 < context.state.free.room_on(_a_gpu(run)) < SLOTS]
    return sorted(alone, key=lambda run: (_utilization(run.job), run.job.id))


def _pack(context: CycleContext, nodes: Nodes, job: Job, hosts: Sequence[Running]) -> Running | None:
    demands = context.demands(job)
    for host in hosts:
        if are_banned(job, host.job) or any(nodes.is_blocked(share.node_id) for share in host.allocations):
            continue
        for demand in demands:
            if isinstance(context.ledger.offer(job, Config(demand.gpu_type, 0)), Denial):
                continue
            found = colocate(context.view, context.state.free, job, demand, host)
            if found is not None:
                context.take(job, found)
                return host
    return None


def _a_gpu(run: Running) -> int:
    return next(share.gpu_ids[0] for share in run.allocations if share.gpu_ids)


def _utilization(job: Job) -> float:
    return 1.0 if job.utilization is None else job.utilization
