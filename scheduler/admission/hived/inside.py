"""The nodes of a view on which the pods of a gang go, and their GPUs.

A view is a list of cells that hold one pod each: those of a territory of a virtual cluster, or the nodes of a chain for
opportunistic gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.admission.hived.config import Chain
from scheduler.admission.hived.ground import FREE, Ground
from scheduler.admission.hived.topology import NONE, Forest
from scheduler.admission.hived.want import OPPORTUNISTIC


@dataclass(frozen=True, slots=True)
class View:
    """The cells that may hold a pod, in order. `virtual` tells the cells of a virtual cluster from physical ones."""

    chain: Chain
    nodes: list[int]
    virtual: bool


class Inside:
    """Places gangs in one view as the state of the cells is now."""

    def __init__(
        self, ground: Ground, view: View, suggested: frozenset[str] | None, *, distinct_nodes: bool = False
    ) -> None:
        self.ground, self.view, self.suggested, self.distinct_nodes = ground, view, suggested, distinct_nodes
        self.forest: Forest = ground.topology.virtual if view.virtual else ground.topology.physical
        self._priority = ground.wanted if view.virtual else ground.priority

    def place(self, sizes: Sequence[int], priority: int) -> list[list[int]] | str:
        """The leaf cells of each pod (`sizes` ascending), or why there is no place.

        First without the GPUs of lower priorities, then with them.
        """
        ordered = self.ordered()
        chosen = self._next_fit(ordered, sizes, OPPORTUNISTIC)
        limit = OPPORTUNISTIC
        if isinstance(chosen, str) and priority > OPPORTUNISTIC:
            limit = priority
            chosen = self._next_fit(ordered, sizes, limit)
        if isinstance(chosen, str):
            return chosen
        available: dict[int, list[int]] = {}
        placed = []
        for node, size in zip(chosen, sizes, strict=True):
            if node not in available:
                available[node] = self._available(node, limit)
            leaves = self._closest(node, available[node], size)
            taken = set(leaves)
            available[node] = [leaf for leaf in available[node] if leaf not in taken]
            placed.append(leaves)
        return placed

    def ordered(self) -> list[int]:
        """The nodes in the order to try: healthy, suggested, fullest first, and away from guaranteed groups; stable."""
        ground, nodes = self.ground, self.view.nodes
        if self.view.virtual:
            used = ground.used
            if not ground.bad_nodes and self.suggested is None:
                return sorted(nodes, key=used.__getitem__, reverse=True)  # stable, even in reverse
            return sorted(nodes, key=lambda node: (*self._unfit(node), -used[node]))
        opportunistic, guaranteed = ground.opportunistic, ground.guaranteed
        return sorted(nodes, key=lambda node: (*self._unfit(node), -opportunistic[node], guaranteed[node]))

    def _unfit(self, node: int) -> tuple[bool, bool]:
        """True if the node is bad, and True if it is not suggested; an unbound virtual node is neither."""
        ground = self.ground
        cell = ground.bound_to[node] if self.view.virtual else node
        if cell == NONE:
            return False, False
        names = ground.topology.nodes[cell]
        return not ground.healthy[cell], self.suggested is not None and names[0] not in self.suggested

    def _free(self, node: int, limit: int) -> int:
        """The GPUs of a node that no group of this priority or a higher one uses."""
        if self.ground.blocked:
            return min(self._with_blocked(node, limit), len(self._available(node, limit)))
        return self._unblocked(node, limit)

    def _with_blocked(self, node: int, limit: int) -> int:
        """As if the blocked GPUs of the physical cell that it is bound to were in use."""
        ground = self.ground
        cell = ground.bound_to[node] if self.view.virtual else node
        if cell == NONE:
            return self._unblocked(node, limit)
        blocked = sum(
            leaf in ground.blocked and (not self.view.virtual or ground.bound[leaf] == NONE)
            for leaf in ground.topology.physical.leaves(cell)
        )
        return self._unblocked(node, limit) - blocked

    def _unblocked(self, node: int, limit: int) -> int:
        ground, size = self.ground, self.forest.size[node]
        if not self.view.virtual:
            return size - ground.opportunistic[node] - ground.guaranteed[node]
        if limit == OPPORTUNISTIC or not ground.used[node]:
            return size - ground.used[node]
        return size - sum(ground.wanted[leaf] >= limit for leaf in self.forest.leaves(node))

    def _next_fit(self, ordered: Sequence[int], sizes: Sequence[int], limit: int) -> list[int] | str:
        chosen: list[int] = []
        names: set[str] = set()  # of the nodes of pods, where each needs one of its own
        for node in ordered:
            name = self._node_of(node) if self.distinct_nodes else ""
            if name in names:
                continue
            free = self._free(node, limit)
            while free >= sizes[len(chosen)]:
                bad, strange = self._unfit(node)
                if bad or strange:
                    what = "bad" if bad else "not suggested"
                    return f"it would have to use at least one node that is {what}"
                free -= sizes[len(chosen)]
                chosen.append(node)
                if len(chosen) == len(sizes):
                    return chosen
                if self.distinct_nodes:
                    names |= {name} if name else set()
                    break
        return "there are not enough free GPUs"

    def _node_of(self, node: int) -> str:
        """The name of the physical node of a view's cell; empty for one that is not bound yet."""
        cell = self.ground.bound_to[node] if self.view.virtual else node
        return "" if cell == NONE else self.ground.topology.nodes[cell][0]

    def _available(self, node: int, limit: int) -> list[int]:
        """The leaf cells of a node that are free, then those that a group of a lower priority uses."""
        free, preemptible = [], []
        ground = self.ground
        for leaf in self.forest.leaves(node):
            if (ground.bound_to[leaf] if self.view.virtual else leaf) in ground.blocked:
                continue
            priority = self._priority[leaf]
            if priority == FREE:
                free.append(leaf)
            elif priority < limit:
                preemptible.append(leaf)
        return free + preemptible

    def _closest(self, node: int, available: Sequence[int], size: int) -> list[int]:
        """The first `size` leaf cells, in the order of `available`, whose lowest common cell is as low as can be."""
        forest, chain = self.forest, self.view.chain
        for level in range(forest.level[node] + 1):
            if chain.sizes[level] < size:
                continue
            inside: dict[int, list[int]] = {}  # by cell of this level, positions in `available`
            complete: list[list[int]] = []
            for position, leaf in enumerate(available):
                positions = inside.setdefault(forest.above(leaf, level), [])
                positions.append(position)
                if len(positions) == size:
                    complete.append(positions[:])
            if complete:
                return [available[position] for position in min(complete)]
        raise AssertionError(f"node {node} has no {size} available leaf cells")
