"""The changing state of the cells: who uses which GPU, bindings of virtual to physical cells, free cells, bad cells."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Self

from scheduler.admission.hived.topology import NONE, Topology
from scheduler.admission.hived.want import OPPORTUNISTIC

FREE = OPPORTUNISTIC - 1  # the priority of a GPU without a holder

Levels = dict[str, list[int]]  # a number for each level of each chain


# The attributes with a value for each cell.
_LISTS = (
    "bound", "bound_to", "healthy", "split", "in_free", "priority", "guaranteed", "opportunistic", "used", "wanted",
)  # fmt: skip


class Ground:
    """The state of the physical and virtual cells of one pool.

    A physical cell is *free* if it is in no preassigned physical cell and no part of it is one. The free lists contain
    the largest free cells; the rest are their parts. A physical cell that is bound to a preassigned virtual cell is
    taken out of the free lists, which splits the cells that contain it; putting it back merges free buddies.

    A cell is *bad* if a part of it is on a bad node. With `dooms`, a free virtual cell for which no healthy physical
    cell is left is bound to a bad one, so that the virtual cluster sees it: it is *doomed*.
    """

    def __init__(self, topology: Topology, *, dooms: bool = False) -> None:
        self.topology = topology
        self.dooms = dooms
        physical, virtual = topology.physical, topology.virtual
        self.bound = [NONE] * len(physical.level)  # of a physical cell, its virtual cell
        self.bound_to = [NONE] * len(virtual.level)  # of a virtual cell, its physical cell
        self.healthy = [True] * len(physical.level)
        self.split = [False] * len(physical.level)
        self.in_free = [False] * len(physical.level)
        self.priority = [FREE] * len(physical.level)  # of a physical leaf
        self.guaranteed = [0] * len(physical.level)  # GPUs of a physical cell in use by guaranteed groups
        self.opportunistic = [0] * len(physical.level)  # and by opportunistic groups
        self.used = [0] * len(virtual.level)  # GPUs of a virtual cell in use
        self.wanted = [FREE] * len(virtual.level)  # the priority of a virtual leaf
        self.at: list[Counter[int]] = [Counter() for _ in topology.territories]  # GPUs in use by priority
        self.bad_nodes: set[str] = set()
        self.blocked: set[int] = set()  # physical leaves that no gang may get now
        chains = topology.config.chains.items()
        self.free: dict[str, list[list[int]]] = {name: [[] for _ in chain.types] for name, chain in chains}
        # Free physical cells of each level (in the free lists or parts of such), free preassigned virtual cells of all
        # virtual clusters, and of each.
        self.left: Levels = {name: [0] * len(chain.types) for name, chain in chains}
        self.promised: Levels = {name: [0] * len(chain.types) for name, chain in chains}
        self.owed: dict[tuple[str, str], list[int]] = {}
        self.bad_free: dict[str, list[list[int]]] = {name: [[] for _ in chain.types] for name, chain in chains}
        self.doomed: dict[tuple[str, str], list[list[int]]] = {}
        for name, tops in topology.tops.items():
            chain = topology.config.chains[name]
            self.free[name][chain.top] = list(tops)
            for top in tops:
                self.in_free[top] = True
            for level in range(chain.top + 1):
                self.left[name][level] = len(topology.by_level[name][level])
        for territory in topology.territories:
            chain = territory.chain
            owed = self.owed.setdefault((territory.vc, chain.name), [0] * len(chain.types))
            self.doomed.setdefault((territory.vc, chain.name), [[] for _ in chain.types])
            for level, roots in territory.roots.items():
                owed[level] += len(roots)
                self.promised[chain.name][level] += len(roots)
        self._owing = {name: [vc for vc, chain in self.owed if chain == name] for name, _ in chains}
        for root, cell in topology.pinned_to.items():
            self.claim(cell, topology.territory[root].vc)
            self._join(cell, root)

    def duplicate(self) -> Self:
        """A copy that changes by itself."""
        new = copy(self)
        for name in _LISTS:
            setattr(new, name, getattr(self, name).copy())
        new.at = [counter.copy() for counter in self.at]
        new.bad_nodes, new.blocked = set(self.bad_nodes), set(self.blocked)
        for name in ("left", "promised", "owed"):
            setattr(new, name, {key: numbers.copy() for key, numbers in getattr(self, name).items()})
        for name in ("free", "bad_free", "doomed"):
            lists = getattr(self, name)
            setattr(new, name, {key: [cells.copy() for cells in levels] for key, levels in lists.items()})
        return new

    # GPUs in use

    def occupy(self, leaf: int, virtual: int, priority: int) -> bool:
        """Let a GPU be in use, by way of a virtual leaf or opportunistically (NONE). False: safety is broken."""
        physical = self.topology.physical
        self.priority[leaf] = priority
        if virtual == NONE:
            for cell in physical.up(leaf):
                self.opportunistic[cell] += 1
            return True
        for cell in physical.up(leaf):
            self.guaranteed[cell] += 1
        self._use(virtual, priority, 1)
        self.wanted[virtual] = priority
        root = self.topology.root[virtual]
        newly = self.bound_to[root] == NONE
        if self.bound[leaf] == NONE:
            self._bind(leaf, virtual)
        territory, cell = self.topology.territory[root], self.bound_to[root]
        if newly:
            return self.claim(cell, territory.vc)
        doomed = self.doomed[territory.vc, territory.chain.name][physical.level[cell]]
        if cell in doomed:  # it is in use now, and no longer bound because it is bad
            swap_remove(doomed, cell)
        return True

    def vacate(self, leaf: int) -> None:
        """Let a GPU be idle again, unbind what nothing uses, and free the physical cell of an unused virtual cell."""
        physical, priority = self.topology.physical, self.priority[leaf]
        self.priority[leaf] = FREE
        if priority < 0:
            for cell in physical.up(leaf):
                self.opportunistic[cell] -= 1
            return
        for cell in physical.up(leaf):
            self.guaranteed[cell] -= 1
        virtual = self.bound[leaf]
        self._use(virtual, priority, -1)
        self.wanted[virtual] = FREE
        root = self.topology.root[virtual]
        cell = self.bound_to[root]
        if self.healthy[leaf] or not self.dooms:  # the binding of a bad leaf shows its virtual cluster that it is bad
            self._unbind(leaf)
        if root in self.topology.pinned_to or self.used[root]:
            return
        territory = self.topology.territory[root]
        if cell not in self.doomed[territory.vc, territory.chain.name][physical.level[cell]]:
            self.release(cell, territory.vc)

    def _use(self, virtual: int, priority: int, number: int) -> None:
        for cell in self.topology.virtual.up(virtual):
            self.used[cell] += number
        self.at[self.topology.territory[virtual].number][priority] += number

    # Bindings

    def _join(self, cell: int, virtual: int) -> None:
        self.bound[cell], self.bound_to[virtual] = virtual, cell

    def _part(self, cell: int, virtual: int) -> None:
        self.bound[cell], self.bound_to[virtual] = NONE, NONE

    def _bind(self, cell: int, virtual: int) -> None:
        while virtual != NONE and self.bound_to[virtual] == NONE:
            self._join(cell, virtual)
            cell, virtual = self.topology.physical.parent[cell], self.topology.virtual.parent[virtual]

    def _unbind(self, cell: int) -> None:
        virtual = self.bound[cell]
        forest = self.topology.virtual
        while virtual not in self.topology.pinned_to:
            self._part(self.bound_to[virtual], virtual)
            virtual = forest.parent[virtual]
            if virtual == NONE or any(self.bound_to[child] != NONE for child in forest.children[virtual]):
                return

    def unbound_child(self, cells: list[int] | tuple[int, ...]) -> int:
        """The first of these virtual cells without a physical cell; NONE if all have one."""
        return next((cell for cell in cells if self.bound_to[cell] == NONE), NONE)

    # Free cells: split and merge

    def claim(self, cell: int, vc: str, *, doom: bool = False) -> bool:
        """Take a free cell for a preassigned cell of a virtual cluster. False: less is left than is promised."""
        physical = self.topology.physical
        chain, level = physical.chain[cell], physical.level[cell]
        left, promised = self.left[chain.name], self.promised[chain.name]
        self.owed[vc, chain.name][level] -= 1
        promised[level] -= 1
        left[level] -= 1
        parent, safe = physical.parent[cell], True
        for above in range(level + 1, self._take_out(cell) + 1):
            left[above] -= 1
            safe = safe and left[above] >= promised[above]
            if self.dooms:
                if self.healthy[parent]:
                    self._doom(chain.name, above)
                else:
                    swap_remove(self.bad_free[chain.name][above], parent)
            parent = physical.parent[parent]
        if self.dooms:
            if self.healthy[cell]:
                self._doom(chain.name, level)
            else:
                self._show_bad(cell)
                if not doom:
                    self._undoom(chain.name, level)
        number = 1
        for below in range(level - 1, -1, -1):
            number *= chain.fanout[below + 1]
            left[below] -= number
            safe = safe and left[below] >= promised[below]
            if self.dooms and not doom:
                self._doom(chain.name, below)
        return safe

    def release(self, cell: int, vc: str, *, doom: bool = False) -> None:
        """Put the physical cell of a preassigned virtual cell back."""
        physical = self.topology.physical
        chain, level = physical.chain[cell], physical.level[cell]
        left = self.left[chain.name]
        self.owed[vc, chain.name][level] += 1
        self.promised[chain.name][level] += 1
        left[level] += 1
        parent = physical.parent[cell]
        for above in range(level + 1, self._put_back(cell) + 1):
            left[above] += 1
            if self.dooms:
                if self.healthy[parent]:
                    self._undoom(chain.name, above)
                else:
                    self.bad_free[chain.name][above].append(parent)
            parent = physical.parent[parent]
        if self.dooms:
            if self.healthy[cell]:
                self._undoom(chain.name, level)
            else:
                self._hide_bad(cell)
                if not doom:
                    self._doom(chain.name, level)
        number = 1
        for below in range(level - 1, -1, -1):
            number *= chain.fanout[below + 1]
            left[below] += number
            if self.dooms and (not doom or self.healthy[cell]):
                self._undoom(chain.name, below)

    def _take_out(self, cell: int) -> int:
        """Take a cell out of the free lists, with the cells that contain it split; the highest level that was split."""
        physical = self.topology.physical
        free = self.free[physical.chain[cell].name]
        while True:
            level, parent = physical.level[cell], physical.parent[cell]
            whole = parent != NONE and not self.split[parent]
            if whole:
                free[level] += physical.children[parent]
                for child in physical.children[parent]:
                    self.in_free[child] = True
                self.split[parent] = True
            swap_remove(free[level], cell)
            self.in_free[cell] = False
            if not whole:
                return level
            cell = parent

    def _put_back(self, cell: int) -> int:
        """Put a cell into the free lists, merged with its buddies if all are free; the level of the merged cell."""
        physical = self.topology.physical
        free = self.free[physical.chain[cell].name]
        while True:
            level, parent = physical.level[cell], physical.parent[cell]
            buddies = [] if parent == NONE else [child for child in physical.children[parent] if child != cell]
            if parent == NONE or not all(self.in_free[child] for child in buddies):
                free[level].append(cell)
                self.in_free[cell] = True
                return level
            for child in buddies:
                swap_remove(free[level], child)
                self.in_free[child] = False
            self.split[parent] = False
            cell = parent

    def is_free(self, cell: int) -> bool:
        """True if the cell is in the free lists, or a part of such a cell."""
        while self.bound[cell] == NONE and not self.split[cell]:
            parent = self.topology.physical.parent[cell]
            if parent == NONE or self.split[parent]:
                return True
            cell = parent
        return False

    # Bad and doomed cells

    def set_bad(self, node: str) -> None:
        """Mark the cells of a node as bad, and show it to the virtual clusters that it concerns."""
        if node not in self.bad_nodes:
            self.bad_nodes.add(node)
            for leaf in self.topology.leaves_on.get(node, ()):
                self._set_bad(leaf)

    def set_good(self, node: str) -> None:
        """Mark the cells of a node as healthy again."""
        if node in self.bad_nodes:
            self.bad_nodes.discard(node)
            for leaf in self.topology.leaves_on.get(node, ()):
                self._set_good(leaf)

    def _set_bad(self, cell: int) -> None:
        if not self.healthy[cell]:
            return
        self.healthy[cell] = False
        physical = self.topology.physical
        parent = physical.parent[cell]
        if parent != NONE:
            self._set_bad(parent)
        if not self.dooms:
            return
        chain, level = physical.chain[cell].name, physical.level[cell]
        if self.is_free(cell):
            self.bad_free[chain][level].append(cell)
            self._doom(chain, level)
        elif self.bound[cell] == NONE and not self.split[cell]:  # its preassigned cell is bound
            self._join(cell, self.unbound_child(self.topology.virtual.children[self.bound[parent]]))

    def _set_good(self, cell: int) -> None:
        physical = self.topology.physical
        while cell != NONE and not self.healthy[cell]:
            self.healthy[cell] = True
            if self.dooms:
                self._recover(cell)
            cell = physical.parent[cell]
            if cell != NONE and not all(self.healthy[child] for child in physical.children[cell]):
                return

    def _recover(self, cell: int) -> None:
        physical = self.topology.physical
        chain, level, virtual = physical.chain[cell].name, physical.level[cell], self.bound[cell]
        if self.is_free(cell):
            swap_remove(self.bad_free[chain][level], cell)
            self._undoom(chain, level)
        elif virtual != NONE and not self.guaranteed[cell] and virtual not in self.topology.pinned_to:
            self._part(cell, virtual)  # nothing uses it: it was bound only because it was bad
            if self.topology.root[virtual] == virtual:
                vc = self.topology.territory[virtual].vc
                swap_remove(self.doomed[vc, chain][level], cell)
                self.release(cell, vc, doom=True)

    def _doom(self, chain: str, level: int) -> None:
        """Bind bad cells to virtual cells where a virtual cluster has more free ones than healthy ones are left."""
        bad = self.bad_free[chain][level]
        for vc in self._owing[chain]:
            while self.owed[vc, chain][level] > self.left[chain][level] - len(bad):
                territory = self.topology.plain.get((vc, chain))
                virtual = self.unbound_child(territory.roots.get(level, ())) if territory else NONE
                if virtual == NONE or not bad:
                    break
                cell = bad[0]
                self._join(cell, virtual)
                self.doomed[vc, chain][level].append(cell)
                self.claim(cell, vc, doom=True)

    def _undoom(self, chain: str, level: int) -> None:
        """Unbind doomed cells where a virtual cluster has fewer free ones than healthy ones are left."""
        for vc in self._owing[chain]:
            doomed = self.doomed[vc, chain][level]
            while doomed and self.owed[vc, chain][level] < self.left[chain][level] - len(self.bad_free[chain][level]):
                cell = doomed[0]
                self._part(cell, self.bound[cell])
                swap_remove(doomed, cell)
                self.release(cell, vc, doom=True)

    def _show_bad(self, cell: int) -> None:
        """Bind the bad parts of a bad cell that is bound, down to its GPUs."""
        physical = self.topology.physical
        bad = self.bad_free[physical.chain[cell].name][physical.level[cell]]
        if cell in bad:
            swap_remove(bad, cell)
        if self.bound[cell] == NONE:
            parent = self.bound[physical.parent[cell]]
            self._join(cell, self.unbound_child(self.topology.virtual.children[parent]))
        for child in physical.children[cell]:
            if not self.healthy[child]:
                self._show_bad(child)

    def _hide_bad(self, cell: int) -> None:
        """Unbind the bad parts of a bad cell that is free again."""
        physical = self.topology.physical
        self.bad_free[physical.chain[cell].name][physical.level[cell]].append(cell)
        if self.bound[cell] != NONE:
            self._part(cell, self.bound[cell])
        for child in physical.children[cell]:
            if not self.healthy[child]:
                self._hide_bad(child)


def swap_remove(cells: list[int], cell: int) -> None:
    """Remove a cell from a list; the last one moves to its place."""
    at = cells.index(cell)
    cells[at] = cells[-1]
    cells.pop()
