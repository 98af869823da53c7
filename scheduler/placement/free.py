"""What is free on the nodes of a pool while one cycle hands it out: scratch that dies with the cycle, but for the
simulator, which keeps it up to date.

Nodes stand on shelves by how many GPUs they have free, so that best fit is reading the shelves in order, and a demand
that no node can meet is seen without looking at any node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model import AllocationView, Level, Node, View


class Demand(NamedTuple):
    """What a job needs of the pool once its GPU type is settled: `nodes` times the rest.

    `gpu_type` is None only when `gpus` is 0. With `split`, it is one lot of `gpus` that may lie on any number of nodes,
    CPUs and memory are for each GPU, and `nodes` is 1. All must lie `within` one node or rack, if not anywhere.
    """

    gpu_type: str | None
    gpus: int
    nodes: int
    cpus: int
    memory_mib: int
    split: bool = False
    within: Level = Level.ANY


@dataclass(slots=True)
class FreeNode:
    """What one schedulable node still has: its healthy free GPUs by type in the order of their index, and the rest."""

    id: int
    rack: str
    cpus: int
    memory_mib: int
    gpus: dict[str, list[int]]

    def count(self, gpu_type: str | None) -> int:
        """How many GPUs of the type are free, or of all types together for None."""
        if gpu_type is None:
            return sum(map(len, self.gpus.values()))
        return len(self.gpus.get(gpu_type, ()))

    def fits(self, demand: Demand) -> bool:
        """Whether the node can host one rank of a demand that is not split."""
        return (
            self.cpus >= demand.cpus
            and self.memory_mib >= demand.memory_mib
            and self.count(demand.gpu_type) >= demand.gpus
        )

    def room(self, demand: Demand) -> int:
        """How many GPUs of a split demand the node can host, CPUs and memory considered."""
        gpus = self.count(demand.gpu_type)
        if demand.cpus:
            gpus = min(gpus, self.cpus // demand.cpus)
        if demand.memory_mib:
            gpus = min(gpus, self.memory_mib // demand.memory_mib)
        return gpus


class Free:
    """An index of what is free, kept up to date as GPUs are taken and given back."""

    def __init__(self, view: View) -> None:
        self._nodes = {node.id: _free_node(view, node) for node in view.nodes if node.schedulable}
        self._gpu_type = {gpu.id: gpu.type for gpu in view.gpu_by_id.values()}
        self._rank = {gpu.id: (gpu.index, gpu.id) for gpu in view.gpu_by_id.values()}
        self._usable = {gpu.id for gpu in view.gpu_by_id.values() if gpu.healthy}
        # shelves[type][n] = ids of the nodes with n GPUs of the type free, ascending; the key None counts all types.
        self._shelves: dict[str | None, list[list[int]]] = {}
        self._total: Counter[str | None] = Counter()
        most = Counter[str | None]()  # a shelf for as many as a node can ever have free
        for node in view.nodes:
            here = Counter[str | None](gpu.type for gpu in node.gpus) + Counter({None: len(node.gpus)})
            most |= here
        for gpu_type in (None, *sorted({gpu.type for gpu in view.gpu_by_id.values()})):
            counts = {node.id: node.count(gpu_type) for node in self._nodes.values()}
            shelves: list[list[int]] = [[] for _ in range(most[gpu_type] + 1)]
            for node_id in sorted(counts):
                shelves[counts[node_id]].append(node_id)
            self._shelves[gpu_type] = shelves
            self._total[gpu_type] = sum(counts.values())

    def gpus(self, gpu_type: str | None) -> int:
        """How many GPUs of the type are free in the pool."""
        return self._total[gpu_type]

    def node(self, node_id: int) -> FreeNode | None:
        """What one node has free, or None for a node that takes no jobs."""
        return self._nodes.get(node_id)

    def type_of(self, gpu_id: int) -> str:
        """The type of one GPU."""
        return self._gpu_type[gpu_id]

    def most_on_one_node(self, gpu_type: str | None) -> int:
        """How many GPUs of the type the node with the most of them has free."""
        shelves = self._shelves.get(gpu_type, [])
        return next((count for count in range(len(shelves) - 1, 0, -1) if shelves[count]), 0)

    def nodes_with(self, gpu_type: str | None, at_least: int) -> int:
        """How many nodes have so many GPUs of the type free."""
        return sum(map(len, self._shelves.get(gpu_type, [])[at_least:]))

    def by_fit(self, gpu_type: str | None, at_least: int) -> Iterator[FreeNode]:
        """The nodes with so many GPUs of the type free, the tightest fit first, then by id."""
        for shelf in self._shelves.get(gpu_type, [])[at_least:]:
            for node_id in shelf:
                yield self._nodes[node_id]

    def by_room(self, gpu_type: str | None) -> Iterator[FreeNode]:
        """The nodes with any GPU of the type free, those with the most first, then by id."""
        for shelf in reversed(self._shelves.get(gpu_type, [])[1:]):
            for node_id in shelf:
                yield self._nodes[node_id]

    def candidates(self, demand: Demand) -> Iterator[FreeNode]:
        """The nodes that can host one rank of the demand, the tightest fit first, then by id.

        A demand without GPUs goes first to the nodes with the fewest free GPUs, where its CPUs are missed least.
        """
        if self.nodes_with(demand.gpu_type, demand.gpus) < demand.nodes:
            return
        cpus, memory_mib = demand.cpus, demand.memory_mib
        for node in self.by_fit(demand.gpu_type, demand.gpus):
            if node.cpus >= cpus and node.memory_mib >= memory_mib:
                yield node

    def take(self, allocations: Iterable[AllocationView]) -> None:
        """Hand out what the allocations name."""
        for share in allocations:
            node = self._nodes[share.node_id]
            before = self._counts(node, share)
            for gpu_id in share.gpu_ids:
                node.gpus[self._gpu_type[gpu_id]].remove(gpu_id)
            node.cpus -= share.cpus
            node.memory_mib -= share.memory_mib
            self._shelve(node, before)

    def give(self, allocations: Iterable[AllocationView]) -> None:
        """Take back what the allocations name; what is on a node out of service, or not healthy, stays lost."""
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            before = self._counts(node, share)
            for gpu_id in share.gpu_ids:
                if gpu_id in self._usable:
                    insort(node.gpus.setdefault(self._gpu_type[gpu_id], []), gpu_id, key=self._rank.__getitem__)
            node.cpus += share.cpus
            node.memory_mib += share.memory_mib
            self._shelve(node, before)

    def can_take(self, allocations: Iterable[AllocationView]) -> bool:
        """Whether all that the allocations name is free."""
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None or node.cpus < share.cpus or node.memory_mib < share.memory_mib:
                return False
            if not all(gpu_id in node.gpus.get(self._gpu_type.get(gpu_id, ""), ()) for gpu_id in share.gpu_ids):
                return False
        return True

    def _counts(self, node: FreeNode, share: AllocationView) -> dict[str | None, int]:
        types: set[str | None] = {self._gpu_type[gpu_id] for gpu_id in share.gpu_ids if gpu_id in self._gpu_type}
        if types:
            types.add(None)
        return {gpu_type: node.count(gpu_type) for gpu_type in types}

    def _shelve(self, node: FreeNode, before: dict[str | None, int]) -> None:
        for gpu_type, count in before.items():
            after = node.count(gpu_type)
            shelves = self._shelves[gpu_type]
            del shelves[count][bisect_left(shelves[count], node.id)]
            insort(shelves[after], node.id)
            self._total[gpu_type] += after - count


def _free_node(view: View, node: Node) -> FreeNode:
    gpus: dict[str, list[int]] = {}
    for gpu in sorted(node.gpus, key=lambda gpu: (gpu.index, gpu.id)):
        if gpu.healthy and gpu.id not in view.holder_of_gpu and gpu.id not in view.reserved_gpus:
            gpus.setdefault(gpu.type, []).append(gpu.id)
    used_cpus, used_memory_mib = view.used_by_node.get(node.id, (0, 0))
    return FreeNode(
        id=node.id,
        rack=node.rack,
        # A node can be overcommitted after its inventory shrank; then it has nothing to give, not less than nothing.
        cpus=max(0, node.cpus - used_cpus),
        memory_mib=max(0, node.memory_mib - used_memory_mib),
        gpus=gpus,
    )
