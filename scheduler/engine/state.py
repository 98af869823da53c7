"""The state of play: a view of a pool with the indexes that decisions about it need.

Production makes a state for each cycle. The simulator keeps one and tells it what happens, so that a decision there
costs what it changes, and not what the pool contains.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, cast

from scheduler.admission import QuotaUsage, charge
from scheduler.engine.usage import ResourceUsage
from scheduler.model import SLOTS, AllocationView, Job, Reservation, Running, View
from scheduler.model.eligibility import NodeEligibility
from scheduler.model.lifecycle import JobClass
from scheduler.model.sharing import SharedGpuIndex
from scheduler.placement.capacity import Capacity
from scheduler.placement.free import Free

Key = tuple[Any, ...]


class Keyed(Protocol):
    """What a state must know of a policy to keep those that wait in its order."""

    def waiting_key(self, job: Job) -> Key:
        """Where a waiting job stands; the smaller goes first. It does not change while the job waits."""
        ...


class Ordering(Keyed, Protocol):
    """What a state must know of a policy to keep all jobs in its order."""

    def running_key(self, run: Running, now: float) -> Key:
        """Where a running job stands now among those that wait."""
        ...

    def preemption_key(self, run: Running, now: float) -> Key:
        """What orders those that run at one aging_rate as their keys do, whatever time it is."""
        ...

    def aging_rate(self, run: Running) -> float:
        """How fast the key of a running job changes. Two jobs with one aging rate never change their order."""
        ...


class Grouping(Keyed, Protocol):
    """What a state must know of a policy to keep the jobs of each group, such as a user, in a queue of its own."""

    def group_of(self, job: Job) -> int:
        """The group of a job; it does not change."""
        ...


class WaitingIndex(Protocol):
    """An index of waiting jobs that a state keeps up to date."""

    def add(self, job: Job) -> None:
        """Index a job, or index it again with another memo."""
        ...

    def remove(self, job_id: int) -> None:
        """Forget a job; a job that is not indexed is no error."""
        ...


IndexT = TypeVar("IndexT", bound=WaitingIndex)


class SchedulerState:
    """A view, what is free in it, what could be, and who uses what."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.free, self.capacity, self.quota_usage = Free(view), Capacity(view), QuotaUsage(view.held_by_vc)
        self._partly = SharedGpuIndex()
        # The jobs whose memo the policy should look at before it decides: all, unless the simulator knows better.
        self.due: set[int] | None = None
        self._indexes: dict[type[WaitingIndex], WaitingIndex] = {}
        self._preemption_order: PreemptionOrder | None = None
        self._resource_usage: ResourceUsage | None = None
        for run in view.running:
            if run.job.packs or run.job.klass is JobClass.OPPORTUNISTIC:
                self._look_at(run)
        for kept in view.reservations:
            if kept.until > view.now:
                self._keep(kept)

    def queue(self, ordering: Keyed) -> Queue:
        """The jobs that wait and may start, in the order of the policy."""
        return self.waiting_index(Queue, lambda: Queue(ordering, self.free.closings))

    def queues(self, grouping: Grouping) -> Queues:
        """The jobs that wait and may start, in a queue for each group."""
        return self.waiting_index(Queues, lambda: Queues(grouping, self.free.closings))

    def waiting_index(self, kind: type[IndexT], make: Callable[[], IndexT]) -> IndexT:
        """The index of this kind of the jobs that wait and may start; `make` makes it at the first call."""
        if kind not in self._indexes:
            index = self._indexes[kind] = make()
            for job in self.view.waiting:
                if job.eligible_at <= self.view.now and not job.still_stopping:
                    index.add(job)
        return cast(IndexT, self._indexes[kind])

    def preemption_order(self, ordering: Ordering) -> PreemptionOrder:
        """Those that run and may be preempted, in the order of the policy."""
        if self._preemption_order is None:
            self._preemption_order = PreemptionOrder(ordering)
            for run in self.view.running:
                if run.job.preemptible and not run.stopping:
                    self._preemption_order.add(run, self.view.now)
        return self._preemption_order

    @property
    def resource_usage(self) -> ResourceUsage:
        """What those that run hold, those that stop included."""
        if self._resource_usage is None:
            self._resource_usage = ResourceUsage(self.view)
        return self._resource_usage

    @property
    def is_wrong(self) -> bool:
        """Whether what it keeps of holdings does not follow from the view any more: somebody forgot to tell it."""
        return self._resource_usage is not None and self._resource_usage != ResourceUsage(self.view)

    def count(self, job: Job, allocations: Iterable[AllocationView], times: int) -> None:
        """Add GPUs to what the job's virtual cluster uses, or take them off with `times` -1.

        Those who share a GPU use it together, and it is counted once.
        """
        for share in allocations:
            for gpu_id in share.gpu_ids:
                gpu = self.view.gpu_by_id.get(gpu_id)
                if gpu is None:
                    continue
                if share.slots == SLOTS or (self._partly.come if times > 0 else self._partly.go)(gpu_id, share.slots):
                    charge(self.quota_usage, job.vc_id, job.klass, gpu.type, times)

    def _look_at(self, run: Running) -> None:
        """Of what is counted already, say whose it is, and what is shared."""
        for share in run.allocations:
            for gpu_id in share.gpu_ids:
                gpu = self.view.gpu_by_id.get(gpu_id)
                if gpu is None:
                    continue
                if self._partly.come(gpu_id, share.slots) and run.job.klass is JobClass.OPPORTUNISTIC:
                    self.quota_usage[-run.job.vc_id, gpu.type] += 1

    def waits(self, job: Job) -> None:
        """A job has come to the queue, or has another memo now."""
        for index in self._indexes.values():
            index.add(job)

    def waits_no_more(self, job_id: int) -> None:
        """A job has left the queue."""
        for index in self._indexes.values():
            index.remove(job_id)

    def runs(self, run: Running) -> None:
        """A job has started, has another memo now, or has begun to stop."""
        if self._resource_usage is not None:
            self._resource_usage.add(run)
        if self._preemption_order is not None and run.job.preemptible and not run.stopping:
            self._preemption_order.add(run, self.view.now)

    def runs_no_more(self, job_id: int) -> None:
        """A job has stopped."""
        if self._resource_usage is not None:
            self._resource_usage.remove(job_id)
        if self._preemption_order is not None:
            self._preemption_order.remove(job_id)

    def _keep(self, kept: Reservation) -> None:
        job = self.view.waiting_by_id.get(kept.job_id)
        run = self.view.running_by_job.get(kept.job_id)
        if job is not None:
            self.count(job, kept.allocations, 1)
        elif run is None and not kept.offered:
            return
        for share in kept.allocations:
            node = self.free.node(share.node_id)
            if node is not None:
                # Those who stop still count as users; until they are gone, this asks for a little too much.
                node.cpus = max(0, node.cpus - share.cpus)
                node.memory_mib = max(0, node.memory_mib - share.memory_mib)


