"""Colocation: placing a job on the GPUs of a running job. Policies call it; placements do not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from scheduler.model import AllocationView, Job, Locality, Running, View
from scheduler.model.sharing import may_share
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free


def colocate(
    view: View, free: Free, job: Job, demand: Demand, run: Running, *, leaving: Collection[int] = ()
) -> tuple[AllocationView, ...] | None:
    """One allocation for each rank, on exactly the GPUs of the run; None if the two jobs cannot share them.

    The same plan may start the run. No third job may hold these GPUs, stopping jobs included, unless this plan
    preempts it: `leaving` are the ids of such jobs. Both jobs must have as
    many GPUs on as many nodes: if only some ranks of a gang shared GPUs, the others would wait for them.
    """
    if (
        not job.request.shares_gpu
        or not run.job.request.shares_gpu
        or run.stopping
        or job.request.max_gpus
        or run.job.request.max_gpus
    ):
        return None
    if not _alike(view, job, demand, run) or not _near(view, demand, run):
        return None
    found = []
    for share in run.allocations:
        node, lots = free.node(share.node_id), len(share.gpu_ids) if demand.divisible else 1
        cpus, memory_mib = demand.cpus * lots, demand.memory_mib * lots
        if node is None or node.id in demand.closed or node.cpus < cpus or node.memory_mib < memory_mib:
            return None
        if not all(_shared(view, free, (job, run), gpu_id, leaving) for gpu_id in share.gpu_ids):
            return None
        found.append(replace(share, cpus=cpus, memory_mib=memory_mib, slots=job.slots))
    return tuple(found)


def _alike(view: View, job: Job, demand: Demand, run: Running) -> bool:
    """True if the run has the GPU type, the GPUs and the nodes of the demand."""
    if not demand.gpus or run.gpus != demand.gpus * demand.nodes:
        return False
    gpus = (view.gpu_by_id.get(gpu_id) for share in run.allocations for gpu_id in share.gpu_ids)
    if not all(gpu is not None and gpu.type == demand.gpu_type for gpu in gpus):
        return False
    return job.request.divisible or {len(share.gpu_ids) for share in run.allocations} == {demand.gpus}


def _near(view: View, demand: Demand, run: Running) -> bool:
    """True if the run meets the locality of the demand."""
    if demand.within is Locality.NODE:
        return len(run.allocations) == 1
    racks = {view.node_by_id[share.node_id].rack for share in run.allocations if share.node_id in view.node_by_id}
    return demand.within is Locality.ANY or len(racks) == 1


def _shared(view: View, free: Free, two: tuple[Job, Running], gpu_id: int, leaving: Collection[int]) -> bool:
    """True if the job may share this GPU of the run."""
    job, run = two
    return (
        free.usable(gpu_id)
        and free.room_on(gpu_id) >= job.slots
        and {*view.holders_of_gpu.get(gpu_id, ())} <= {run.job.id, *leaving}
        and gpu_id not in view.reserved_gpus
        and may_share(view.gpu_by_id[gpu_id], (job, run.job))
    )
