"""Affinity groups over the cells: allocated, preempting and being preempted, one pod after the other, as in HiveD."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.admission.hived.config import CellConfig
from scheduler.admission.hived.ground import FREE
from scheduler.admission.hived.pool import Cells, Hold
from scheduler.admission.hived.topology import NONE
from scheduler.admission.hived.want import OPPORTUNISTIC, Leaf, Placed, Refused, Wait, Want

MAX_PRIORITY = 1000


class GroupState(StrEnum):
    """The state of a group that holds cells; one without is pending or deleted."""

    ALLOCATED = "allocated"
    PREEMPTING = "preempting"
    BEING_PREEMPTED = "being_preempted"


class CellState(StrEnum):
    """The state of one GPU."""

    FREE = "free"
    USED = "used"
    RESERVING = "reserving"  # its group is being preempted for another one that has reserved it
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a group. `members` has the number of pods of the group by their number of GPUs."""

    name: str
    group: str
    members: Mapping[int, int]
    gpus: int
    vc: str
    priority: int
    leaf_type: str = ""
    pinned: str = ""
    lazy: bool = False
    ignores_suggested: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod has these GPUs."""

    node: str
    leaves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Preempt:
    """The pods that must go first."""

    pods: tuple[str, ...]


Answer = Bound | Preempt | Wait | Refused


@dataclass(slots=True)
class Group:
    """A group that holds cells, or has reserved them. `slots[gpus]` are its pods of that size, None: not there yet."""

    pod: Pod  # the first one; all have its request
    state: GroupState
    places: dict[int, list[tuple[Leaf, ...]]]
    slots: dict[int, list[str | None]] = field(default_factory=dict)
    preempting: set[str] = field(default_factory=set)

    @property
    def pods(self) -> list[str]:
        """The names of its pods that have GPUs."""
        return [pod for pods in self.slots.values() for pod in pods if pod is not None]


class Groups:
    """The groups of one pool, and what happens to them."""

    def __init__(self, config: CellConfig) -> None:
        self.cells = _fresh(config)
        self.groups: dict[str, Group] = {}

    def schedule(self, pod: Pod, suggested: Iterable[str] | None = None, *, reserves: bool = True) -> Answer:
        """The place of the pod. Only if the phase `reserves` do pods that preempt others reserve their GPUs."""
        if (problem := _problem(pod)) is not None:
            return Refused(problem)
        nodes = None if suggested is None or pod.ignores_suggested else frozenset(suggested)
        group = self.groups.get(pod.group)
        if group is not None and group.state is GroupState.PREEMPTING and reserves and self._unfit(group, nodes):
            self._end(pod.group)
            group = None
        if group is None:
            return self._start(pod, nodes, reserves=reserves)
        if group.state is GroupState.PREEMPTING:
            group.preempting.add(pod.name)
            victims = self._victims(pod.group)
            return Preempt(victims) if victims else self._bind(pod)
        return self._bind(pod)

    def delete(self, name: str) -> None:
        """All pods of the group have gone, or its preemption is cancelled."""
        if name in self.groups:
            self._end(name)

    def set_healthy(self, node: str, healthy: bool) -> None:
        """Say whether a node works."""
        self.cells.set_healthy(node, healthy)

    def reconfigure(self, config: CellConfig) -> None:
        """Go on with other cells. Groups keep their GPUs; one that does not fit any more becomes opportunistic."""
        before = {name: group for name, group in self.groups.items() if group.state is not GroupState.PREEMPTING}
        types = self._preassigned_types(before)
        bad_nodes = sorted(self.cells.ground.bad_nodes)
        self.cells, self.groups = _fresh(config), {}
        for name, group in before.items():
            group.state = GroupState.ALLOCATED
            self._adopt(name, group, types[name])
        for node in bad_nodes:  # only now, so that no cell in use is taken for a doomed one
            self.cells.set_healthy(node, healthy=False)

    def state_of(self, node: str, index: int) -> CellState:
        """The state of one GPU."""
        leaf = self.cells.topology.leaf_at[node, index]
        states = {self.groups[str(name)].state for name in self.cells.holders.get(leaf, ())}
        if GroupState.PREEMPTING not in states:
            return CellState.USED if states else CellState.FREE
        return CellState.RESERVING if len(states) > 1 else CellState.RESERVED

    # A new group

    def _start(self, pod: Pod, suggested: frozenset[str] | None, *, reserves: bool) -> Answer:
        sizes = tuple(sorted(size for size, number in pod.members.items() for _ in range(number)))
        want = Want(pod.group, pod.vc, pod.priority, sizes, pod.leaf_type or None, pod.pinned, suggested)
        placed = self.cells.place(want)
        if not isinstance(placed, Placed):
            return placed
        victims = self._pods_of(placed.evicts)
        if reserves or not victims:
            for name in placed.evicts:
                if self.groups[str(name)].state is GroupState.PREEMPTING:
                    self._end(str(name))
        if victims and not reserves:
            return Preempt(victims)
        places: dict[int, list[tuple[Leaf, ...]]] = {}
        for size, place in zip(sizes, placed.pods, strict=True):
            places.setdefault(size, []).append(place)
        slots: dict[int, list[str | None]] = {size: [None] * len(each) for size, each in places.items()}
        group = Group(pod, GroupState.ALLOCATED, places, slots)
        if not victims:
            types = {leaf.cell: self._type_of(pod.vc, leaf.cell) for place in placed.pods for leaf in place}
            self._adopt(pod.group, group, types)
            return self._bind(pod)
        group.state = GroupState.PREEMPTING
        group.preempting.add(pod.name)
        self.groups[pod.group] = group
        self.cells.take_as(pod.group, want, placed, lazy=pod.lazy)
        for name in placed.evicts:
            if str(name) in self.groups:
                self.groups[str(name)].state = GroupState.BEING_PREEMPTED
        return Preempt(victims)

    def _bind(self, pod: Pod) -> Answer:
        group = self.groups[pod.group]
        slots = group.slots[pod.gpus]
        if None not in slots:
            what = f"group {pod.group} has only {len(slots)} pods of {pod.gpus} GPUs"
            return Refused(f"{what}, and all of them are placed")
        if group.state is GroupState.PREEMPTING:
            group.state = GroupState.ALLOCATED
            group.preempting.clear()
        number = slots.index(None)
        slots[number] = pod.name
        place = group.places[pod.gpus][number]
        return Bound(place[0].node, tuple(leaf.index for leaf in place))

    def _pods_of(self, names: Iterable[object]) -> tuple[str, ...]:
        """The pods of these groups that have GPUs, in the order in which the groups started."""
        chosen = set(names)
        return tuple(pod for name, group in self.groups.items() if name in chosen for pod in group.pods)

    def _victims(self, name: str) -> tuple[str, ...]:
        leaves = self.cells.holds[name].leaves
        return self._pods_of({other for leaf in leaves for other in self.cells.holders[leaf] if other != name})

    def _unfit(self, group: Group, suggested: frozenset[str] | None) -> bool:
        """True if a node that the group has reserved GPUs on is bad, or not suggested any more."""
        nodes = {leaf.node for places in group.places.values() for place in places for leaf in place}
        return any(
            node in self.cells.ground.bad_nodes or (suggested is not None and node not in suggested) for node in nodes
        )

    def _end(self, name: str) -> None:
        self.cells.give(name)
        group = self.groups.pop(name)
        if group.state is not GroupState.PREEMPTING:
            return
        for other, each in self.groups.items():
            if each.state is GroupState.BEING_PREEMPTED and not self._is_preempted(other):
                each.state = GroupState.ALLOCATED

    def _is_preempted(self, name: str) -> bool:
        return any(
            self.groups[str(other)].state is GroupState.PREEMPTING
            for leaf in self.cells.holds[name].leaves
            for other in self.cells.holders[leaf]
        )

    # A group that is bound already

    def _type_of(self, vc: str, cell: str) -> str:
        named = self.cells.topology.named.get((vc, cell), NONE)
        if named == NONE:
            return ""
        root = self.cells.topology.root[named]
        forest = self.cells.topology.virtual
        return forest.chain[root].types[forest.level[root]]

    def _preassigned_types(self, groups: Mapping[str, Group]) -> dict[str, dict[str, str]]:
        return {
            name: {
                leaf.cell: self._type_of(group.pod.vc, leaf.cell)
                for places in group.places.values()
                for place in places
                for leaf in place
            }
            for name, group in groups.items()
        }

    def _adopt(self, name: str, group: Group, types: Mapping[str, str]) -> None:
        """Hold the GPUs of a group by preassigned cells of the types (by the former cell) that it was bound to.

        It becomes opportunistic if no such cell is left for one of its GPUs. A cell that groups of a lower priority
        use is taken from them: they become opportunistic.
        """
        pod, cells = group.pod, self.cells
        topology, ground = cells.topology, cells.ground
        self.groups[name] = group
        leaves = [leaf for size in sorted(group.places) for place in group.places[size] for leaf in place]
        hold = Hold(pod.vc, pod.priority, (), (), pod.lazy)
        cells.holds[name] = hold
        guaranteed = pod.priority > OPPORTUNISTIC and all(leaf.cell for leaf in leaves)
        fits = guaranteed
        for leaf in leaves:
            cell = topology.leaf_at.get((leaf.node, leaf.index), NONE)
            if cell == NONE:
                continue  # the job is left alone with a GPU that the pool no longer has
            virtual = self._virtual_for(pod, cell, types[leaf.cell]) if fits else NONE
            if virtual != NONE:
                root = topology.root[virtual]
                if ground.is_free(cell) and ground.used[root]:
                    self._demote_all(root)
            else:
                fits = False
            hold = Hold(
                pod.vc, pod.priority, (*hold.leaves, cell), (*hold.virtual, virtual) if guaranteed else (), pod.lazy
            )
            cells.holds[name] = hold
            priority = pod.priority if virtual != NONE else OPPORTUNISTIC
            fits = cells.add(cell, name, priority, virtual) and fits
        if guaranteed and not fits:
            cells.demote(name)

    def _demote_all(self, root: int) -> None:
        cells = self.cells
        for leaf in cells.topology.virtual.leaves(root):
            cell = cells.ground.bound_to[leaf]
            if cell != NONE and cells.ground.wanted[leaf] > FREE:
                for other in list(cells.holders.get(cell, ())):
                    if cells.holds[other].virtual:
                        cells.demote(other)

    def _virtual_for(self, pod: Pod, leaf: int, kind: str) -> int:
        """The virtual leaf for a physical one, in a preassigned cell of this type; NONE if there is none."""
        topology, ground = self.cells.topology, self.cells.ground
        physical = topology.physical
        chain = physical.chain[leaf]
        territory = topology.pins.get((pod.vc, pod.pinned)) if pod.pinned else topology.plain.get((pod.vc, chain.name))
        if territory is None or territory.chain is not chain or kind not in chain.types:
            return NONE
        level = chain.types.index(kind)
        path = []
        cell = leaf
        while ground.bound[cell] == NONE and physical.level[cell] != level:
            path.append(cell)
            cell = physical.parent[cell]
            if cell == NONE:
                return NONE
        virtual = ground.bound[cell]
        if virtual == NONE:
            virtual = self._lowest(territory.roots.get(level, ()), pod.priority)
        elif topology.territory[virtual] is not territory:
            return NONE
        for _ in path:
            if virtual != NONE:
                virtual = self._lowest(topology.virtual.children[virtual], pod.priority)
        return virtual

    def _lowest(self, candidates: Iterable[int], priority: int) -> int:
        """The first of these virtual cells that is idle and unbound, else the one with the lowest lower priority."""
        ground, forest = self.cells.ground, self.cells.topology.virtual
        found, lowest = NONE, priority
        for cell in candidates:
            if not ground.used[cell]:
                if ground.bound_to[cell] == NONE:
                    return cell
                continue
            highest = max(ground.wanted[leaf] for leaf in forest.leaves(cell))
            if highest < lowest:
                found, lowest = cell, highest
        return found


def _fresh(config: CellConfig) -> Cells:
    """Idle cells. All nodes are bad until each is known to be healthy, as after a start of the scheduler."""
    cells = Cells(config, dooms=True)
    for node in cells.topology.all_nodes:
        cells.set_healthy(node, healthy=False)
    for node in cells.topology.all_nodes:
        cells.set_healthy(node, healthy=True)
    return cells


def _problem(pod: Pod) -> str | None:
    """The fault in the request of a pod."""
    if not pod.vc:
        return "the pod names no virtual cluster"
    if not OPPORTUNISTIC <= pod.priority <= MAX_PRIORITY:
        return f"priority {pod.priority} is not one of {OPPORTUNISTIC} to {MAX_PRIORITY}"
    if pod.gpus <= 0:
        return f"{pod.gpus} GPUs is not a positive number"
    if not pod.group:
        return "the pod names no group"
    if any(size <= 0 or number <= 0 for size, number in pod.members.items()):
        return f"group {pod.group} has a member without pods or without GPUs"
    if pod.gpus not in pod.members:
        return f"group {pod.group} has no pods of {pod.gpus} GPUs"
    return None


def members_of(entries: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """The number of pods by their number of GPUs, from pairs of both; equal sizes add up."""
    members: Counter[int] = Counter()
    for number, gpus in entries:
        members[gpus] += number
    return members
