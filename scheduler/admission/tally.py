"""How many GPUs a plan would give to whom, and take from whom: what the admissions hold against quotas."""

from __future__ import annotations

from collections import Counter

from scheduler.admission import QuotaUsage
from scheduler.model import SLOTS, AllocationView, Job, Running, View


class Tally:
    """Who is on the GPUs that several jobs may be on, while a plan is gone through: each is counted once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._jobs: dict[int, int] = {}  # on a GPU that is shared

    def go(self, run: Running) -> QuotaUsage:
        """The GPUs that nobody holds any more once this one is gone, by virtual cluster and type."""
        return self._count(run.job, run.allocations, -1)

    def come(self, job: Job, allocations: tuple[AllocationView, ...]) -> QuotaUsage:
        """The GPUs that nobody had, and the job gets, by virtual cluster and type."""
        return self._count(job, allocations, 1)

    def _count(self, job: Job, allocations: tuple[AllocationView, ...], times: int) -> QuotaUsage:
        found: QuotaUsage = Counter()
        for share in allocations:
            for gpu_id in share.gpu_ids:
                gpu = self._view.gpu_by_id.get(gpu_id)
                if gpu is not None and (share.slots == SLOTS or self._alone(gpu_id, times)):
                    found[job.vc_id, gpu.type] += 1
        return found

    def _alone(self, gpu_id: int, times: int) -> bool:
        """Whether the one who comes is the first on the GPU, or who goes the last."""
        before = self._jobs.get(gpu_id, len(self._view.holders_of_gpu.get(gpu_id, ())))
        self._jobs[gpu_id] = before + times
        return before == (0 if times > 0 else 1)
