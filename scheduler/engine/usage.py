"""The resources that live attempts hold, updated as jobs start and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from scheduler.model import Job, Running, View

# An amount of each resource: GPUs by type, CPUs and memory.
Vector = Mapping[str, int]
CPUS, MEMORY_MIB = "cpus", "memory_mib"


class ResourceUsage:
    """The resources that each owner holds in each virtual cluster."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.stopping_gpus = 0
        self._runs: dict[int, tuple[Running, Counter[str]]] = {}
        self._by_owner: dict[tuple[int, int, int], tuple[Job, int, Counter[str]]] = {}
        for run in view.running:
            self.add(run)

    def __iter__(self) -> Iterator[tuple[Job, Vector]]:
        """For each owner and virtual cluster: one of the running jobs, and the resources that they hold together."""
        for job, _, held in self._by_owner.values():
            yield job, held

    def __eq__(self, other: object) -> bool:
        """True if every owner holds the same resources in both."""
        return isinstance(other, ResourceUsage) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def of(self, run: Running) -> Vector:
        """The resources that a running job holds."""
        known = self._runs.get(run.job.id)
        return known[1] if known is not None and known[0].allocations is run.allocations else self._count(run)

    def add(self, run: Running) -> None:
        """Add a running job, or replace it after its state has changed."""
        self.remove(run.job.id)
        held = self._count(run)
        self._runs[run.job.id] = (run, held)
        self.stopping_gpus += run.gpus if run.stopping else 0
        job, count, sum_of_all = self._by_owner.get(_owner(run.job), (run.job, 0, Counter[str]()))
        sum_of_all.update(held)
        self._by_owner[_owner(run.job)] = (job, count + 1, sum_of_all)

    def remove(self, job_id: int) -> None:
        """Remove a job. Does nothing if the job is not running."""
        found = self._runs.pop(job_id, None)
        if found is None:
            return
        run, held = found
        self.stopping_gpus -= run.gpus if run.stopping else 0
        job, count, sum_of_all = self._by_owner.pop(_owner(run.job))
        if count > 1:
            sum_of_all.subtract(held)
            self._by_owner[_owner(run.job)] = (job, count - 1, sum_of_all)

    def _count(self, run: Running) -> Counter[str]:
        held = gpus_by_type(self._view, [share.gpu_ids for share in run.allocations])
        held[CPUS] = sum(share.cpus for share in run.allocations)
        held[MEMORY_MIB] = sum(share.memory_mib for share in run.allocations)
        return held

    def _facts(self) -> object:
        by_owner = {owner: (count, +held) for owner, (_, count, held) in self._by_owner.items()}
        return self.stopping_gpus, by_owner


def gpus_by_type(view: View, gpu_ids: Sequence[Sequence[int]]) -> Counter[str]:
    """The number of these GPUs by type, without GPUs that the view does not know."""
    found = (view.gpu_by_id.get(gpu_id) for some in gpu_ids for gpu_id in some)
    return Counter(gpu.type for gpu in found if gpu is not None)


def _owner(job: Job) -> tuple[int, int, int]:
    return job.tenant_id, job.vc_id, job.owner_id
