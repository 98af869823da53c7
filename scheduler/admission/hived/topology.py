"""The trees of physical and virtual cells of a configuration. They never change; cells are numbers in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from scheduler.admission.hived.config import CellConfig, Chain, PhysicalCell

NONE = -1


@dataclass(slots=True)
class Forest:
    """Cells as numbers, parents before children. `levels[chain][level]` are the cells of a level in order."""

    chain: list[Chain] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    children: list[tuple[int, ...]] = field(default_factory=list)
    size: list[int] = field(default_factory=list)  # GPUs
    rank: list[int] = field(default_factory=list)  # the number of a cell among its buddies
    _leaves: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def add(self, chain: Chain, level: int, parent: int, rank: int = 0) -> int:
        """A new cell without children."""
        self.chain.append(chain)
        self.level.append(level)
        self.parent.append(parent)
        self.children.append(())
        self.size.append(chain.sizes[level])
        self.rank.append(rank)
        return len(self.level) - 1

    def above(self, cell: int, level: int) -> int:
        """The cell of this level that contains the cell, or is it; NONE if its tree ends below that level."""
        while self.level[cell] < level:
            cell = self.parent[cell]
            if cell == NONE:
                return NONE
        return cell

    def leaves(self, cell: int) -> tuple[int, ...]:
        """The leaf cells of a cell, in order."""
        found = self._leaves.get(cell)
        if found is None:
            parts = self.children[cell]
            found = tuple(leaf for part in parts for leaf in self.leaves(part)) if parts else (cell,)
            self._leaves[cell] = found
        return found

    def up(self, cell: int) -> Iterator[int]:
        """The cell and all cells that contain it, from below."""
        while cell != NONE:
            yield cell
            cell = self.parent[cell]

    def down(self, cell: int) -> Iterator[int]:
        """The cell and all cells in it."""
        yield cell
        for child in self.children[cell]:
            yield from self.down(child)


@dataclass(slots=True)
class Territory:
    """The cells in which a virtual cluster may place a job: its cells of one chain, or one pinned cell.

    `roots[level]` are its preassigned cells, `cells[level]` all of its cells, `nodes` the cells that hold one pod:
    nodes, and preassigned cells that are parts of a node.
    """

    number: int
    vc: str
    chain: Chain
    pin: str
    roots: dict[int, list[int]] = field(default_factory=dict)
    cells: dict[int, list[int]] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    size: int = 0  # GPUs


class Topology:
    """The physical forest, the virtual forest, and the names of both."""

    def __init__(self, config: CellConfig) -> None:
        self.config = config
        self.physical = Forest()
        self.address: list[str] = []  # of each physical cell
        self.nodes: list[tuple[str, ...]] = []  # of each physical cell, the nodes that it spans
        self.index: list[int] = []  # of each leaf cell, the index of its GPU on its node
        self.tops: dict[str, list[int]] = {name: [] for name in config.chains}
        self.by_level: dict[str, list[list[int]]] = {
            name: [[] for _ in chain.types] for name, chain in config.chains.items()
        }
        self.leaf_at: dict[tuple[str, int], int] = {}
        self.leaves_on: dict[str, list[int]] = {}
        self._pins: dict[str, int] = {}
        for name, cell in config.physical:
            chain = config.chains[name]
            self.tops[name].append(self._build(cell, chain, NONE, "", ""))
        self.views = {name: levels[config.chains[name].node] for name, levels in self.by_level.items()}

        self.virtual = Forest()
        self.name: list[str] = []  # of each virtual cell, unique in its virtual cluster
        self.root: list[int] = []  # of each virtual cell, its preassigned cell
        self.territory: list[Territory] = []  # of each virtual cell
        self.pinned_to: dict[int, int] = {}  # preassigned virtual cell -> its pinned physical cell
        self.named: dict[tuple[str, str], int] = {}  # preassigned cells, and their parts down to nodes
        self.territories: list[Territory] = []
        self.plain: dict[tuple[str, str], Territory] = {}  # by virtual cluster and chain
        self.pins: dict[tuple[str, str], Territory] = {}  # by virtual cluster and pinned cell
        for vc, assignment in config.clusters.items():
            for path, count in assignment.cells.items():
                chain, level = config.level(path, field=f"virtualClusters.{vc}")
                if count and (vc, chain.name) not in self.plain:
                    self.plain[vc, chain.name] = self._territory(vc, chain, "")
                for number in range(count):
                    self._grow(self.plain[vc, chain.name], level, f"{path}/{number}")
            for pin in assignment.pinned:
                physical = self._pins[pin]
                territory = self.pins[vc, pin] = self._territory(vc, self.physical.chain[physical], pin)
                self.pinned_to[self._grow(territory, self.physical.level[physical], f"pin:{pin}")] = physical
        for territory in self.territories:
            self._view(territory)
        # The leaf types and the chains that have them, each in descending order of names.
        self.chains_of: dict[str, list[str]] = {}
        for name in sorted(config.chains, reverse=True):
            self.chains_of.setdefault(config.chains[name].leaf_type, []).append(name)
        self.leaf_types = sorted(self.chains_of, reverse=True)
        self.all_nodes = tuple(self.leaves_on)

    def _build(self, spec: PhysicalCell, chain: Chain, parent: int, node: str, prefix: str) -> int:
        level = chain.top if parent == NONE else self.physical.level[parent] - 1
        rank = 0 if parent == NONE else len(self.physical.children[parent])
        cell = self.physical.add(chain, level, parent, rank)
        node = spec.address if level == chain.node else node
        address = prefix + spec.address
        self.address.append(address)
        self.nodes.append((node,))
        self.index.append(int(spec.address) if level == 0 else NONE)
        self.by_level[chain.name][level].append(cell)
        if spec.pinned:
            self._pins[spec.pinned] = cell
        if level == 0:
            self.leaf_at[node, int(spec.address)] = cell
            self.leaves_on.setdefault(node, []).append(cell)
        for child in spec.children:
            part = self._build(child, chain, cell, node, f"{address}/")
            self.physical.children[cell] += (part,)
        if level > chain.node:
            parts = self.physical.children[cell]
            self.nodes[cell] = tuple(name for part in parts for name in self.nodes[part])
        return cell

    def _territory(self, vc: str, chain: Chain, pin: str) -> Territory:
        territory = Territory(len(self.territories), vc, chain, pin)
        self.territories.append(territory)
        return territory

    def _grow(self, territory: Territory, level: int, name: str) -> int:
        root = self._virtual(territory, level, NONE, name)
        territory.roots.setdefault(level, []).append(root)
        territory.size += self.virtual.size[root]
        return root

    def _virtual(self, territory: Territory, level: int, parent: int, name: str) -> int:
        rank = 0 if parent == NONE else len(self.virtual.children[parent])
        cell = self.virtual.add(territory.chain, level, parent, rank)
        self.name.append(name)
        self.root.append(cell if parent == NONE else self.root[parent])
        self.territory.append(territory)
        territory.cells.setdefault(level, []).append(cell)
        if parent == NONE or level >= territory.chain.node:
            self.named[territory.vc, name] = cell
        for number in range(territory.chain.fanout[level]):
            part = self._virtual(territory, level - 1, cell, f"{name}/{number}")
            self.virtual.children[cell] += (part,)
        return cell

    def _view(self, territory: Territory) -> None:
        """Collect the cells that hold one pod: whole nodes first, then the largest parts of nodes."""
        node = territory.chain.node
        territory.nodes = list(territory.cells.get(node, ()))
        for level in range(node - 1, -1, -1):
            territory.nodes += territory.roots.get(level, ())

    def pod_cell(self, virtual: int) -> int:
        """The cell of a virtual leaf that holds a whole pod: its node, or its preassigned cell if that is smaller."""
        cell = self.virtual.above(virtual, self.territory[virtual].chain.node)
        return self.root[virtual] if cell == NONE else cell

    def types_of(self, vc: str) -> Sequence[str]:
        """The leaf types of the cells that a virtual cluster owns, other than pinned ones."""
        return [kind for kind in self.leaf_types if any((vc, name) in self.plain for name in self.chains_of[kind])]


_KEPT: WeakKeyDictionary[CellConfig, Topology] = WeakKeyDictionary()


def topology_of(config: CellConfig) -> Topology:
    """The topology of a configuration, built once for each."""
    found = _KEPT.get(config)
    if found is None:
        found = _KEPT[config] = Topology(config)
    return found
