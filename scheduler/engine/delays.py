"""The delay that a waiting job suffers after a decision, by its quota and by the GPUs that are free.

Production tells it with each pending reason, and the simulator counts by it, so both give the same sums.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.engine.state import SchedulerState
from scheduler.model import Job
from scheduler.model.delays import Delay
from scheduler.model.lifecycle import JobClass
from scheduler.placement import Placement
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free


def over_quota(state: SchedulerState, job: Job) -> bool:
    """True if the quota has no room for the job on any type. Opportunistic jobs have none, and do not use any."""
    if job.job_class is JobClass.OPPORTUNISTIC:
        return True
    usage, vc = state.ledger.usage, state.view.vc_by_id.get(job.vc_id)
    quotas = {} if vc is None else vc.quotas
    kinds = job.request.types_among(state.capacity.types)  # none in a pool without GPUs
    return bool(kinds) and all(
        usage[job.vc_id, kind] - usage[-job.vc_id, kind] + job.request.gpus_on(kind) > quotas.get(kind, 0)
        for kind in kinds
    )


def within_quota(free: Free, placement: Placement, demands: Sequence[Demand]) -> Delay:
    """The delay of an eligible job within its quota; any one of its demands would do for it.

    It is of the order if one of them fits, of fragmentation if one of them has enough free GPUs, and else of capacity.
    """
    enough = [demand for demand in demands if _free_gpus(free, demand) >= demand.gpus_total]
    others = (demand for demand in demands if demand.request.shares_gpu and demand not in enough)
    if any(placement.place(free, demand, ()) is not None for demand in (*enough, *others)):
        return Delay.ORDER
    return Delay.FRAGMENTATION if any(demand.gpu_type for demand in enough) else Delay.CAPACITY


def _free_gpus(free: Free, demand: Demand) -> int:
    """The free GPUs of the demand's type on nodes that are open to it; 0 for a demand without GPUs."""
    if demand.gpu_type is None:
        return 0
    found = free.gpus(demand.gpu_type)
    if not demand.closed or found < demand.gpus_total:
        return found
    closed = (node for node in map(free.node, demand.closed) if node is not None)
    return found - sum(node.count(demand.gpu_type) for node in closed)
