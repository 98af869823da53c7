"""Gandiva's view of the nodes: each has an affinity, the GPU count of the jobs that it hosts, and a height.

Source: Xiao et al., Gandiva (OSDI 2018), §4.1. A suspended job is hosted on its time-slice nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from scheduler.authoring import Job, Running
from scheduler.policies.gandiva.job_state import SliceNodes
from scheduler.policies.gandiva.suspended import Entry, Suspended, SuspendedJobs
from scheduler.policies.preemptive import SOON_S
from scheduler.workshop import AllocationView, CycleContext, Demand, FreeNode

_NOBODY: Mapping[int, int] = {}


class Nodes:
    """The nodes during one decision, with the jobs suspended on them so far."""

    def __init__(self, context: CycleContext, suspended: SuspendedJobs, slice_s: float) -> None:
        self.context, self.free, self.view = context, context.state.free, context.view
        self.suspended, self.slice_s = suspended, slice_s
        self.served: Entry | None = None  # the suspended job that is being served; None: all have been
        # The ids of the suspended jobs that do not sleep: they were examined, or had a place before.
        self.awake: set[int] = {*context.places, *context.reserved}
        self._blocked: set[int] = set()  # ids of the nodes reserved for a job that was examined
        # The changes since the decision began, as in `SuspendedJobs`.
        self._sizes: dict[int, Counter[int]] = {}
        self._asked: Counter[int] = Counter()
        self._gpus = context.state.capacity.derived(Nodes, self._count_gpus)
        self._runs: dict[int, list[Running]] = {}

    def _count_gpus(self) -> Mapping[int, Counter[str | None]]:
        """The healthy GPUs of each node by type."""
        return {node.id: Counter(gpu.type for gpu in node.gpus if gpu.healthy) for node in self.view.nodes}

    def host(self, job: Job, slice_nodes: SliceNodes, times: int) -> None:
        """Count a suspended job on its time-slice nodes, or remove it with `times` -1."""
        for node_id, gpus in slice_nodes.items():
            self._sizes.setdefault(node_id, Counter())[job.request.gpus_total] += times
            self._asked[node_id] += times * gpus

    def shared(self, node_id: int) -> bool:
        """True if the node hosts suspended jobs."""
        return self._asked_on(node_id) > 0

    def block(self, slice_nodes: SliceNodes) -> None:
        """Reserve these nodes for a job that waits for its time slice there."""
        self._blocked.update(slice_nodes)

    def is_blocked(self, node_id: int) -> bool:
        """True if the node is reserved for a job ahead, whose time slice begins before a new one would end.

        Sleeping jobs are checked only here: a decision does not examine all of them.
        """
        return node_id in self._blocked or any(map(self._blocks, self.suspended.on(node_id)))

    def may_displace_at(self, job: Job) -> float:
        """The time at which the job has been suspended for one time slice, and may displace others."""
        return job.requeued_at + self.slice_s if job.requeued_at else self.context.now

    def _blocks(self, one: Suspended) -> bool:
        """True if a sleeping job reserves its time-slice nodes."""
        soon = self.context.now + SOON_S
        return (
            soon < one.next_at < self.context.now + self.slice_s - SOON_S
            and (self.served is None or one.entry < self.served)
            and self.may_displace_at(one.job) <= soon
            and one.job.id not in self.awake
        )

    def _asked_on(self, node_id: int) -> int:
        return self.suspended.asked(node_id) + self._asked[node_id]

    def affinity(self, node: FreeNode) -> int:
        """The job size that asks for most of the node's GPUs, the larger of equals; 0: none."""
        asked: dict[int, int] = {}
        for resident, number in node.residents.items():
            asked[resident.gpus] = asked.get(resident.gpus, 0) + resident.gpus * number
        for sizes in (self.suspended.sizes(node.id), self._sizes.get(node.id, _NOBODY)):
            for size, number in sizes.items():
                asked[size] = asked.get(size, 0) + size * number
        most = largest = 0
        for size, gpus in asked.items():
            if gpus > most or (gpus == most and size > largest and gpus):
                most, largest = gpus, size
        return largest

    def height(self, node: FreeNode) -> float:
        """GPUs asked for on the node, by suspended jobs too, over its healthy GPUs."""
        gpus = self.gpus(node.id)
        return (gpus - node.count(None) + self._asked_on(node.id)) / gpus if gpus else 0.0

    def gpus(self, node_id: int) -> int:
        """The number of healthy GPUs of a node."""
        return self._gpus[node_id].total()

    def gpus_of(self, node_id: int, gpu_type: str | None) -> int:
        """The number of healthy GPUs of a type on a node."""
        return self._gpus[node_id][gpu_type]

    def runs_on(self, node_id: int) -> Iterator[Running]:
        """The jobs that run on the node and have not been released, by job id."""
        if node_id not in self._runs:
            gpus = self.view.node_by_id[node_id].gpus
            ids = {holder for gpu in gpus for holder in self.view.holders_of_gpu.get(gpu.id, ())}
            self._runs[node_id] = [self.view.running_by_job[job_id] for job_id in sorted(ids)]
        return filter(self.context.stays, self._runs[node_id])

    def held(self, run: Running, node_id: int, gpu_type: str | None) -> int:
        """The number of usable GPUs of the type that a job holds on a node."""
        held = 0
        for share in run.allocations:
            if share.node_id == node_id:
                for gpu_id in share.gpu_ids:
                    held += self.free.usable(gpu_id) and self.free.type_of(gpu_id) == gpu_type
        return held

    def find_place(self, job: Job, demand: Demand) -> tuple[AllocationView, ...] | None:
        """The GPUs for a job that fits one node: on the least loaded node of its affinity, else on an empty one."""
        if demand.nodes != 1 or not demand.gpus:
            return None
        best: tuple[bool, bool, float, int] | None = None
        chosen: FreeNode | None = None
        for position, node in enumerate(self.free.candidates(demand)):
            if self.is_blocked(node.id):
                continue
            last_choice = node.id in job.avoid_nodes
            if not node.residents and not self.shared(node.id):
                key = (last_choice, True, 0.0, position)
            else:
                affinity = self.affinity(node)
                if affinity not in (0, demand.gpus) or (height := self.height(node)) >= 1:
                    continue
                key = (last_choice, affinity == 0, height if affinity else 0.0, node.place if affinity else position)
            if best is None or key < best:
                best, chosen = key, node
        return None if chosen is None else shares(chosen, demand)

    def place_on(self, demand: Demand, slice_nodes: SliceNodes) -> tuple[AllocationView, ...] | None:
        """The GPUs for a job on its time-slice nodes, or None unless all of them are free."""
        found: list[AllocationView] = []
        if not demand.divisible and any(gpus != demand.gpus for gpus in slice_nodes.values()):
            return None  # they have the size of another choice
        for node_id, gpus in slice_nodes.items():
            node = self.free.node(node_id)
            lots = gpus if demand.divisible else 1
            if node is None or node.id in demand.closed or node.count(demand.gpu_type) < gpus:
                return None
            if node.cpus < demand.cpus * lots or node.memory_mib < demand.memory_mib * lots:
                return None
            found.append(_share(node, len(found), gpus, demand))
        return tuple(found)

    def has_nothing_free(self, job: Job, slice_nodes: SliceNodes) -> bool:
        """True if it is certain that no free GPUs suit the job, and that its time-slice nodes have none free."""
        types = job.request.types_among(self.context.state.capacity.types)
        if any(self.free.gpus(gpu_type) >= job.request.gpus_on(gpu_type) for gpu_type in types):
            return False
        return all((node := self.free.node(node_id)) is not None and not node.count(None) for node_id in slice_nodes)

    def place_elsewhere(self, job: Job, demands: Sequence[Demand]) -> bool:
        """Place the job by the pool's placement, on no node with suspended jobs; True if placed."""
        hidden = tuple(
            AllocationView(node.id, 0, tuple(gpu for ids in node.gpus.values() for gpu in ids), 0, 0)
            for node in sorted(self.free.by_room(None), key=lambda one: one.id)
            if self.is_blocked(node.id)
        )
        if hidden:
            self.free.take(hidden)
        placed = self.context.place(job, demands)
        self.context.bind_deferred_lots()
        if hidden:
            self.free.give(hidden)
        return placed


def shares(node: FreeNode, demand: Demand) -> tuple[AllocationView, ...]:
    """All that a demand asks for, on one node that has it."""
    return (_share(node, 0, demand.gpus, demand),)


def _share(node: FreeNode, rank: int, gpus: int, demand: Demand) -> AllocationView:
    lots = gpus if demand.divisible else 1
    gpu_ids = tuple(node.gpus[str(demand.gpu_type)][:gpus])
    return AllocationView(node.id, rank, gpu_ids, demand.cpus * lots, demand.memory_mib * lots)
