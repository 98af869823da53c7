"""The queues of waiting jobs and the order in which running jobs are preempted, both kept sorted by a policy's keys."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol

from scheduler.model import Job, Running
from scheduler.model.eligibility import NodeEligibility
from scheduler.model.lifecycle import JobClass

Key = tuple[Any, ...]
# For jobs that take the place of another one, by id: that other job. See `scheduler.engine.reorder`.
Exchanges = Mapping[int, Job]
NO_EXCHANGES: Exchanges = MappingProxyType({})
# `Ledger.key`: equal for jobs to which the admission gives the same.
AdmissionKey = Callable[[Job], Hashable]


class QueueOrdering(Protocol):
    """The part of a policy that orders waiting jobs."""

    def waiting_key(self, job: Job) -> Key:
        """The sort key of a waiting job; smaller goes first. It does not change while the job waits."""


class PreemptionOrdering(QueueOrdering, Protocol):
    """The part of a policy that orders running jobs among the waiting ones."""

    def running_key(self, run: Running, now: float) -> Key:
        """The sort key of a running job now, comparable with the keys of waiting jobs."""

    def preemption_key(self, run: Running, now: float) -> Key:
        """A key that does not change with time and sorts jobs of one aging rate as their running keys do."""

    def aging_rate(self, run: Running) -> float:
        """The rate at which the key of a running job changes. Two jobs with one aging rate never change their order."""


class QueueGrouping(QueueOrdering, Protocol):
    """The part of a policy that gives each group of jobs, such as those of one user, a queue of its own."""

    def group_of(self, job: Job) -> int:
        """The group of a job; it does not change."""


class Queue:
    """Waiting jobs in equivalence classes (Verma et al., Borg, EuroSys 2015, §3.4), each sorted by the policy's key.

    If the first job of a class cannot start, no other job of the class can. So a walk through a queue of thousands
    reads only a few jobs.
    """

    def __init__(
        self,
        ordering: QueueOrdering,
        eligibility: NodeEligibility,
        admission_key: AdmissionKey,
        exchanges: Exchanges = NO_EXCHANGES,
    ) -> None:
        self._ordering = ordering
        self._eligibility = eligibility
        self._admission_key = admission_key
        self._exchanges = exchanges
        # By place, which is the id of the job itself or of the one whose place it takes.
        self._classes: dict[Hashable, list[tuple[Key, int]]] = {}
        self._jobs: dict[int, tuple[Job, Hashable, Key]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Insert a job, or move it if its key has changed."""
        self.remove(job.id)
        kind = (*equivalence_class(job), self._eligibility.kind(job), self._admission_key(job))
        instead = self._exchanges.get(job.id, job)
        key = self._ordering.waiting_key(instead)
        self._jobs[instead.id] = (job, kind, key)
        insort(self._classes.setdefault(kind, []), (key, instead.id))

    def remove(self, job_id: int) -> None:
        """Remove a job. Does nothing if the job is not indexed."""
        place = self._exchanges[job_id].id if job_id in self._exchanges else job_id
        found = self._jobs.pop(place, None)
        if found is not None:
            _, kind, key = found
            members = self._classes[kind]
            del members[bisect_left(members, (key, place))]
            if not members:
                del self._classes[kind]

    def classes(self) -> Iterator[tuple[Job, int]]:
        """The first job and the size of each class."""
        for members in self._classes.values():
            yield self._jobs[members[0][1]][0], len(members)

    def walk(self, job_class: JobClass | None = None, *, since: Key = ()) -> QueueWalk:
        """Iterates over the jobs in order, or over those of `job_class`. The queue must not change meanwhile.

        With `since`, skips jobs with a smaller key.
        """
        classes: Iterable[list[tuple[Key, int]]] = self._classes.values()
        if job_class is not None:
            classes = [members for members in classes if self._jobs[members[0][1]][0].job_class is job_class]
        return QueueWalk(classes, self._jobs, since)

    def walks(self, job_class: JobClass | None = None) -> Iterator[QueueWalk]:
        """One walk for each equivalence class, or for those of `job_class`."""
        for members in self._classes.values():
            if job_class is None or self._jobs[members[0][1]][0].job_class is job_class:
                yield QueueWalk([members], self._jobs)


