"""Sharing of GPUs: two jobs of one virtual cluster and class may share a GPU that has memory for both.

A quota counts whole GPUs, so jobs on one GPU are charged for it once, together; they must belong to one virtual
cluster. Jobs on one GPU are not protected from each other's faults, which is another reason for this rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import SLOTS, Gpu, Job


def may_share(gpu: Gpu, jobs: Iterable[Job]) -> bool:
    """True if these jobs may run on the GPU at the same time. One job alone always may."""
    first, *others = jobs
    if not others:
        return True
    together = (first, *others)
    return (
        sum(job.slots for job in together) <= SLOTS
        and all((job.vc_id, job.job_class) == (first.vc_id, first.job_class) for job in others)
        and all(job.request.gpu_memory_mib is not None for job in together)
        and sum(job.request.gpu_memory_mib or 0 for job in together) <= gpu.memory_mib
    )


class SharedGpuIndex:
    """The slots taken on each GPU that jobs may share. It tells the first job on a GPU and the last to leave it."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}

    def copy(self) -> SharedGpuIndex:
        """An index that counts on from here by itself."""
        other = SharedGpuIndex()
        other._slots = dict(self._slots)
        return other

    def free_slots(self, gpu_id: int) -> int:
        """The free slots of a shared GPU; 0 for a GPU that no job shares."""
        return SLOTS - self._slots[gpu_id] if gpu_id in self._slots else 0

    def full(self) -> list[int]:
        """The ids of the shared GPUs without a free slot, ascending."""
        return sorted(gpu_id for gpu_id, slots in self._slots.items() if slots >= SLOTS)

    def take(self, gpu_id: int, slots: int) -> bool:
        """Take slots of a GPU. Returns whether all of it was free before."""
        if slots == SLOTS:
            return True
        taken = self._slots.get(gpu_id, 0)
        self._slots[gpu_id] = taken + slots
        return not taken

    def give(self, gpu_id: int, slots: int) -> bool:
        """Return slots of a GPU. Returns whether all of it is free now."""
        if slots == SLOTS:
            return True
        left = self._slots.pop(gpu_id, slots) - slots
        if left > 0:
            self._slots[gpu_id] = left
        return left <= 0
