"""The running jobs that a waiting job may preempt, by the order of its policy or to reclaim their GPUs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from scheduler.admission import Ledger
from scheduler.model import Job, Running, View
from scheduler.model.lifecycle import JobClass
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free

MIN_WAKE_S = 1e-3

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
        """True if there are candidates that together hold at least `gpus` GPUs."""
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


@dataclass(frozen=True, slots=True)
class Lent:
    """Runs whose GPUs a job may reclaim: those that may go now, newest first, and when the next ones may."""

    runs: Sequence[Running]
    next_at: float | None
    job_ids: frozenset[int]  # of all of them


class Loans:
    """The running jobs from which waiting jobs may reclaim GPUs, during one decision."""

    def __init__(self, view: View, free: Free, ledger: Ledger) -> None:
        self._view, self._free, self._ledger = view, free, ledger
        self._groups: dict[_Group, list[Running]] = {}  # newest first
        self._lent: dict[tuple[_Group, ...], Lent] = {}
        self._last: tuple[int, frozenset[int]] = (0, frozenset())  # the last answer of `of`, and for which job
        self._types: dict[int, str | None] = {}  # by job id
        for run in sorted(view.running, key=_newest_first):
            if run.evictable and not run.stopping and any(free.node(share.node_id) for share in run.allocations):
                self._groups.setdefault((run.job.vc_id, run.job.job_class, self.type_of(run)), []).append(run)

    def of(self, job: Job, *, of_quota: bool = False) -> Lent:
        """The runs whose GPUs the job may reclaim now or once they have run for long enough, or share its quota too."""
        ledger = self._ledger
        groups = tuple(key for key, runs in self._groups.items() if ledger.reclaims(job, runs[0].job, key[-1]))
        found = self._by(groups)
        self._last = (job.id, found.job_ids)
        if not of_quota:
            return found
        sharing = tuple(key for key in groups if ledger.share_quota(self._groups[key][0].job, job))
        return replace(found, runs=self._by(sharing).runs)

    def _by(self, groups: tuple[_Group, ...]) -> Lent:
        if groups not in self._lent:
            self._lent[groups] = self._lent_by(groups)
        return self._lent[groups]

    def _lent_by(self, groups: Iterable[_Group]) -> Lent:
        runs = sorted((run for key in groups for run in self._groups[key]), key=_newest_first)
        soon, moments = self._view.now + MIN_WAKE_S, {run.job.id: self._ledger.reclaimable_at(run) for run in runs}
        return Lent(
            [run for run in runs if moments[run.job.id] < soon],
            min((moment for moment in moments.values() if moment >= soon), default=None),
            frozenset(moments),
        )

    def fewest_first(self, runs: Sequence[Running], demand: Demand, lacking: int) -> Sequence[Running]:
        """The runs such that the first ones make room for the demand; these are the fewest, if counts alone decide.

        Of as many, the smaller and then the newer go first. `lacking` GPUs are missing in the quota or in the pool.
        For a demand by nodes, all victims on one node come before those on the next.
        """
        counts = [(self._gpus_of(run, demand.gpu_type), run) for run in runs]
        if demand.divisible or not demand.gpus:
            chosen = _fewest(counts, lacking)
        else:
            here: dict[int, list[tuple[int, Running]]] = {}
            for run in runs:
                for share in run.allocations:
                    here.setdefault(share.node_id, []).append((len(share.gpu_ids), run))
            plans = []
            for node_id, there in here.items():
                node = self._free.node(node_id)
                lacks = demand.gpus - (node.count(demand.gpu_type) if node is not None else 0)
                victims = _fewest(there, lacks) if node is not None else []
                ids = {run.job.id for run in victims}
                if victims and sum(gpus for gpus, run in there if run.job.id in ids) >= lacks:
                    newest = [_newest_first(run) for run in victims]
                    plans.append((len(victims), sum(run.gpus for run in victims), newest, victims))
            chosen = [run for *_, victims in sorted(plans, key=lambda plan: plan[:3]) for run in victims]
        known: dict[int, Running] = {run.job.id: run for run in chosen}
        rest = [(gpus, run) for gpus, run in counts if run.job.id not in known]
        for run in (*_fewest(rest, lacking), *runs):
            known.setdefault(run.job.id, run)
        return list(known.values())

    def may_still_go(self, run: Running, job: Job) -> bool:
        """True if the job may still reclaim from the run after the releases so far, or does not need that right."""
        last, lent = self._last
        return last != job.id or run.job.id not in lent or self._ledger.reclaims(job, run.job, self.type_of(run))

    def type_of(self, run: Running) -> str | None:
        """The GPU type of a run; None if it has no GPU that the pool knows."""
        if run.job.id not in self._types:
            known = self._view.gpu_by_id
            gpu_ids = (gpu_id for share in run.allocations for gpu_id in share.gpu_ids)
            self._types[run.job.id] = next((known[gpu_id].type for gpu_id in gpu_ids if gpu_id in known), None)
        return self._types[run.job.id]

    def _gpus_of(self, run: Running, gpu_type: str | None) -> int:
        return run.gpus if self.type_of(run) == gpu_type else 0


def _newest_first(run: Running) -> tuple[float, int]:
    return (-run.placed_at, -run.job.id)


def _fewest(runs: Iterable[tuple[int, Running]], wanted: int) -> list[Running]:
    """The fewest runs that hold as many GPUs as wanted, or all that hold any; of as many, smaller and newer ones.

    The largest ones go until one suffices; of those that suffice, the smallest.
    """
    left = sorted(((gpus, run) for gpus, run in runs if gpus), key=lambda one: (one[0], _newest_first(one[1])))
    chosen = []
    while wanted > 0 and left:
        position = bisect_left(left, wanted, key=lambda one: one[0])
        if position == len(left):
            position = bisect_left(left, left[-1][0], key=lambda one: one[0])
        gpus, run = left.pop(position)
        chosen.append(run)
        wanted -= gpus
    return chosen