class Queue:
    """Waiting jobs by classes of equal demands (Verma et al., Borg, EuroSys 2015, §3.4), each in the policy's order.

    Where the first of a class cannot start, the others of the class cannot either, so a walk through a queue of
    thousands looks at a few.
    """

    def __init__(self, ordering: Keyed, eligibility: NodeEligibility) -> None:
        self._ordering = ordering
        self._eligibility = eligibility
        self._classes: dict[Hashable, list[tuple[Key, int]]] = {}
        self._jobs: dict[int, tuple[Job, Hashable, Key]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: Job) -> None:
        """Put a job into its place; one that was there already takes its new one."""
        self.remove(job.id)
        kind, key = (class_of(job), self._eligibility.kind(job)), self._ordering.waiting_key(job)
        self._jobs[job.id] = (job, kind, key)
        insort(self._classes.setdefault(kind, []), (key, job.id))

    def remove(self, job_id: int) -> None:
        """Forget a job; one that was not there is no error."""
        found = self._jobs.pop(job_id, None)
        if found is not None:
            _, kind, key = found
            members = self._classes[kind]
            del members[bisect_left(members, (key, job_id))]
            if not members:
                del self._classes[kind]

    def classes(self) -> Iterator[tuple[Job, int]]:
        """The first job of each class, and how many there are in it."""
        for members in self._classes.values():
            yield self._jobs[members[0][1]][0], len(members)

    def walk(self, klass: JobClass | None = None, *, since: Key = ()) -> Walk:
        """The jobs in order, or the guaranteed or opportunistic ones of them; the queue must not change meanwhile.

        With `since`, only the jobs with this key or a larger one.
        """
        classes: Iterable[list[tuple[Key, int]]] = self._classes.values()
        if klass is not None:
            classes = [members for members in classes if self._jobs[members[0][1]][0].klass is klass]
        return Walk(classes, self._jobs, since)

    def walks(self, klass: JobClass | None = None) -> Iterator[Walk]:
        """The same, but each class of equal demands for itself."""
        for members in self._classes.values():
            if klass is None or self._jobs[members[0][1]][0].klass is klass:
                yield Walk([members], self._jobs)