class Queues:
    """One queue for each group with waiting jobs."""

    def __init__(
        self,
        grouping: QueueGrouping,
        eligibility: NodeEligibility,
        admission_key: AdmissionKey,
        exchanges: Exchanges = NO_EXCHANGES,
    ) -> None:
        self._grouping = grouping
        self._exchanges = exchanges
        self._eligibility = eligibility
        self._admission_key = admission_key
        self._queues: dict[int, Queue] = {}
        self._arrivals: dict[int, list[tuple[float, int]]] = {}  # by group: (start of the wait, job id), ascending
        self._members: dict[int, tuple[int, float]] = {}  # job id -> its group, the start of its wait

    def add(self, job: Job) -> None:
        """Insert a job, or move it if its key has changed."""
        self.remove(job.id)
        group = self._grouping.group_of(job)
        self._members[job.id] = (group, job.waiting_since)
        if group not in self._queues:
            self._queues[group] = Queue(self._grouping, self._eligibility, self._admission_key, self._exchanges)
            self._arrivals[group] = []
        self._queues[group].add(job)
        insort(self._arrivals[group], (job.waiting_since, job.id))

    def remove(self, job_id: int) -> None:
        """Remove a job. Does nothing if the job is not indexed."""
        found = self._members.pop(job_id, None)
        if found is None:
            return
        group, since = found
        arrivals = self._arrivals[group]
        del arrivals[bisect_left(arrivals, (since, job_id))]
        self._queues[group].remove(job_id)
        if not arrivals:
            del self._queues[group], self._arrivals[group]

    def waiting_since(self, group: int) -> float:
        """The time since which the oldest job of the group waits; infinity for an empty group."""
        arrivals = self._arrivals.get(group)
        return arrivals[0][0] if arrivals else float("inf")

    def __iter__(self) -> Iterator[int]:
        """The groups with waiting jobs, ascending."""
        return iter(sorted(self._queues))

    def __getitem__(self, group: int) -> Queue:
        """The queue of a group with waiting jobs."""
        return self._queues[group]


class QueueWalk:
    """One iteration over a queue, which can skip the rest of an equivalence class."""

    def __init__(
        self,
        classes: Iterable[list[tuple[Key, int]]],
        jobs: dict[int, tuple[Job, Hashable, Key]],
        since: Key = (),
    ) -> None:
        self._jobs = jobs
        firsts = ((members, bisect_left(members, (since,)) if since else 0) for members in classes)
        # (key, place, class, position): places are unique, so comparisons never reach the class.
        self._heads = [(*members[first], members, first) for members, first in firsts if first < len(members)]
        heapq.heapify(self._heads)
        self._last: tuple[list[tuple[Key, int]], int] | None = None

    def next(self) -> tuple[Job, Key] | None:
        """The next job and its key; None at the end."""
        if self._last is not None:
            members, position = self._last
            if position + 1 < len(members):
                heapq.heappush(self._heads, (*members[position + 1], members, position + 1))
        if not self._heads:
            self._last = None
            return None
        key, place, members, position = heapq.heappop(self._heads)
        self._last = (members, position)
        return self._jobs[place][0], key

    def drop(self) -> None:
        """Skip the other jobs in the equivalence class of the last job."""
        self._last = None

    def take_rest(self) -> Iterator[int]:
        """Skip the other jobs in the equivalence class of the last job. Returns their ids."""
        members, position = self._last or ([], 0)
        self.drop()
        return (self._jobs[place][0].id for _, place in islice(members, position + 1, None))


class PreemptionOrder:
    """The preemptible running jobs, sorted by a policy.

    Jobs with one aging rate keep their order for ever. So there is one sorted list for each rate, and the order of all
    jobs is a merge of a few lists.
    """

    def __init__(self, ordering: PreemptionOrdering) -> None:
        self._ordering = ordering
        # By virtual cluster (None: all of them), then by aging rate.
        self._orders: dict[int | None, dict[float, list[tuple[Key, int]]]] = {}
        self._runs: dict[int, tuple[Running, Key, float]] = {}

    def add(self, run: Running, now: float) -> None:
        """Insert a job, or move it if its key has changed."""
        self.remove(run.job.id)
        key, aging_rate = self._ordering.preemption_key(run, now), self._ordering.aging_rate(run)
        self._runs[run.job.id] = (run, key, aging_rate)
        for vc_id in (None, run.job.vc_id):
            insort(self._orders.setdefault(vc_id, {}).setdefault(aging_rate, []), (key, run.job.id))

    def remove(self, job_id: int) -> None:
        """Remove a job. Does nothing if the job is not indexed."""
        found = self._runs.pop(job_id, None)
        if found is not None:
            run, key, aging_rate = found
            for vc_id in (None, run.job.vc_id):
                order = self._orders[vc_id][aging_rate]
                del order[bisect_left(order, (key, job_id))]
                if not order:
                    del self._orders[vc_id][aging_rate]

    def victims(self, now: float, vc_id: int | None = None) -> Iterator[Running]:
        """The running jobs of one virtual cluster, or of all: the job to preempt first comes first."""
        orders = [map(self._run, reversed(order)) for order in self._orders.get(vc_id, {}).values()]
        if len(orders) == 1:
            return orders[0]
        return heapq.merge(*orders, key=lambda run: (self._ordering.running_key(run, now), run.job.id), reverse=True)

    def _run(self, entry: tuple[Key, int]) -> Running:
        return self._runs[entry[1]][0]


def equivalence_class(job: Job) -> tuple[Hashable, ...]:
    """The values that decide where a job can start; equal for jobs that can start in the same places."""
    return job.vc_id, job.job_class, job.request
