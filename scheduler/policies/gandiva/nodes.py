"""The nodes as Gandiva sees them: each has an affinity, the GPU count of the jobs that it hosts, and a height.

Source: Xiao et al., Gandiva (OSDI 2018), §4.1. A job that is suspended is hosted where its home is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.model import AllocationView, Job, Running
from scheduler.placement.free import Demand, FreeNode
from scheduler.policies.gandiva.homes import Home, Homes
from scheduler.scratch import Scratch


class Nodes:
    """The nodes during one decision, with who is suspended on them so far."""

    def __init__(self, scratch: Scratch, suspended: Sequence[Job]) -> None:
        self.scratch, self.free, self.view = scratch, scratch.board.free, scratch.view
        self.suspended = suspended
        self.homes = scratch.board.capacity.derived(Homes, Homes)
        self.blocked: set[int] = set()  # ids of nodes where nobody may start before one who waits for its turn there
        self._sizes: dict[int, Counter[int]] = {}  # node id -> GPUs of a job -> how many such jobs are suspended there
        self._asked: Counter[int] = Counter()  # node id -> GPUs that suspended jobs ask for there
        self._gpus: dict[int, int] = {}
        self._runs: dict[int, list[Running]] = {}
        for job in suspended:
            self.host(job, self.homes.of(job), 1)

    def host(self, job: Job, home: Home, times: int) -> None:
        """Count a suspended job where its home is, or no longer with `times` -1."""
        for node_id, gpus in home.items():
            self._sizes.setdefault(node_id, Counter())[job.gpus_total] += times
            self._asked[node_id] += times * gpus

    def shared(self, node_id: int) -> bool:
        """Whether anybody is suspended on the node."""
        return self._asked[node_id] > 0

    def affinity(self, node: FreeNode) -> int:
        """The size of those jobs of one size that ask for most of the node's GPUs, the larger of equals; 0: nobody."""
        asked: Counter[int] = Counter()
        for guest, number in node.guests.items():
            asked[guest.gpus] += guest.gpus * number
        for size, number in self._sizes.get(node.id, {}).items():
            asked[size] += size * number
        return max(((gpus, size) for size, gpus in asked.items() if gpus > 0), default=(0, 0))[1]

    def height(self, node: FreeNode) -> float:
        """GPUs that are asked for on the node, by suspended jobs too, by GPUs that it has."""
        gpus = self.gpus(node.id)
        return (gpus - node.count(None) + self._asked[node.id]) / gpus if gpus else 0.0

    def gpus(self, node_id: int) -> int:
        """How many healthy GPUs a node has."""
        if node_id not in self._gpus:
            self._gpus[node_id] = sum(gpu.healthy for gpu in self.view.node_by_id[node_id].gpus)
        return self._gpus[node_id]

    def runs_on(self, node_id: int) -> Iterator[Running]:
        """Those that run on the node and stay so far, by id of their job."""
        if node_id not in self._runs:
            gpus = self.view.node_by_id[node_id].gpus
            ids = {holder for gpu in gpus for holder in self.view.holders_of_gpu.get(gpu.id, ())}
            self._runs[node_id] = [self.view.running_by_job[job_id] for job_id in sorted(ids)]
        return filter(self.scratch.stays, self._runs[node_id])

    def held(self, run: Running, node_id: int, gpu_type: str | None) -> int:
        """How many usable GPUs of the type a job holds on a node."""
        return sum(
            self.free.usable(gpu_id) and self.free.type_of(gpu_id) == gpu_type
            for share in run.allocations
            if share.node_id == node_id
            for gpu_id in share.gpu_ids
        )

    def seat(self, job: Job, demand: Demand) -> tuple[AllocationView, ...] | None:
        """The GPUs for a job that fits one node: on the least loaded node of its affinity, else where nobody is."""
        if demand.nodes != 1 or not demand.gpus:
            return None
        best: tuple[bool, bool, float, int] | None = None
        chosen: FreeNode | None = None
        for position, node in enumerate(self.free.candidates(demand)):
            if node.id in self.blocked:
                continue
            last_choice = node.id in job.avoid_nodes
            if not node.guests and node.id not in self._sizes:
                key = (last_choice, True, 0.0, position)
            else:
                affinity = self.affinity(node)
                if affinity not in (0, job.gpus_total) or (height := self.height(node)) >= 1:
                    continue
                key = (last_choice, affinity == 0, height if affinity else 0.0, node.place if affinity else position)
            if best is None or key < best:
                best, chosen = key, node
        return None if chosen is None else shares(chosen, demand)

    def room(self, demand: Demand, home: Home) -> tuple[AllocationView, ...] | None:
        """The GPUs for a job at its home, or None when not all of them are free."""
        found: list[AllocationView] = []
        for node_id, gpus in home.items():
            node = self.free.node(node_id)
            lots = gpus if demand.split else 1
            if node is None or node.id in demand.closed or node.count(demand.gpu_type) < gpus:
                return None
            if node.cpus < demand.cpus * lots or node.memory_mib < demand.memory_mib * lots:
                return None
            found.append(_share(node, len(found), gpus, demand))
        return tuple(found)

    def nothing_for(self, job: Job, home: Home) -> bool:
        """Whether it is plain that no free GPUs will do, and that nothing at home is free at all."""
        types = job.types_among(self.scratch.board.capacity.types)
        if any(self.free.gpus(gpu_type) >= job.gpus_total for gpu_type in types):
            return False
        return all((node := self.free.node(node_id)) is not None and not node.count(None) for node_id in home)

    def place_elsewhere(self, job: Job, demands: Sequence[Demand]) -> bool:
        """Whether the pool's placement found any other free GPUs; those that others wait for are no choice."""
        hidden = tuple(
            AllocationView(node.id, 0, tuple(gpu for ids in node.gpus.values() for gpu in ids), 0, 0)
            for node in (self.free.node(node_id) for node_id in sorted(self.blocked))
            if node is not None and node.count(None)
        )
        if hidden:
            self.free.take(hidden)
        placed = self.scratch.place(job, demands)
        self.scratch.settle()
        if hidden:
            self.free.give(hidden)
        return placed


def shares(node: FreeNode, demand: Demand) -> tuple[AllocationView, ...]:
    """All that a demand asks for, on one node that has it."""
    return (_share(node, 0, demand.gpus, demand),)


def _share(node: FreeNode, rank: int, gpus: int, demand: Demand) -> AllocationView:
    lots = gpus if demand.split else 1
    gpu_ids = tuple(node.gpus[str(demand.gpu_type)][:gpus])
    return AllocationView(node.id, rank, gpu_ids, demand.cpus * lots, demand.memory_mib * lots)
