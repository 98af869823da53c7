"""The running jobs that a waiting job may preempt, by the order of its policy or to reclaim their GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scheduler.admission import Ledger
from scheduler.model import Job, Running, View
from scheduler.model.lifecycle import JobClass
from scheduler.placement.free import Free

# What the ledger asks of a run, and so what runs of one group share: virtual cluster, class and GPU type.
_Group = tuple[int, JobClass, str | None]


class Candidates:
    """Candidates for preemption in their order, read one at a time as the search needs them."""

    def __init__(self, runs: Iterable[Running]) -> None:
        self._seen: list[Running] = []
        self._rest = iter(runs)

    def __iter__(self) -> Iterator[Running]:
        position = 0
        while position < len(self._seen) or self._look():
            yield self._seen[position]
            position += 1

    def hold(self, gpus: int) -> bool:
        """Whether there are candidates that together hold at least `gpus` GPUs."""
        found = 0
        for run in self:
            found += run.gpus
            if found >= gpus:
                return True
        return False

    def _look(self) -> bool:
        run = next(self._rest, None)
        if run is not None:
            self._seen.append(run)
        return run is not None


class Loans:
    """The running jobs that may be preempted, by what the ledger asks of those from which a job reclaims."""

    def __init__(self, view: View, free: Free, ledger: Ledger) -> None:
        self._view, self._ledger = view, ledger
        self._groups: dict[_Group, list[Running]] = {}
        self._sorted: dict[tuple[tuple[_Group, ...], int], Sequence[Running]] = {}
        self._last: tuple[int, frozenset[int]] = (0, frozenset())  # the last answer of `of`, and for which job
        for run in view.running:
            if run.evictable and not run.stopping and any(free.node(share.node_id) for share in run.allocations):
                self._groups.setdefault((run.job.vc_id, run.job.job_class, self.type_of(run)), []).append(run)

    def of(self, job: Job, wanted: int) -> Sequence[Running]:
        """The runs from which a job that lacks `wanted` GPUs may reclaim now or later, in the order of the ledger."""
        groups = tuple(key for key, runs in self._groups.items() if self._ledger.reclaims(job, runs[0].job, key[-1]))
        if (groups, wanted) not in self._sorted:
            runs = (run for key in groups for run in self._groups[key])
            self._sorted[groups, wanted] = sorted(runs, key=lambda run: self._ledger.reclaim_order(run, wanted))
        found = self._sorted[groups, wanted]
        self._last = (job.id, frozenset(run.job.id for run in found))
        return found

    def may_still_go(self, run: Running, job: Job) -> bool:
        """Whether what was released so far leaves the job the right to reclaim from the run, if it needs that right."""
        last, lent = self._last
        return last != job.id or run.job.id not in lent or self._ledger.reclaims(job, run.job, self.type_of(run))

    def type_of(self, run: Running) -> str | None:
        """The GPU type of a run; None if it has no GPU that the pool knows."""
        known = self._view.gpu_by_id
        gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
        return next((known[gpu_id].type for gpu_id in gpu_ids if gpu_id in known), None)
