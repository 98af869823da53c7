"""Free GPUs that a decision keeps for waiting jobs within their share."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from scheduler.model import Job, View
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free


class KeptFree:
    """Keeps free GPUs for jobs that wait for others to stop.

    Otherwise smaller jobs would take the GPUs one after the other as they become free.
    """

    def __init__(self, view: View, free: Free) -> None:
        self._view, self._free = view, free
        self._kept: dict[int, tuple[str | None, int]] = {}  # type and GPUs by job id

    def keep(self, job: Job, demand: Demand) -> None:
        """Keep free GPUs for the job, if those of jobs that stop already will do for the rest."""
        kind = demand.gpu_type
        if job.id not in self._kept and self._room(job, kind) + self._stopping[kind] >= demand.gpus_total:
            self._kept[job.id] = (kind, demand.gpus_total)

    def leave(self, job: Job, demand: Demand) -> bool:
        """True if enough GPUs are free for the job beside those kept for others."""
        return not self._kept or self._room(job, demand.gpu_type) >= demand.gpus_total

    def _room(self, job: Job, gpu_type: str | None) -> int:
        others = (gpus for job_id, (kind, gpus) in self._kept.items() if kind == gpu_type and job_id != job.id)
        return self._free.gpus(gpu_type) - sum(others)

    @cached_property
    def _stopping(self) -> Counter[str | None]:
        """The GPUs of stopping jobs that are reserved for no job, by type."""
        gpus, reserved = self._view.gpu_by_id, self._view.reserved_gpus
        stopping = (run for run in self._view.running if run.stopping)
        gpu_ids = (gpu_id for run in stopping for share in run.allocations for gpu_id in share.gpu_ids)
        return Counter(gpus[gpu_id].type for gpu_id in gpu_ids if gpu_id in gpus and gpu_id not in reserved)
