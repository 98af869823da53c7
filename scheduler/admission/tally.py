"""Counts the GPUs that a plan gives to virtual clusters and takes from them."""

from __future__ import annotations

from collections import Counter

from scheduler.admission.ledger import QuotaUsage
from scheduler.model import SLOTS, AllocationView, Job, Running, View


class Tally:
    """The jobs on each shared GPU during a walk through a plan, so that a shared GPU counts once."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._jobs: dict[int, int] = {}  # GPU id -> jobs on it, for shared GPUs

    def freed_by(self, run: Running) -> QuotaUsage:
        """The GPUs that become free when this run ends, by virtual cluster and type."""
        return self._count(run.job, run.allocations, -1)

    def taken_by(self, job: Job, allocations: tuple[AllocationView, ...]) -> QuotaUsage:
        """The free GPUs that the job takes, by virtual cluster and type."""
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
        """True if the job is the first to come to the GPU, or the last to leave it."""
        before = self._jobs.get(gpu_id, len(self._view.holders_of_gpu.get(gpu_id, ())))
        self._jobs[gpu_id] = before + times
        return before == (0 if times > 0 else 1)


def job_of(view: View, job_id: int | None) -> Job | None:
    """The waiting or running job with this id; None if the view has none."""
    if job_id is None:
        return None
    run = view.running_by_job.get(job_id)
    return view.waiting_by_id.get(job_id) or (run.job if run else None)


def quota_of(view: View, vc_id: int, gpu_type: str) -> tuple[str, int]:
    """The name of a virtual cluster and its quota of a type; 0 if it has left the pool."""
    vc = view.vc_by_id.get(vc_id)
    return (vc.name, vc.quotas.get(gpu_type, 0)) if vc else (f"virtual cluster {vc_id}", 0)
