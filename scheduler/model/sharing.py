"""Who may share GPUs: two jobs of one virtual cluster and class that both allow it, as far as the GPU's memory goes.

A GPU is the smallest thing that a quota counts, so those who share one are charged for it once, together; that is why
they have to be of one virtual cluster. It is also as far as trust goes: jobs on one GPU are not protected from each
other's faults.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import SLOTS, Gpu, Job


def may_share(gpu: Gpu, jobs: Iterable[Job]) -> bool:
    """Whether all of these may be on the GPU at the same time; one alone always may."""
    first, *others = jobs
    if not others:
        return True
    together = (first, *others)
    return (
        sum(job.slots for job in together) <= SLOTS
        and all((job.vc_id, job.klass) == (first.vc_id, first.klass) for job in others)
        and all(job.gpu_memory_mib is not None for job in together)
        and sum(job.gpu_memory_mib or 0 for job in together) <= gpu.memory_mib
    )


class SharedGpuIndex:
    """How many slots are taken of each GPU that is not taken whole; so who comes to one first, and who goes last."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}

    def room(self, gpu_id: int) -> int:
        """How many slots somebody has left beside him; none on a GPU that nobody has a part of."""
        return SLOTS - self._slots[gpu_id] if gpu_id in self._slots else 0

    def full(self) -> list[int]:
        """The ids of the GPUs of which all parts are taken, ascending."""
        return sorted(gpu_id for gpu_id, slots in self._slots.items() if slots >= SLOTS)

    def come(self, gpu_id: int, slots: int) -> bool:
        """Take slots of a GPU, and say whether nobody had any of it."""
        if slots == SLOTS:
            return True
        taken = self._slots.get(gpu_id, 0)
        self._slots[gpu_id] = taken + slots
        return not taken

    def go(self, gpu_id: int, slots: int) -> bool:
        """Give slots of a GPU back, and say whether nobody has any of it now."""
        if slots == SLOTS:
            return True
        left = self._slots.pop(gpu_id, slots) - slots
        if left > 0:
            self._slots[gpu_id] = left
        return left <= 0
