"""The first step of a decision: the jobs whose reserved GPUs are free start there."""

from __future__ import annotations

from dataclasses import replace

from scheduler.engine.context import CycleContext
from scheduler.model import Job, Reservation
from scheduler.model.plan import Denial
from scheduler.model.request import Config


def bind_reservations(context: CycleContext) -> None:
    """Place the jobs whose reserved GPUs are free, and drop reservations that can no longer be met."""
    for reservation in context.view.reservations:
        job = context.view.waiting_by_id.get(reservation.job_id)
        if reservation.until <= context.now or job is None:
            continue
        yields = context.ledger.yields(job, _config(context, reservation))
        if not yields and _is_usable(context, reservation, job) and _is_held(context, reservation):
            if not (context.ledger.levels() and _starts_elsewhere(context, reservation, job)):
                context.reserved.add(job.id)
            continue
        context.ledger.give(job, reservation.allocations)
        awaits_quota = (
            not yields
            and _lacks_quota(context, job, reservation)
            and any(run.stopping and context.ledger.share_quota(run.job, job) for run in context.view.running)
        )
        if awaits_quota and _is_usable(context, reservation, job):
            context.ledger.take(job, reservation.allocations)
            context.reserved.add(job.id)
            continue
        _release_reservation(context, reservation)
        allowed = not yields and job.eligible_at <= context.now and not _lacks_quota(context, job, reservation)
        if allowed and _is_usable(context, reservation, job) and context.state.free.can_take(reservation.allocations):
            context.given[job.id] = reservation.given
            context.take(job, reservation.allocations)
        else:
            context.drops.add(job.id)


def _starts_elsewhere(context: CycleContext, reservation: Reservation, job: Job) -> bool:
    """True if the job starts on other GPUs that are free by now: GPUs lent from its share come back sooner."""
    context.ledger.give(job, reservation.allocations)
    demands = [demand for demand in context.admissible(job)[0] if context.find(job, demand) is not None]
    if not demands:
        context.ledger.take(job, reservation.allocations)
        return False
    _release_reservation(context, reservation)
    context.drops.add(job.id)
    context.place(job, demands, limited=False)
    context.bind_deferred_lots()
    return True


def _release_reservation(context: CycleContext, reservation: Reservation) -> None:
    """Count the resources of a reservation as free, without the GPUs that jobs still hold."""
    held, used = context.view.holders_of_gpu, context.view.used_by_node
    others = [
        one
        for one in context.view.reservations
        if one is not reservation and one.until > context.now and one.job_id not in context.drops
    ]
    for share in reservation.allocations:
        context.state.free.give([replace(share, gpu_ids=tuple(gpu for gpu in share.gpu_ids if gpu not in held))])
        node = context.state.free.node(share.node_id)
        if node is None:
            continue
        # The reservation took at most what was free, so count what is free again from scratch.
        here = [one for other in others for one in other.allocations if one.node_id == node.id]
        cpus, memory_mib = used.get(node.id, (0, 0))
        full_node = context.view.node_by_id[node.id]
        node.cpus = max(0, full_node.cpus - cpus - sum(one.cpus for one in here))
        node.memory_mib = max(0, full_node.memory_mib - memory_mib - sum(one.memory_mib for one in here))


def _is_usable(context: CycleContext, reservation: Reservation, job: Job) -> bool:
    """True if all reserved GPUs are healthy and their nodes schedulable and eligible for the job."""
    closed = context.closed_to(job)
    for share in reservation.allocations:
        node = context.view.node_by_id.get(share.node_id)
        if node is None or not node.schedulable or node.id in closed:
            return False
        gpus = [context.view.gpu_by_id.get(gpu_id) for gpu_id in share.gpu_ids]
        if not all(gpu is not None and gpu.healthy for gpu in gpus):
            return False
    return True


def _is_held(context: CycleContext, reservation: Reservation) -> bool:
    """True if other jobs still hold reserved GPUs, or are stopping on a node that lacks CPUs or memory."""
    if any(gpu_id in context.view.holders_of_gpu for share in reservation.allocations for gpu_id in share.gpu_ids):
        return True
    short = set()
    for share in reservation.allocations:
        node = context.view.node_by_id[share.node_id]
        cpus, memory_mib = context.view.used_by_node.get(node.id, (0, 0))
        if node.cpus - cpus < share.cpus or node.memory_mib - memory_mib < share.memory_mib:
            short.add(share.node_id)
    return bool(short) and any(
        run.stopping and any(share.node_id in short for share in run.allocations) for run in context.view.running
    )


def _lacks_quota(context: CycleContext, job: Job, reservation: Reservation) -> bool:
    return isinstance(context.ledger.offer(job, _config(context, reservation)), Denial)


def _config(context: CycleContext, reservation: Reservation) -> Config:
    gpu_ids = [gpu_id for share in reservation.allocations for gpu_id in share.gpu_ids]
    gpu = context.view.gpu_by_id.get(gpu_ids[0]) if gpu_ids else None
    return Config(gpu.type if gpu is not None else None, len(gpu_ids), nodes=len(reservation.allocations))
