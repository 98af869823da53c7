"""What is free on the nodes of a pool while one cycle hands it out: scratch that dies with the cycle.

Nodes stand on shelves by how many GPUs they have free, so that best fit is reading the shelves in order, and a demand
that no node can meet is seen without looking at any node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model import AllocationView, Node, Snapshot


class Demand(NamedTuple):
    """What a job needs of the pool once its GPU type is settled: `nodes` times the rest.

    `gpu_type` is None only when `gpus` is 0.
    """

    gpu_type: str | None
    gpus: int
    nodes: int
    cpus: int
    memory_mib: int


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


class Free:
    """An index of what is free, kept up to date as GPUs are taken."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = {node.id: _free_node(snapshot, node) for node in snapshot.nodes if node.schedulable}
        self._gpu_type = {gpu.id: gpu.type for gpu in snapshot.gpu_by_id.values()}
        # shelves[type][n] = ids of the nodes with n GPUs of the type free, ascending; the key None counts all types.
        self._shelves: dict[str | None, list[list[int]]] = {}
        for gpu_type in (None, *sorted({gpu.type for gpu in snapshot.gpu_by_id.values()})):
            counts = {node.id: node.count(gpu_type) for node in self._nodes.values()}
            shelves: list[list[int]] = [[] for _ in range(max(counts.values(), default=0) + 1)]
            for node_id in sorted(counts):
                shelves[counts[node_id]].append(node_id)
            self._shelves[gpu_type] = shelves

    def gpus(self, gpu_type: str | None) -> int:
        """How many GPUs of the type are free in the pool."""
        return sum(count * len(shelf) for count, shelf in enumerate(self._shelves.get(gpu_type, ())))

    def most_on_one_node(self, gpu_type: str | None) -> int:
        """How many GPUs of the type the node with the most of them has free."""
        return max((count for count, shelf in enumerate(self._shelves.get(gpu_type, ())) if shelf), default=0)

    def nodes_with(self, gpu_type: str | None, at_least: int) -> int:
        """How many nodes have so many GPUs of the type free."""
        return sum(map(len, self._shelves.get(gpu_type, [])[at_least:]))

    def by_fit(self, gpu_type: str | None, at_least: int) -> Iterator[FreeNode]:
        """The nodes with so many GPUs of the type free, the tightest fit first, then by id."""
        for shelf in self._shelves.get(gpu_type, [])[at_least:]:
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
            types: set[str | None] = {self._gpu_type[gpu_id] for gpu_id in share.gpu_ids}
            if types:
                types.add(None)
            before = {gpu_type: node.count(gpu_type) for gpu_type in types}
            for gpu_id in share.gpu_ids:
                node.gpus[self._gpu_type[gpu_id]].remove(gpu_id)
            node.cpus -= share.cpus
            node.memory_mib -= share.memory_mib
            for gpu_type, count in before.items():
                shelf = self._shelves[gpu_type][count]
                del shelf[bisect_left(shelf, node.id)]
                insort(self._shelves[gpu_type][node.count(gpu_type)], node.id)


def _free_node(snapshot: Snapshot, node: Node) -> FreeNode:
    gpus: dict[str, list[int]] = {}
    for gpu in sorted(node.gpus, key=lambda gpu: (gpu.index, gpu.id)):
        if gpu.healthy and gpu.id not in snapshot.taken_gpus:
            gpus.setdefault(gpu.type, []).append(gpu.id)
    used_cpus, used_memory_mib = snapshot.used_by_node.get(node.id, (0, 0))
    return FreeNode(
        id=node.id,
        rack=node.rack,
        # A node can be overcommitted after its inventory shrank; then it has nothing to give, not less than nothing.
        cpus=max(0, node.cpus - used_cpus),
        memory_mib=max(0, node.memory_mib - used_memory_mib),
        gpus=gpus,
    )
