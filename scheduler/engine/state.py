"""The state of the scheduler: a view of a pool with the indexes that decisions read.

Production builds a state for each cycle. The simulator keeps one and reports each change to it, so that a decision
costs as much as the change, not as much as the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeVar, cast

from scheduler.admission import Admission, Ledger
from scheduler.admission.caps import capped
from scheduler.engine.queue import PreemptionOrder, PreemptionOrdering, Queue, QueueGrouping, QueueOrdering, Queues
from scheduler.engine.reorder import exchanges_of
from scheduler.engine.usage import ResourceUsage
from scheduler.model import Job, Reservation, Running, View
from scheduler.model.request import Config
from scheduler.placement.capacity import Capacity
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free


class WaitingIndex(Protocol):
    """An index of waiting jobs that the state keeps up to date."""

    def add(self, job: Job) -> None:
        """Index a job, or index it again with new policy state."""

    def remove(self, job_id: int) -> None:
        """Remove a job. Does nothing if the job is not indexed."""


IndexT = TypeVar("IndexT", bound=WaitingIndex)


class SchedulerState:
    """A view of a pool with its free resources, its capacity and its usage."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.free, self.capacity = Free(view), Capacity(view)
        self._ledger: Ledger | None = None
        # The ids of the jobs whose policy state may have changed; None: all jobs. The simulator narrows it.
        self.due: set[int] | None = None
        # The demands for a request, by everything else that they depend on: see `CycleContext.demands`.
        self.demands: dict[Hashable, Sequence[Demand]] = {}
        self.configs: dict[Hashable, Sequence[Config]] = {}
        self._indexes: dict[type[WaitingIndex], WaitingIndex] = {}
        self._preemption_order: PreemptionOrder | None = None
        self._resource_usage: ResourceUsage | None = None
        for reservation in view.reservations:
            if reservation.until > view.now:
                self._reserve(reservation)

    def queue(self, ordering: QueueOrdering) -> Queue:
        """The startable waiting jobs in the order of the policy."""
        return self.waiting_index(
            Queue,
            lambda: Queue(ordering, self.free.eligibility, self.ledger.key, exchanges_of(ordering, self.view)),
        )

    def queues(self, grouping: QueueGrouping) -> Queues:
        """The startable waiting jobs, in one queue for each group."""
        return self.waiting_index(
            Queues,
            lambda: Queues(grouping, self.free.eligibility, self.ledger.key, exchanges_of(grouping, self.view)),
        )

    def waiting_index(self, kind: type[IndexT], make: Callable[[], IndexT]) -> IndexT:
        """The index of this class over the startable waiting jobs; the first call builds it with `make`."""
        if kind not in self._indexes:
            index = self._indexes[kind] = make()
            for job in self.view.waiting:
                if job.eligible_at <= self.view.now and not job.still_stopping:
                    index.add(job)
        return cast(IndexT, self._indexes[kind])

    def preemption_order(self, ordering: PreemptionOrdering) -> PreemptionOrder:
        """The running jobs that may be preempted, in the order of the policy."""
        if self._preemption_order is None:
            self._preemption_order = PreemptionOrder(ordering)
            for run in self.view.running:
                if run.job.preemptible and not run.stopping:
                    self._preemption_order.add(run, self.view.now)
        return self._preemption_order

    @property
    def resource_usage(self) -> ResourceUsage:
        """The resources that live attempts hold, including stopping ones."""
        if self._resource_usage is None:
            self._resource_usage = ResourceUsage(self.view)
        return self._resource_usage

    @property
    def is_stale(self) -> bool:
        """True if the resource usage differs from that of the view, because a change was not reported."""
        return self._resource_usage is not None and self._resource_usage != ResourceUsage(self.view)

    def use(self, admission: Admission) -> Ledger:
        """The ledger of the admission; the first call makes it, with the reservations of waiting jobs."""
        if self._ledger is None:
            self._ledger = capped(admission.ledger(self.view), self.view)
            for kept in self.view.reservations:
                job = self.view.waiting_by_id.get(kept.job_id)
                if job is not None and kept.until > self.view.now:
                    self._ledger.take(job, kept.allocations)
        return self._ledger

    @property
    def ledger(self) -> Ledger:
        """The ledger of the admission in use.

        Raises:
            RuntimeError: no admission is in use.
        """
        if self._ledger is None:
            raise RuntimeError("this state uses no admission yet")
        return self._ledger

    def add_waiting(self, job: Job) -> None:
        """Record a job that waits, or whose policy state has changed."""
        for index in self._indexes.values():
            index.add(job)

    def remove_waiting(self, job_id: int) -> None:
        """Record that a job has left the queue."""
        for index in self._indexes.values():
            index.remove(job_id)

    def add_running(self, run: Running) -> None:
        """Record a job that has started, has begun to stop, or has new policy state."""
        if self._resource_usage is not None:
            self._resource_usage.add(run)
        if self._preemption_order is not None and run.job.preemptible and not run.stopping:
            self._preemption_order.add(run, self.view.now)

    def remove_running(self, job_id: int) -> None:
        """Record that a job has stopped."""
        if self._resource_usage is not None:
            self._resource_usage.remove(job_id)
        if self._preemption_order is not None:
            self._preemption_order.remove(job_id)

    def _reserve(self, reservation: Reservation) -> None:
        is_of_a_job = reservation.job_id in self.view.waiting_by_id or reservation.job_id in self.view.running_by_job
        if not (is_of_a_job or reservation.offered or reservation.foreign):
            return
        for share in reservation.allocations:
            node = self.free.node(share.node_id)
            if node is not None:
                # Stopping jobs still count as users, so until they end this subtracts too much.
                node.cpus = max(0, node.cpus - share.cpus)
                node.memory_mib = max(0, node.memory_mib - share.memory_mib)
