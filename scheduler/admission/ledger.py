"""The ledger of an admission: what virtual clusters hold now, and with the decisions of a cycle so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Self

from scheduler.model import SLOTS, AllocationView, Job, Running, View
from scheduler.model.lifecycle import JobClass
from scheduler.model.plan import Denial
from scheduler.model.request import Config
from scheduler.model.sharing import SharedGpuIndex

# The GPUs that jobs hold or this cycle has given them, by virtual cluster and GPU type. GPUs of opportunistic jobs also
# count under the negated id of the virtual cluster.
QuotaUsage = Counter[tuple[int, str]]


class AdmissionError(ValueError):
    """An admission grants what it cannot give; the message names the job and the grant."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs that an admission gives to a job.

    - `gpu_ids` are the exact GPUs of the whole gang; None leaves the choice to the placement.
    - `evicts` are the ids of the running jobs that must stop for it, which the job may then preempt.
    - `cells` are the virtual cells that the GPUs count for, by GPU id: see `AllocationView`.
    """

    gpu_ids: frozenset[int] | None = None
    evicts: tuple[int, ...] = ()
    cells: Mapping[int, str] = field(default_factory=dict)


ANY_GPUS = Grant()


class Ledger:
    """Counts the GPUs of virtual clusters by type; a subclass says in `offer` what a job may have on top of them.

    A GPU that jobs share counts once. GPUs that have left the pool do not count.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.usage = QuotaUsage(view.held_by_vc)
        self._shared = SharedGpuIndex()
        for run in view.running:
            if not (run.job.request.shares_gpu or run.job.job_class is JobClass.OPPORTUNISTIC):
                continue
            for gpu_id, gpu_type, slots in self._gpus(run.allocations):
                if self._shared.take(gpu_id, slots) and run.job.job_class is JobClass.OPPORTUNISTIC:
                    self.usage[-run.job.vc_id, gpu_type] += 1

    def offer(self, job: Job, config: Config) -> Grant | Denial:
        """The job's grant in this configuration on top of the ledger's counts, or the reason for none.

        The reason of a denial is QUOTA_TOO_SMALL if even an empty pool would not change it. A configuration of 0 GPUs
        of a type asks whether the job may keep what it has.
        """
        raise NotImplementedError

    def nodes(self, job: Job) -> frozenset[int] | None:
        """The ids of the only nodes on which the admission lets the job start; None: all. It does not change."""
        return None

    def key(self, job: Job) -> Hashable:
        """Equal for jobs that get equal grants and denials for equal configurations, and are allowed equal nodes.

        Only jobs of one virtual cluster and class with equal requests are compared by it.
        """
        return None

    def begin(self) -> None:
        """Begin a decision: the waiting and running jobs of the view may have changed since the last one."""

    def levels(self) -> int:
        """The levels of a tree below its root that lend. Jobs within a share of their own are served first."""
        return 0

    def limit_to(self, level: int | None) -> None:
        """Offer nothing beyond the shares of a level from now on; None: offer all that it may."""

    def reclaims_fewest(self) -> bool:
        """True if a job reclaims from as few jobs as possible, False if from the newest ones."""
        return False

    def reclaims(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """True if the waiting job, once admitted, may now reclaim GPUs of the type from the running job.

        This overrides the order of the policy. The running job, once preempted, cannot reclaim them in turn. The answer
        depends on the running job's virtual cluster and class alone.
        """
        return False

    def reclaimable_at(self, run: Running) -> float:
        """The moment from which jobs may reclaim the GPUs of the run."""
        return 0.0

    def on_loan(self, waiting: Job, running: Job, gpu_type: str | None) -> bool:
        """True if the running job could reclaim the GPUs that the waiting job would get from it.

        A policy then does not preempt the running job for the other.
        """
        return False

    def yields(self, job: Job, config: Config) -> bool:
        """True if a job gives up its reservation to a waiting job that needs what it would have on loan."""
        return False

    def share_quota(self, one: Job, other: Job) -> bool:
        """True if GPUs that one job gives up may be quota that the other lacks.

        The answer depends on their virtual clusters and classes alone.
        """
        return one.vc_id == other.vc_id

    def take(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        """Count the GPUs that the job gets."""
        for gpu_id, gpu_type, slots in self._gpus(allocations):
            if slots == SLOTS or self._shared.take(gpu_id, slots):
                self.charge(job.vc_id, job.job_class, gpu_type, 1)

    def give(self, job: Job, allocations: Iterable[AllocationView]) -> None:
        """Count the GPUs of the job no more."""
        for gpu_id, gpu_type, slots in self._gpus(allocations):
            if slots == SLOTS or self._shared.give(gpu_id, slots):
                self.charge(job.vc_id, job.job_class, gpu_type, -1)

    def promise(self, job: Job, gpu_type: str, gpus: int) -> None:
        """Count GPUs that the job will get, before it is known which; a negative number takes the promise back."""
        self.charge(job.vc_id, job.job_class, gpu_type, gpus)

    def charge(self, vc_id: int, job_class: JobClass, gpu_type: str, gpus: int) -> None:
        """Count a number of GPUs of a type; a negative number subtracts them. Look-aheads count without GPU ids."""
        self.usage[vc_id, gpu_type] += gpus
        if job_class is JobClass.OPPORTUNISTIC:
            self.usage[-vc_id, gpu_type] += gpus

    def copy(self) -> Self:
        """A ledger that counts on from here by itself."""
        other = copy(self)
        other.usage, other._shared = QuotaUsage(self.usage), self._shared.copy()
        return other

    def _gpus(self, allocations: Iterable[AllocationView]) -> Iterable[tuple[int, str, int]]:
        """Id, type and taken slots of each GPU that the pool knows."""
        known = self.view.gpu_by_id
        for share in allocations:
            for gpu_id in share.gpu_ids:
                gpu = known.get(gpu_id)
                if gpu is not None:
                    yield gpu_id, gpu.type, share.slots