class Queues:
    """A queue for each group that has jobs which wait."""

    def __init__(self, grouping: Grouping, eligibility: NodeEligibility) -> None:
        self._grouping = grouping
        self._eligibility = eligibility
        self._queues: dict[int, Queue] = {}
        self._arrivals: dict[int, list[tuple[float, int]]] = {}  # by group: (start of the wait, job id), ascending
        self._members: dict[int, tuple[int, float]] = {}  # job id -> its group, the start of its wait

    def add(self, job: Job) -> None:
        """Put a job into its place; one that was there already takes its new one."""
        self.remove(job.id)
        group = self._grouping.group_of(job)
        self._members[job.id] = (group, job.waiting_since)
        if group not in self._queues:
            self._queues[group] = Queue(self._grouping, self._eligibility)
            self._arrivals[group] = []
        self._queues[group].add(job)
        insort(self._arrivals[group], (job.waiting_since, job.id))

    def remove(self, job_id: int) -> None:
        """Forget a job; one that was not there is no error."""
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
        """When the job that has waited longest in the group began to wait; infinity for a group without jobs."""
        arrivals = self._arrivals.get(group)
        return arrivals[0][0] if arrivals else float("inf")

    def __iter__(self) -> Iterator[int]:
        """The groups, ascending."""
        return iter(sorted(self._queues))

    def __getitem__(self, group: int) -> Queue:
        """The queue of a group that has one."""
        return self._queues[group]


class Walk:
    """One walk through a queue, on which whole classes can be dropped."""

    def __init__(
        self,
        classes: Iterable[list[tuple[Key, int]]],
        jobs: dict[int, tuple[Job, Hashable, Key]],
        since: Key = (),
    ) -> None:
        self._jobs = jobs
        firsts = ((members, bisect_left(members, (since,)) if since else 0) for members in classes)
        # (key, job id, class, position): no two entries share a job id, so the rest is never compared.
        self._heads = [(*members[first], members, first) for members, first in firsts if first < len(members)]
        heapq.heapify(self._heads)
        self._last: tuple[list[tuple[Key, int]], int] | None = None

    def next(self) -> tuple[Job, Key] | None:
        """The next job and its key, or None at the end."""
        if self._last is not None:
            members, position = self._last
            if position + 1 < len(members):
                heapq.heappush(self._heads, (*members[position + 1], members, position + 1))
        if not self._heads:
            self._last = None
            return None
        key, job_id, members, position = heapq.heappop(self._heads)
        self._last = (members, position)
        return self._jobs[job_id][0], key

    def drop(self) -> None:
        """Leave out the rest of the class of the last job."""
        self._last = None


class PreemptionOrder:
    """Running jobs that may be preempted, the one to go first at the end.

    Jobs with one aging rate keep their order, so the order of all is a merge of a few sorted lists.
    """

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        # By virtual cluster (None: all), by aging_rate.
        self._orders: dict[int | None, dict[float, list[tuple[Key, int]]]] = {}
        self._runs: dict[int, tuple[Running, Key, float]] = {}

    def add(self, run: Running, now: float) -> None:
        """Put a job into its place; one that was there already takes its new one."""
        self.remove(run.job.id)
        key, aging_rate = self._ordering.preemption_key(run, now), self._ordering.aging_rate(run)
        self._runs[run.job.id] = (run, key, aging_rate)
        for vc_id in (None, run.job.vc_id):
            insort(self._orders.setdefault(vc_id, {}).setdefault(aging_rate, []), (key, run.job.id))

    def remove(self, job_id: int) -> None:
        """Forget a job; one that was not there is no error."""
        found = self._runs.pop(job_id, None)
        if found is not None:
            run, key, aging_rate = found
            for vc_id in (None, run.job.vc_id):
                order = self._orders[vc_id][aging_rate]
                del order[bisect_left(order, (key, job_id))]
                if not order:
                    del self._orders[vc_id][aging_rate]

    def victims(self, now: float, vc_id: int | None = None) -> Iterator[Running]:
        """Those that run, in one virtual cluster or in all, the one with the least right to first."""
        orders = [map(self._run, reversed(order)) for order in self._orders.get(vc_id, {}).values()]
        if len(orders) == 1:
            return orders[0]
        return heapq.merge(*orders, key=lambda run: (self._ordering.running_key(run, now), run.job.id), reverse=True)

    def _run(self, entry: tuple[Key, int]) -> Running:
        return self._runs[entry[1]][0]


def class_of(job: Job) -> Hashable:
    """What two jobs have in common if they can start in exactly the same places."""
    return (
        job.vc_id,
        job.klass.value,
        job.gpu_type or "",
        job.gpu_types,
        job.gpus,
        job.nodes,
        job.cpus,
        job.memory_mib,
        job.split,
        job.locality.value,
        job.max_gpus,
        job.gpu_memory_mib if job.packs else None,
        job.form,
    )
