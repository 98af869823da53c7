"""The suspended jobs, indexed such that a decision examines only the few that it can change.

A suspended job sleeps while its time slice has not come, no GPU of its time-slice nodes is free, and no type has as
many free GPUs as the job needs. The state keeps the index from one decision to the next.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from scheduler.authoring import Job, Key
from scheduler.policies.gandiva.job_state import NEXT_CHECK, SliceNodes, slice_nodes_of, suits
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import CycleContext, Request

# The position of a job in the queue: its key, then its id.
Entry = tuple[Key, int]
_NO_SIZES: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class Suspended:
    """A job that waits for its time slice, its time-slice nodes, and its next check, in seconds since 1970."""

    job: Job
    slice_nodes: SliceNodes
    entry: Entry
    next_at: float


class SuspendedJobs:
    """An index of the suspended jobs. Changes take effect at the next `refresh`, so that a decision sees one state."""

    def __init__(self, waiting_key: Callable[[Job], Key]) -> None:
        self._waiting_key = waiting_key
        self._changed: dict[int, Job | None] = {}
        self._jobs: dict[int, Suspended] = {}
        self._by_next: list[tuple[float, int]] = []
        self._by_class: dict[Request, list[Entry]] = {}
        self._misfits: set[int] = set()  # ids of the jobs whose time-slice nodes no longer suit them
        self._on_node: dict[int, dict[int, Suspended]] = {}  # node id -> job id -> the job
        self._sizes: dict[int, Counter[int]] = {}  # node id -> GPUs of a job -> suspended jobs of this size
        self._asked: Counter[int] = Counter()  # node id -> GPUs that suspended jobs ask for there

    def add(self, job: Job) -> None:
        """Add a waiting job, or update it after a change of its policy state."""
        self._changed[job.id] = job

    def remove(self, job_id: int) -> None:
        """Remove a job, if it is indexed."""
        self._changed[job_id] = None

    def refresh(self) -> None:
        """Apply the changes since the last call."""
        for job_id, job in self._changed.items():
            before = self._jobs.pop(job_id, None)
            if before is not None:
                self._unindex(before)
            slice_nodes = slice_nodes_of(job) if job is not None else {}
            if job is not None and slice_nodes:
                self._index(
                    Suspended(job, slice_nodes, (self._waiting_key(job), job_id), job.policy_state.get(NEXT_CHECK, 0.0))
                )
        self._changed.clear()

    def _index(self, one: Suspended) -> None:
        job_id, size = one.job.id, one.job.request.gpus_total
        self._jobs[job_id] = one
        insort(self._by_next, (one.next_at, job_id))
        insort(self._by_class.setdefault(one.job.request, []), one.entry)
        if not suits(one.job, one.slice_nodes):
            self._misfits.add(job_id)
        for node_id, gpus in one.slice_nodes.items():
            self._on_node.setdefault(node_id, {})[job_id] = one
            self._sizes.setdefault(node_id, Counter())[size] += 1
            self._asked[node_id] += gpus

    def _unindex(self, one: Suspended) -> None:
        job_id, job_class = one.job.id, one.job.request
        del self._by_next[bisect_left(self._by_next, (one.next_at, job_id))]
        entries = self._by_class[job_class]
        del entries[bisect_left(entries, one.entry)]
        if not entries:
            del self._by_class[job_class]
        self._misfits.discard(job_id)
        for node_id, gpus in one.slice_nodes.items():
            del self._on_node[node_id][job_id]
            self._sizes[node_id][one.job.request.gpus_total] -= 1
            self._asked[node_id] -= gpus
            if not self._on_node[node_id]:
                del self._on_node[node_id], self._sizes[node_id], self._asked[node_id]

    def __getitem__(self, job_id: int) -> Suspended:
        """A suspended job."""
        return self._jobs[job_id]

    def slice_nodes(self, job_id: int) -> SliceNodes:
        """The time-slice nodes of a job; empty for a job that is not suspended."""
        found = self._jobs.get(job_id)
        return {} if found is None else found.slice_nodes

    def on(self, node_id: int) -> Iterable[Suspended]:
        """The jobs with this time-slice node, in any order."""
        return self._on_node.get(node_id, {}).values()

    def sizes(self, node_id: int) -> Mapping[int, int]:
        """The number of suspended jobs on a node, by number of GPUs."""
        return self._sizes.get(node_id, _NO_SIZES)

    def asked(self, node_id: int) -> int:
        """The GPUs of a node that its suspended jobs ask for together."""
        return self._asked[node_id]

    def of_size(self, gpus: int) -> Iterator[Suspended]:
        """The jobs with this number of GPUs, in their order."""
        entries = (entries for job_class, entries in self._by_class.items() if job_class.gpus_total == gpus)
        return (self._jobs[job_id] for _, job_id in heapq.merge(*entries))

    @property
    def nodes(self) -> Iterable[int]:
        """The ids of all time-slice nodes."""
        return self._on_node

    @property
    def classes(self) -> Iterable[Request]:
        """The classes of jobs that the same free GPUs wake."""
        return self._by_class

    def of_class(self, job_class: Request) -> Sequence[Entry]:
        """The positions of the jobs of a class, ascending; callers must not change them."""
        return self._by_class.get(job_class, ())

    def due(self, moment: float) -> Iterator[Suspended]:
        """The jobs due for a check, and those whose time-slice nodes no longer suit them; in any order."""
        for _, job_id in self._by_next[: bisect_right(self._by_next, moment, key=lambda one: one[0])]:
            yield self._jobs[job_id]
        for job_id in self._misfits:
            yield self._jobs[job_id]


class WakeQueue:
    """The suspended jobs to examine, in the order of the queue, as a decision proceeds.

    1. A job wakes when its time slice has come, a GPU of its time-slice nodes is free, or enough GPUs of a type are
       free.
    2. GPUs that become free during the decision wake only jobs later in the order.
    """

    def __init__(self, context: CycleContext, index: SuspendedJobs, *, examine_all: bool) -> None:
        self._context, self._index, self._free = context, index, context.state.free
        self._heap: list[tuple[Key, int, int, Request | None]] = []
        self._number = 0  # of the heap entry, so that comparisons never go further
        self._last: Entry | None = None
        self._walked: set[Request] = set()  # the classes with an entry in the heap
        self._preempted = len(context.preempts)
        if examine_all:
            for job_class in index.classes:
                for entry in index.of_class(job_class):
                    self._push(entry)
            return
        for one in index.due(context.now + SOON_S):
            self._push(one.entry)
        for node_id in index.nodes:
            self._wake(node_id)
        self._walk_classes()

    def next(self) -> Suspended | None:
        """The next job to examine, or None at the end."""
        self._notice_releases()
        while self._heap:
            key, job_id, _, job_class = heapq.heappop(self._heap)
            if job_class is not None:
                self._walked.remove(job_class)
                if not self._fits(job_class):
                    continue
                self._walk(job_class, (key, job_id))
            if self._last is None or (key, job_id) > self._last:
                self._last = (key, job_id)
                return self._index[job_id]
        return None

    def _notice_releases(self) -> None:
        """Wake the jobs for which GPUs became free since the last job was examined."""
        preempts = self._context.preempts
        if len(preempts) == self._preempted:
            return
        for job_id in islice(preempts, self._preempted, None):
            for share in self._context.view.running_by_job[job_id].allocations:
                self._wake(share.node_id)
        self._preempted = len(preempts)
        self._walk_classes()

    def _wake(self, node_id: int) -> None:
        """Wake the jobs with this time-slice node if it has a free GPU or is out of service."""
        node = self._free.node(node_id)
        if node is None or node.count(None):
            for one in self._index.on(node_id):
                if self._last is None or one.entry > self._last:
                    self._push(one.entry)

    def _walk_classes(self) -> None:
        for job_class in self._index.classes:
            if job_class not in self._walked and self._fits(job_class):
                self._walk(job_class, self._last)

    def _walk(self, job_class: Request, after: Entry | None) -> None:
        """Queue the first job of a class after a position; the others follow it one by one."""
        entries = self._index.of_class(job_class)
        position = 0 if after is None else bisect_right(entries, after)
        if position < len(entries):
            self._walked.add(job_class)
            self._push(entries[position], job_class)

    def _fits(self, job_class: Request) -> bool:
        """True if a type that the class accepts has enough free GPUs in the pool for one of its jobs."""
        choices = job_class.choices_among(self._context.state.capacity.types)
        return any(self._free.gpus(choice.gpu_type) >= choice.gpus * job_class.nodes for choice in choices)

    def _push(self, entry: Entry, job_class: Request | None = None) -> None:
        self._number += 1
        heapq.heappush(self._heap, (*entry, self._number, job_class))
