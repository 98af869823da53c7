"""Check that the scheduler state of a simulation, and its accounts, follow from its world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from scheduler.engine.state import SchedulerState
from scheduler.model import SLOTS
from scheduler.placement.free import Free
from scheduler.sim.world import World


def mistakes(world: World, state: SchedulerState) -> Iterator[str]:
    """Yield each difference, in words."""
    slots, holders = Counter[int](), Counter[int]()
    for run in world.running:
        for share in run.allocations:
            slots.update(dict.fromkeys(share.gpu_ids, share.slots))
            holders.update(share.gpu_ids)
    if any(taken > SLOTS for taken in slots.values()):
        yield "a GPU has more sharers than it can hold"
    if {gpu_id: len(those) for gpu_id, those in world.holders_of_gpu.items()} != holders:
        yield "the record of a GPU's holders is wrong"
    if world.waiting_by_id.keys() & world.running_by_job.keys():
        yield "a job both waits and runs"
    fresh = Free(world)
    for gpu_type in state.capacity.types:
        if fresh.gpus(gpu_type) != state.free.gpus(gpu_type):
            yield f"the index of free {gpu_type} is wrong"
    if state.is_stale:
        yield "the scheduler state's usage is wrong"
    vc_of_gpu = {gpu_id: world.running_by_job[holder].vc_id for gpu_id, (holder, *_) in world.holders_of_gpu.items()}
    counted = Counter((vc_id, world.gpu_by_id[gpu_id].type) for gpu_id, vc_id in vc_of_gpu.items())
    if counted != Counter({key: gpus for key, gpus in world.held_by_vc.items() if gpus}):
        yield "a virtual cluster's use is miscounted"
