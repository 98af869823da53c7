"""The cells of one pool with the groups that hold them: place a gang, take GPUs, give them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from scheduler.admission.hived.buddy import Buddy, splittable_cells
from scheduler.admission.hived.config import CellConfig, Chain
from scheduler.admission.hived.ground import FREE, Ground
from scheduler.admission.hived.inside import Inside, View
from scheduler.admission.hived.topology import NONE, Territory, Topology, topology_of
from scheduler.admission.hived.want import OPPORTUNISTIC, Leaf, Placed, Refused, Wait, Want


@dataclass(frozen=True, slots=True)
class Hold:
    """The cells of a group: physical leaf cells, and the virtual ones that it uses them by; empty: opportunistic."""

    vc: str
    priority: int
    leaves: tuple[int, ...]
    virtual: tuple[int, ...]
    lazy: bool

    @property
    def effective(self) -> int:
        """The priority at which it holds its GPUs."""
        return self.priority if self.virtual else OPPORTUNISTIC


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """The physical cells of one level of a chain, other than pinned ones.

    `total` of them exist, `free` are free or parts of free ones, `promised` are owed to free virtual cells, and
    `splittable` may be used or split without breaking a promise; negative: safety is broken.
    """

    type: str
    path: str
    gpus: int
    node: bool
    total: int
    free: int
    promised: int
    splittable: int


class Cells:
    """The state of the cells of one pool. Equal holds give equal states, in whatever order they were taken and given.

    Several groups may hold one GPU at the same time, such as one that is stopping and one that has its place reserved.
    The one with the highest priority uses it.

    With `dooms`, the state also depends on its history, as in HiveD: lists keep the order in which cells were freed and
    nodes sorted, doomed cells stay bound, and a placement leaves the groups demoted that it demotes.
    """

    def __init__(self, config: CellConfig, *, dooms: bool = False) -> None:
        self.ground = Ground(topology_of(config), dooms=dooms)
        self.holds: dict[Hashable, Hold] = {}
        self.holders: dict[int, dict[Hashable, int]] = {}  # physical leaf -> group -> priority
        self._views = {
            name: View(config.chains[name], list(nodes), virtual=False) for name, nodes in self.topology.views.items()
        }
        self._inner = [View(each.chain, list(each.nodes), virtual=True) for each in self.topology.territories]
        self._shown: Cells | None = None
        self._empty: Cells | None = None

    @property
    def topology(self) -> Topology:
        """The cells, which never change."""
        return self.ground.topology

    def copy(self) -> Cells:
        """A copy that changes by itself."""
        new = Cells.__new__(Cells)
        new.ground = self.ground.duplicate()
        new.holds = dict(self.holds)
        new.holders = {leaf: dict(holders) for leaf, holders in self.holders.items()}
        new._views, new._inner = self._views, self._inner
        if self.ground.dooms:  # the order of the nodes is part of the state
            new._views = {name: View(view.chain, list(view.nodes), virtual=False) for name, view in self._views.items()}
            new._inner = [View(view.chain, list(view.nodes), virtual=True) for view in self._inner]
        new._shown, new._empty = None, None
        return new

    # Place

    def place(self, want: Want) -> Placed | Wait | Refused:
        """The GPUs that the gang would get now, or why it gets none. Changes nothing."""
        if (refused := self._refusal(want)) is not None:
            return refused
        answer = self._place(want)
        if isinstance(answer, Placed) or not want.preempt or not self.ground.bad_nodes or self.ground.dooms:
            return answer
        answer = self._with_doomed()._place(want)
        if isinstance(answer, Placed) and answer.demotes:
            self._shown = None  # they are demoted there
        return answer

    def could_ever(self, want: Want) -> Placed | Wait | Refused:
        """The answer of `place` if all nodes were healthy and idle."""
        if self._empty is None:
            self._empty = Cells(self.topology.config)
        return self._empty.place(want)

    def _with_doomed(self) -> Cells:
        """A copy in which virtual clusters see the cells that are bad whatever happens."""
        if self._shown is None:
            self._shown = self.copy()
            ground = self._shown.ground
            bad, ground.bad_nodes, ground.dooms = sorted(ground.bad_nodes), set(), True
            ground.healthy = [True] * len(ground.healthy)
            for levels in ground.free.values():
                for cells in levels:
                    cells.sort()
            for node in bad:
                ground.set_bad(node)
        return self._shown

    def _refusal(self, want: Want) -> Refused | None:
        topology = self.topology
        if want.vc not in topology.config.clusters:
            return Refused(f"there is no virtual cluster {want.vc}")
        if want.pinned:
            if (want.vc, want.pinned) not in topology.pins:
                return Refused(f"virtual cluster {want.vc} has no pinned cell {want.pinned}")
            if want.priority < 0:
                return Refused("an opportunistic group cannot use a pinned cell")
        elif want.leaf_type is not None:
            if want.leaf_type not in topology.chains_of:
                return Refused(f"there are no GPUs of type {want.leaf_type}")
            if want.priority >= 0 and want.leaf_type not in topology.types_of(want.vc):
                return Refused(f"virtual cluster {want.vc} has no cells of type {want.leaf_type}")
        return None

    def _place(self, want: Want) -> Placed | Wait:
        reason = "the virtual cluster has no cells"
        for place in self._places(want):
            answer = self._guaranteed(want, place) if isinstance(place, Territory) else self._opportunistic(want, place)
            if isinstance(answer, Placed):
                return answer
            reason = answer.reason
        return Wait(reason)

    def _places(self, want: Want) -> Iterator[Territory | str]:
        """Places to search: the territories of the virtual cluster, or the chains for an opportunistic group."""
        topology = self.topology
        if want.pinned:
            yield topology.pins[want.vc, want.pinned]
            return
        for kind in topology.leaf_types if want.leaf_type is None else [want.leaf_type]:
            for chain in topology.chains_of[kind]:
                if want.priority < 0:
                    yield chain
                elif (want.vc, chain) in topology.plain:
                    yield topology.plain[want.vc, chain]

    def _guaranteed(self, want: Want, territory: Territory) -> Placed | Wait:
        self._settle(self._inner[territory.number], want.suggested)
        in_use = self.ground.at[territory.number]
        below = sum(number for priority, number in in_use.items() if priority < want.priority) if want.preempt else 0
        if territory.size - sum(in_use.values()) + below < sum(want.pods):
            return Wait(f"virtual cluster {want.vc} has not enough free GPUs in its cells")
        answer: Placed | Wait = Wait(f"virtual cluster {want.vc} has no cells in one {want.level}")
        for view, inside in self._scopes(self._inner[territory.number], territory.chain, want):
            answer = self._inside(want, territory, view, inside)
            if isinstance(answer, Placed):
                return answer
        return answer

    def _inside(self, want: Want, territory: Territory, view: View, inside: int) -> Placed | Wait:
        limit = want.priority if want.preempt else OPPORTUNISTIC
        sizes = sorted(want.pods)
        planned = self._inside_of(view, want).place(sizes, limit)
        if isinstance(planned, str):
            return Wait(f"in virtual cluster {want.vc}, {planned}")
        virtual = [leaf for pod in planned for leaf in pod]
        demoted = self._demote_lazy(virtual)
        chain = territory.chain.name
        buddy = Buddy(self.ground, chain, want.suggested, inside, distinct_nodes=want.distinct_nodes)
        bindings = buddy.map(virtual)
        if bindings is None or not self.ground.dooms:
            for group, hold in reversed(demoted):
                self._restore(group, hold)
        if bindings is None:
            what = "is bad" if want.suggested is None else "is bad or not suggested"
            return Wait(f"the cells of virtual cluster {want.vc} would need at least one node that {what}")
        topology = self.topology
        pods = [[self._leaf(bindings[leaf], topology.name[topology.pod_cell(leaf)]) for leaf in pod] for pod in planned]
        placed = self._placed(want, pods, [bindings[leaf] for leaf in virtual], planned)
        return replace(placed, demotes=tuple(group for group, _ in demoted))

    def _opportunistic(self, want: Want, chain: str) -> Placed | Wait:
        self._settle(self._views[chain], want.suggested)
        answer: Placed | Wait = Wait("there are not enough idle GPUs")
        ground, size = self.ground, self.topology.physical.size
        if sum(
            size[top] - ground.guaranteed[top] - ground.opportunistic[top] for top in self.topology.tops[chain]
        ) < sum(want.pods):
            return answer
        for view, _ in self._scopes(self._views[chain], self.topology.config.chains[chain], want):
            planned = self._inside_of(view, want).place(sorted(want.pods), OPPORTUNISTIC)
            if isinstance(planned, str):
                answer = Wait(f"among all nodes, {planned}")
                continue
            pods = [[self._leaf(leaf, "") for leaf in pod] for pod in planned]
            return self._placed(want, pods, [leaf for pod in planned for leaf in pod], [])
        return answer

    def _inside_of(self, view: View, want: Want) -> Inside:
        return Inside(self.ground, view, want.suggested, distinct_nodes=want.distinct_nodes)

    def _settle(self, view: View, suggested: frozenset[str] | None) -> None:
        if self.ground.dooms:
            view.nodes[:] = Inside(self.ground, view, suggested).ordered()

    def _scopes(self, view: View, chain: Chain, want: Want) -> Iterator[tuple[View, int]]:
        """The view, or its parts that lie in one cell of the wanted level each; and that physical cell, if known."""
        wanted = chain.types[chain.top] if want.together else want.level
        if wanted not in chain.types or chain.types.index(wanted) <= chain.node:
            yield view, NONE
            return
        level, ground = chain.types.index(wanted), self.ground
        forest = self.topology.virtual if view.virtual else self.topology.physical
        used = ground.used if view.virtual else ground.opportunistic
        parts: dict[int, list[int]] = {}
        loose: list[int] = []
        for node in view.nodes:
            cell = forest.above(node, level)
            (loose if cell == NONE else parts.setdefault(cell, [])).append(node)
        needed = sum(want.pods)
        for cell in sorted(parts, key=lambda cell: -used[cell]):
            if forest.size[cell] >= needed:
                yield View(chain, parts[cell], view.virtual), NONE
        if sum(forest.size[node] for node in loose) >= needed:
            yield from self._loose(loose, chain, level, needed)

    def _loose(self, nodes: list[int], chain: Chain, level: int, needed: int) -> Iterator[tuple[View, int]]:
        """Virtual cells below the wanted level that are, or may come to be, in one physical cell of this level."""
        ground, physical, size = self.ground, self.topology.physical, self.topology.virtual.size
        unbound = [node for node in nodes if ground.bound_to[node] == NONE]
        own: dict[int, list[int]] = {}
        room: Counter[int] = Counter()
        for node in nodes:
            if ground.bound_to[node] != NONE:
                cell = physical.above(ground.bound_to[node], level)
                own.setdefault(cell, []).append(node)
                room[cell] += size[node]
        fullest = sorted(own)
        fullest.sort(key=room.__getitem__, reverse=True)
        for cells in ground.free[chain.name][: level + 1]:
            for cell in sorted(cells):
                room[physical.above(cell, level)] += physical.size[cell]
        for cells in ground.free[chain.name][level + 1 :]:
            for part in (part for cell in sorted(cells) for part in physical.down(cell)):
                if physical.level[part] == level:
                    room[part] += physical.size[part]
        for cell in [*fullest, *(cell for cell in room if cell not in own)]:
            if room[cell] >= needed:
                yield View(chain, sorted([*own.get(cell, ()), *unbound]), virtual=True), cell

    def _leaf(self, leaf: int, cell: str) -> Leaf:
        return Leaf(self.topology.nodes[leaf][0], self.topology.index[leaf], cell)

    def _placed(self, want: Want, pods: list[list[Leaf]], leaves: Iterable[int], planned: list[list[int]]) -> Placed:
        """The answer in the order of the pods that were asked for; these are in ascending order of their sizes."""
        order = sorted(range(len(want.pods)), key=want.pods.__getitem__)
        place = {number: at for at, number in enumerate(order)}
        evicts = {group for leaf in leaves for group in self.holders.get(leaf, ()) if group != want.group}
        return Placed(
            tuple(tuple(pods[place[number]]) for number in range(len(pods))),
            frozenset(evicts),
            virtual=tuple(tuple(planned[place[number]]) for number in range(len(planned))),
        )

    # Take and give

    def take(self, group: Hashable, vc: str, priority: int, leaves: Iterable[Leaf], *, lazy: bool = False) -> bool:
        """Hold exactly these GPUs. False, and nothing is held: a virtual cell is gone, bound elsewhere or taken.

        GPUs that the pool does not have are left alone. A group is opportunistic if its priority or its leaves say so.
        A `lazy` group may be demoted instead of stopped.
        """
        known = [(self.topology.leaf_at.get((leaf.node, leaf.index), NONE), leaf.cell) for leaf in leaves]
        known = [(leaf, cell) for leaf, cell in known if leaf != NONE]
        self._changed()
        cells = tuple(leaf for leaf, _ in known)
        if priority < 0 or not any(name for _, name in known):
            self._hold(group, Hold(vc, priority, cells, (), lazy))
            return True
        self.holds[group] = Hold(vc, priority, cells, tuple(NONE for _ in cells), lazy)
        virtual: list[int] = []
        for leaf, name in known:
            cell = self._virtual_for(vc, leaf, self.topology.named.get((vc, name), NONE))
            safe = cell != NONE
            if safe:
                virtual.append(cell)
                self.holds[group] = Hold(vc, priority, cells, tuple(virtual), lazy)
                safe = self.add(leaf, group, priority, cell)
            if not safe:
                for held in cells[: len(virtual)]:
                    self._remove(held, group)
                del self.holds[group]
                return False
        return True

    def take_as(self, group: Hashable, want: Want, placed: Placed, *, lazy: bool = False) -> None:
        """Hold what `place` has just answered, by exactly the virtual leaf cells that it chose."""
        self._changed()
        leaves = tuple(self.topology.leaf_at[leaf.node, leaf.index] for pod in placed.pods for leaf in pod)
        virtual = tuple(leaf for pod in placed.virtual for leaf in pod)
        self._hold(group, Hold(want.vc, want.priority, leaves, virtual, lazy))

    def give(self, group: Hashable) -> None:
        """Give back all GPUs of a group."""
        self._changed()
        hold = self.holds[group]
        for leaf in hold.leaves:
            self._remove(leaf, group)
        del self.holds[group]

    def demote(self, group: Hashable) -> None:
        """Let a group be opportunistic on the GPUs that it holds."""
        self._changed()
        self._demote(group)

    def set_healthy(self, node: str, healthy: bool) -> None:
        """Say whether a node works. The cells of one that does not are bad: no gang is placed there."""
        self._changed()
        (self.ground.set_good if healthy else self.ground.set_bad)(node)

    def block(self, leaves: Iterable[tuple[str, int]]) -> None:
        """Give these GPUs, by node and index, to no gang; bindings and promises do not change."""
        known = self.topology.leaf_at
        self.ground.blocked |= {known[leaf] for leaf in leaves if leaf in known}

    def _changed(self) -> None:
        self._shown = None

    def _virtual_for(self, vc: str, leaf: int, named: int) -> int:
        """The virtual leaf in a virtual cell for a physical leaf; NONE if they cannot be bound."""
        ground, topology = self.ground, self.topology
        if named == NONE or topology.territory[named].chain is not topology.physical.chain[leaf]:
            return NONE
        if ground.bound[leaf] != NONE:
            around = topology.virtual.above(ground.bound[leaf], topology.virtual.level[named])
            return ground.bound[leaf] if around == named else NONE
        virtual, cell = named, topology.physical.above(leaf, topology.virtual.level[named])
        while ground.bound[cell] == ground.bound_to[virtual] == NONE:
            virtual = topology.virtual.parent[virtual]
            if virtual == NONE:
                return self._down(leaf, named) if ground.is_free(cell) else NONE
            cell = topology.physical.parent[cell]
        return self._down(leaf, named) if ground.bound[cell] == virtual else NONE

    def _down(self, leaf: int, virtual: int) -> int:
        """The virtual leaf in a virtual cell for a leaf of its physical cell: the one at the same place in its node."""
        ground, physical, forest = self.ground, self.topology.physical, self.topology.virtual
        level, node = forest.level[virtual], physical.chain[leaf].node
        for cell in reversed([cell for cell in physical.up(leaf) if physical.level[cell] < level]):
            same = forest.children[virtual][physical.rank[cell]]
            if ground.bound[cell] != NONE:
                virtual = ground.bound[cell]
            elif physical.level[cell] < node or ground.bound_to[same] == NONE:
                virtual = same
            else:
                virtual = ground.unbound_child(forest.children[virtual])
        return virtual

    def _hold(self, group: Hashable, hold: Hold) -> None:
        self.holds[group] = hold
        for number, leaf in enumerate(hold.leaves):
            self.add(leaf, group, hold.effective, hold.virtual[number] if hold.virtual else NONE)

    def add(self, leaf: int, group: Hashable, priority: int, virtual: int) -> bool:
        """Let a group hold one physical leaf, by way of a virtual one or opportunistically. False: safety is broken."""
        holders = self.holders.setdefault(leaf, {})
        before = self.ground.priority[leaf]
        holders[group] = priority
        if priority <= before:
            return True
        if before != FREE:
            self.ground.vacate(leaf)
        return self.ground.occupy(leaf, virtual, priority)

    def _remove(self, leaf: int, group: Hashable) -> None:
        holders = self.holders[leaf]
        before = holders.pop(group)
        after = max(holders.values(), default=FREE)
        if before > after:
            self.ground.vacate(leaf)
            if after != FREE:
                heir = next(other for other, priority in holders.items() if priority == after)
                hold = self.holds[heir]
                virtual = hold.virtual[hold.leaves.index(leaf)] if hold.virtual else NONE
                self.ground.occupy(leaf, virtual, after)
        if not holders:
            del self.holders[leaf]

    def _demote(self, group: Hashable) -> None:
        hold = self.holds[group]
        self.holds[group] = Hold(hold.vc, hold.priority, hold.leaves, (), hold.lazy)
        for leaf in hold.leaves:
            self._remove(leaf, group)
            self.add(leaf, group, OPPORTUNISTIC, NONE)

    def _restore(self, group: Hashable, hold: Hold) -> None:
        """Undo `_demote`."""
        for leaf in hold.leaves:
            self._remove(leaf, group)
        self._hold(group, hold)

    def _demote_lazy(self, virtual: Iterable[int]) -> list[tuple[Hashable, Hold]]:
        """Demote the lazy groups that alone use some of these virtual leaves, with what they held."""
        demoted = []
        for cell in virtual:
            leaf = self.ground.bound_to[cell]
            holders = self.holders.get(leaf, {}) if leaf != NONE else {}
            group = next(iter(holders), None)
            if len(holders) == 1 and self.holds[group].lazy and self.holds[group].virtual:
                demoted.append((group, self.holds[group]))
                self._demote(group)
        return demoted

    def adopt(self, vc: str, priority: int, leaves: Iterable[Leaf]) -> tuple[Leaf, ...] | None:
        """Virtual cells for GPUs that a guaranteed group uses without any, to `take` them; None: they do not fit.

        Each GPU goes to the preassigned cell around it if that is of this virtual cluster, else to the smallest free
        virtual cell that a free physical cell around it can be bound to without breaking a promise.
        """
        adopted: list[Leaf] = []
        fits = True
        for leaf in leaves:
            cell = self.topology.leaf_at.get((leaf.node, leaf.index), NONE)
            if cell == NONE:
                continue
            names = (self.topology.name[root] for root in self._roots_around(vc, cell))
            tries = (Leaf(leaf.node, leaf.index, name) for name in names)
            taken = next((one for one in tries if self.take(("adopt", len(adopted)), vc, priority, [one])), None)
            if taken is None:
                fits = False
                break
            adopted.append(taken)
        for number in range(len(adopted)):
            self.give(("adopt", number))
        return tuple(adopted) if fits and adopted else None

    def _roots_around(self, vc: str, leaf: int) -> Iterator[int]:
        topology, ground = self.topology, self.ground
        territory = topology.plain.get((vc, topology.physical.chain[leaf].name))
        for cell in topology.physical.up(leaf):
            if ground.bound[cell] != NONE:
                root = topology.root[ground.bound[cell]]
                if topology.territory[root].vc == vc:
                    yield root
                return
            if territory is not None and ground.is_free(cell):
                root = ground.unbound_child(territory.roots.get(topology.physical.level[cell], []))
                if root != NONE:
                    yield root

    # Look

    def owned(self, vc: str, leaf_type: str) -> int:
        """The GPUs of this type in the cells of a virtual cluster."""
        return sum(one.size for one in self._territories(vc, leaf_type))

    def unused(self, vc: str, leaf_type: str) -> int:
        """Those that no guaranteed group uses."""
        return sum(one.size - sum(self.ground.at[one.number].values()) for one in self._territories(vc, leaf_type))

    def _territories(self, vc: str, leaf_type: str) -> list[Territory]:
        return [one for one in self.topology.territories if one.vc == vc and one.chain.leaf_type == leaf_type]

    def levels(self, chain: str) -> tuple[LevelCounts, ...]:
        """The counts of each level of a chain, from the top down."""
        topology, ground = self.topology, self.ground
        shape = topology.config.chains[chain]
        free = [len(cells) for cells in ground.free[chain]]
        splittable = splittable_cells(free, ground.promised[chain], shape.fanout)
        return tuple(
            LevelCounts(
                type=shape.types[level],
                path=shape.path(level),
                gpus=shape.sizes[level],
                node=level == shape.node,
                total=len(topology.by_level[chain][level]),
                free=ground.left[chain][level],
                promised=ground.promised[chain][level],
                splittable=splittable[level],
            )
            for level in range(shape.top, -1, -1)
        )

    def is_safe(self) -> bool:
        """True if all free virtual cells can get a physical cell each, bad ones included."""
        return all(level.splittable >= 0 for chain in self.topology.config.chains for level in self.levels(chain))

    def doomed(self) -> tuple[tuple[str, str, str], ...]:
        """The doomed cells: the virtual cluster, its virtual cell, and the bad physical cell that is bound to it."""
        shown = self._with_doomed() if self.ground.bad_nodes and not self.ground.dooms else self
        name, address = self.topology.name, self.topology.address
        return tuple(
            (vc, name[shown.ground.bound[cell]], address[cell])
            for (vc, _), levels in shown.ground.doomed.items()
            for cells in levels
            for cell in cells
        )

    def problems(self) -> list[str]:
        """Owned cells that virtual clusters lack now, in sentences."""
        found = [
            f"Virtual cluster {vc} cannot use its cell {cell}: no healthy physical cell is left ({address} is bad)."
            for vc, cell, address in self.doomed()
        ]
        for chain in self.topology.config.chains:
            found += [
                f"{-level.splittable} cells of type {level.path} are missing for the free virtual cells."
                for level in self.levels(chain)
                if level.splittable < 0
            ]
        return found
