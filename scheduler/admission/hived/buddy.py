"""Buddy allocation: physical cells for the virtual cells of a gang.

A preassigned virtual cell that is not bound yet gets a free physical cell: of the lowest level at or above its own that
has any, split as far as needed. Cells on bad nodes are passed over, with backtracking. If that fails, free cells of
higher levels are split as far as the promises to all virtual clusters allow (safe relaxed). Parts of bound cells get
parts of the same physical cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.admission.hived.ground import Ground, swap_remove
from scheduler.admission.hived.topology import NONE

Bindings = dict[int, int]  # virtual leaf -> physical leaf


@dataclass(slots=True)
class _Branch:
    """A virtual cell that is not bound yet, and its parts that need a physical cell too."""

    cell: int
    parts: list[_Branch] = field(default_factory=list)


class Buddy:
    """Maps virtual leaf cells to physical ones as the state is now; it changes nothing.

    `inside` is a physical cell that must contain all new bindings; NONE: any. With `distinct_nodes`, each preassigned
    cell that is not bound yet goes to a node that nothing else of the gang is on.
    """

    def __init__(
        self,
        ground: Ground,
        chain: str,
        suggested: frozenset[str] | None,
        inside: int = NONE,
        *,
        distinct_nodes: bool = False,
    ) -> None:
        self.ground, self.suggested, self.inside = ground, suggested, inside
        self.distinct_nodes, self._taken = distinct_nodes, set[str]()
        self.topology, self.physical = ground.topology, ground.topology.physical
        order = (lambda cells: cells.copy()) if ground.dooms else sorted
        self.free: list[list[int]] = [order(cells) for cells in ground.free[chain]]
        self.promised = ground.promised[chain].copy()

    def map(self, leaves: Sequence[int]) -> Bindings | None:
        """The physical leaf cells of these virtual ones; None if bad or not suggested cells are in the way."""
        bindings: Bindings = {}
        roots, groups = self._branches(leaves, bindings)
        nodes, bound_to = self.topology.nodes, self.ground.bound_to
        self._taken = {nodes[leaf][0] for leaf in bindings.values()} | {nodes[bound_to[one]][0] for one in groups}
        for branch in roots:
            found = self._allocate(branch)
            if found is None:
                return None
            bindings |= found
            self._taken |= {nodes[leaf][0] for leaf in found.values()}
        self._taken.clear()  # parts of a bound cell are on its node
        for parent, branches in groups.items():
            matched = self._match(branches, self.physical.children[self.ground.bound_to[parent]])
            if matched is None:
                return None
            bindings |= matched[0]
        return bindings

    def _branches(self, leaves: Sequence[int], bindings: Bindings) -> tuple[list[_Branch], dict[int, list[_Branch]]]:
        """The highest unbound cells of these leaves: preassigned ones, and by bound parent."""
        forest, bound_to = self.topology.virtual, self.ground.bound_to
        seen: dict[int, _Branch] = {}
        roots: list[_Branch] = []
        groups: dict[int, list[_Branch]] = {}
        for leaf in leaves:
            if bound_to[leaf] != NONE:
                bindings[leaf] = bound_to[leaf]
                continue
            cell, lower = leaf, None
            while True:
                branch = seen.get(cell)
                known = branch is not None
                if branch is None:
                    branch = seen[cell] = _Branch(cell)
                if lower is not None:
                    branch.parts.append(lower)
                if known:
                    break
                parent = forest.parent[cell]
                if parent == NONE:
                    roots.append(branch)
                    break
                if bound_to[parent] != NONE:
                    groups.setdefault(parent, []).append(branch)
                    break
                cell, lower = parent, branch
        return roots, groups

    def _allocate(self, branch: _Branch) -> Bindings | None:
        level = self.topology.virtual.level[branch.cell]
        lowest = next((above for above in range(level, len(self.free)) if self.free[above]), None)
        if lowest is None:
            return None
        found = self._split(branch, level, lowest, self.free[lowest]) or self._relax(branch, level)
        if found is None:
            return None
        bindings, cells = found
        self._take_out(cells[0])
        self.promised[level] -= 1
        return bindings

    def _split(
        self, branch: _Branch, level: int, current: int, candidates: Sequence[int]
    ) -> tuple[Bindings, list[int]] | None:
        """One of the candidates, of the level `current`, split down to `level`; the next one if no part will do."""
        if current == level:
            return self._match([branch], candidates)
        for cell in self._usable(candidates):
            found = self._split(branch, level, current - 1, self.physical.children[cell])
            if found is not None:
                return found
        return None

    def _relax(self, branch: _Branch, level: int) -> tuple[Bindings, list[int]] | None:
        """A part of a free cell of a higher level, of which as many may be split as no virtual cluster is promised."""
        splittable = splittable_cells([len(cells) for cells in self.free], self.promised, self._fanout())
        candidates = self.free[level]
        for above in range(level + 1, len(self.free)):
            parts: list[int] = []
            left = [cell for cell in self.free[above] if self.inside == NONE or self._meets(cell)]
            while left and len(parts) < splittable[above]:
                parts.append(left[0])
                swap_remove(left, left[0])
            for _ in range(above - level):
                parts = [child for cell in parts for child in self.physical.children[cell]]
            candidates = parts + candidates
            found = self._match([branch], candidates) if parts else None
            if found is not None:
                return found
        return None

    def _take_out(self, cell: int) -> None:
        """Take a cell out of the free ones, with the cells that contain it split."""
        path = []
        while cell not in self.free[self.physical.level[cell]]:
            path.append(cell)
            cell = self.physical.parent[cell]
        swap_remove(self.free[self.physical.level[cell]], cell)
        for part in reversed(path):
            level = self.physical.level[part]
            self.free[level] += self.physical.children[self.physical.parent[part]]
            swap_remove(self.free[level], part)

    def _fanout(self) -> Sequence[int]:
        cell = next(cells[0] for cells in self.free if cells)
        return self.physical.chain[cell].fanout

    def _match(self, branches: Sequence[_Branch], candidates: Sequence[int]) -> tuple[Bindings, list[int]] | None:
        """A different candidate for each branch, with bindings of the leaf cells; earlier candidates first."""
        usable = self._usable(candidates)
        known: dict[tuple[int, int], Bindings | None] = {}

        def fits(number: int, cell: int) -> Bindings | None:
            if (number, cell) not in known:
                branch = branches[number]
                if self._is_idle(cell):
                    known[number, cell] = dict(self._fill(branch, cell))
                elif self.physical.level[cell] == 0:
                    known[number, cell] = None if cell in self.ground.blocked else {branch.cell: cell}
                else:
                    matched = self._match(branch.parts, self.physical.children[cell])
                    known[number, cell] = None if matched is None else matched[0]
            return known[number, cell]

        def search(number: int, taken: set[int]) -> tuple[Bindings, list[int]] | None:
            if number == len(branches):
                return {}, []
            for cell in usable:
                if cell in taken or (found := fits(number, cell)) is None:
                    continue
                rest = search(number + 1, taken | {cell})
                if rest is not None:
                    return found | rest[0], [cell, *rest[1]]
            return None

        return search(0, set()) if len(usable) >= len(branches) else None

    def _is_idle(self, cell: int) -> bool:
        """True if nothing uses any part of the cell, so that all of its parts will do."""
        ground = self.ground
        used = ground.guaranteed[cell] or ground.opportunistic[cell] or not ground.healthy[cell]
        if used or self.suggested is not None or self.inside != NONE:
            return False
        return not ground.blocked or ground.blocked.isdisjoint(self.physical.leaves(cell))

    def _fill(self, branch: _Branch, cell: int) -> Iterator[tuple[int, int]]:
        if not branch.parts:
            yield branch.cell, cell
        for part, child in zip(branch.parts, self.physical.children[cell], strict=False):
            yield from self._fill(part, child)

    def _usable(self, cells: Sequence[int]) -> list[int]:
        """The cells that may be bound, those with the fewest opportunistic GPUs first; stable."""
        ground, nodes, suggested = self.ground, self.topology.nodes, self.suggested
        usable = []
        for cell in cells:
            if ground.bound[cell] != NONE or (not ground.healthy[cell] and len(nodes[cell]) == 1):
                continue
            if self.distinct_nodes and len(nodes[cell]) == 1 and nodes[cell][0] in self._taken:
                continue
            if suggested is not None and suggested.isdisjoint(nodes[cell]):
                continue  # if some of its nodes are suggested, its parts may do
            if self.inside == NONE or self._meets(cell):
                usable.append(cell)
        usable.sort(key=ground.opportunistic.__getitem__)
        return usable

    def _meets(self, cell: int) -> bool:
        """True if the cell is a part of `inside`, or contains it."""
        low, high = sorted((cell, self.inside), key=self.physical.level.__getitem__)
        return self.physical.above(low, self.physical.level[high]) == high


def splittable_cells(free: Sequence[int], promised: Sequence[int], fanout: Sequence[int]) -> list[int]:
    """Free cells of each level that may be split without breaking a promise; negative: safety is broken."""
    splittable = [0] * len(free)
    for level in range(len(free) - 1, -1, -1):
        splittable[level] = free[level] - promised[level]
        if level + 1 < len(free):
            splittable[level] += splittable[level + 1] * fanout[level + 1]
    return splittable
