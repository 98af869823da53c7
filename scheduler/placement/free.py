"""What is free on the nodes of a pool while one cycle hands it out: context that dies with the cycle, but for the
simulator, which keeps it up to date.

Nodes stand on shelves by how many GPUs they have free, so that best fit is reading the shelves in order, and a demand
that no node can meet is seen without looking at any node. Nodes with equally many stand there by their strikes, then
by id.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model import SLOTS, AllocationView, Gpu, Node, Running, View
from scheduler.model.eligibility import NodeEligibility
from scheduler.model.request import Choice
from scheduler.model.sharing import SharedGpuIndex
from scheduler.placement.demand import Demand


class Guest(NamedTuple):
    """What the others on a node may know of a job there: its GPUs and its nodes, all of them together."""

    gpus: int
    nodes: int


@dataclass(slots=True)
class FreeNode:
    """What one schedulable node still has: its healthy free GPUs by type, the next to be given ahead, and the rest."""

    id: int
    rack: str
    cpus: int
    memory_mib: int
    gpus: dict[str, list[int]]
    strikes: float
    place: int  # among the nodes by strikes and id
    guests: Counter[Guest]  # who holds anything of it, or has it kept

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
            and self.id not in demand.closed
        )

    def room(self, demand: Demand) -> int:
        """How many GPUs of a split demand the node can host, CPUs and memory considered."""
        if self.id in demand.closed:
            return 0
        gpus = self.count(demand.gpu_type)
        if demand.cpus:
            gpus = min(gpus, self.cpus // demand.cpus)
        if demand.memory_mib:
            gpus = min(gpus, self.memory_mib // demand.memory_mib)
        return gpus


# shelves[n] = the places of the nodes with n GPUs of one type free, ascending
Shelves = list[list[int]]


class Free:
    """An index of what is free, kept up to date as GPUs are taken and given back."""

    def __init__(self, view: View) -> None:
        known = [node for node in view.nodes if node.schedulable or node.maintenance_ends_at is not None]
        known.sort(key=lambda node: (node.strikes, node.id))
        self.closings = NodeEligibility(known)
        self._at = [_free_node(view, node, place) for place, node in enumerate(known)]
        self._nodes = {node.id: self._at[place] for place, node in enumerate(known) if node.schedulable}
        self._whole = {node.id: node for node in known}
        # Those out of service that come back at a known time; nothing sees them until they are shown.
        self._shut = {node.id: self._at[place] for place, node in enumerate(known) if not node.schedulable}
        self._links = {node.id: node.links for node in known if node.links}
        self._struck = frozenset(node.id for node in known if node.strikes > 0.0)
        self._gpu_type = {gpu.id: gpu.type for gpu in view.gpu_by_id.values()}
        self._rank = {gpu.id: _rank_of(gpu) for gpu in view.gpu_by_id.values()}
        self._usable = {gpu.id for gpu in view.gpu_by_id.values() if gpu.healthy}
        self._partly = SharedGpuIndex()
        for run in view.running:
            self._host(run.allocations, 1)
            if run.job.packs:
                self._share(run.allocations)
        for kept in view.reservations:
            if kept.until > view.now:
                self._host(kept.allocations, 1)
        self._shelves: dict[str | None, Shelves] = {}
        self._total: Counter[str | None] = Counter()
        # The same by rack, for lots that may be split; a pool that is one rack needs it only once.
        self._racks: dict[str, dict[str, Shelves]] = {}
        self._rack_totals: dict[str, Counter[str]] = {}
        self._in_racks = len({node.rack for node in self._at}) > 1
        self._stock(view)

    def _stock(self, view: View) -> None:
        most = Counter[str | None]()  # a shelf for as many as a node can ever have free
        for node in view.nodes:
            here = Counter[str | None](gpu.type for gpu in node.gpus) + Counter({None: len(node.gpus)})
            most |= here
        for gpu_type in (None, *sorted({gpu.type for gpu in view.gpu_by_id.values()})):
            shelves: Shelves = [[] for _ in range(most[gpu_type] + 1)]
            for free in self._nodes.values():
                shelves[free.count(gpu_type)].append(free.place)
                self._total[gpu_type] += free.count(gpu_type)
            self._shelves[gpu_type] = shelves
            if gpu_type is not None:
                self._stock_racks(gpu_type, shelves)

    def _stock_racks(self, gpu_type: str, shelves: Shelves) -> None:
        totals = self._rack_totals[gpu_type] = Counter[str]()
        racks: dict[str, Shelves] = dict.fromkeys(sorted({node.rack for node in self._at}), shelves)
        if self._in_racks:
            racks = {rack: [[] for _ in shelves] for rack in racks}
        for node in self._nodes.values():
            totals[node.rack] += node.count(gpu_type)
            if self._in_racks:
                racks[node.rack][node.count(gpu_type)].append(node.place)
        self._racks[gpu_type] = racks

    def gpus(self, gpu_type: str | None) -> int:
        """How many GPUs of the type are free in the pool."""
        return self._total[gpu_type]

    def node(self, node_id: int) -> FreeNode | None:
        """What one node has free, or None for a node that takes no jobs."""
        return self._nodes.get(node_id)

    def whole(self, node_id: int) -> Node:
        """A node in service, or one that comes back, as the view has it."""
        return self._whole[node_id]

    @property
    def coming_back(self) -> Sequence[FreeNode]:
        """The nodes out of service that come back at a known time; nothing of them is free until it is given."""
        return tuple(self._shut.values())

    def show(self, node_id: int) -> bool:
        """Show a node that comes back, as if it were in service; False for one that is in service anyhow."""
        node = self._shut.pop(node_id, None)
        if node is None:
            return False
        self._nodes[node_id] = node
        for shelves in self._shelves_of(node):
            insort(shelves[0], node.place)
        return True

    def hide(self, node_id: int) -> None:
        """Undo a `show`, once all that was given of the node is taken again."""
        node = self._shut[node_id] = self._nodes.pop(node_id)
        for shelves in self._shelves_of(node):
            shelves[0].remove(node.place)

    def _shelves_of(self, node: FreeNode) -> Iterator[Shelves]:
        yield from self._shelves.values()
        if self._in_racks:
            yield from (racks[node.rack] for racks in self._racks.values())

    def type_of(self, gpu_id: int) -> str:
        """The type of one GPU."""
        return self._gpu_type[gpu_id]

    def choice_of(self, run: Running) -> Choice:
        """The GPU type and the sizes that a running job has, per node, or of a divisible lot in total and per GPU."""
        share = run.allocations[0]
        gpu_ids = [gpu_id for share in run.allocations for gpu_id in share.gpu_ids]
        kind = self.type_of(gpu_ids[0]) if gpu_ids else None
        if run.job.request.divisible:
            lots = len(share.gpu_ids)
            return Choice(kind, len(gpu_ids), share.cpus // lots, share.memory_mib // lots)
        return Choice(kind, len(share.gpu_ids), share.cpus, share.memory_mib)

    def usable(self, gpu_id: int) -> bool:
        """Whether the GPU is healthy, and so of use to whoever comes next."""
        return gpu_id in self._usable

    def index_of(self, gpu_id: int) -> int:
        """The index of one GPU on its node."""
        return self._rank[gpu_id][1]

    @property
    def linked(self) -> bool:
        """Whether anything is known of the links on any node."""
        return bool(self._links)

    def links(self, node_id: int) -> tuple[tuple[int, ...], ...]:
        """How close the GPUs of one node are, see `scheduler.model.Node.links`; empty when nobody knows."""
        return self._links.get(node_id, ())

    def struck(self, limit: float) -> frozenset[int]:
        """The ids of the nodes with so many strikes or more."""
        return frozenset(node_id for node_id in self._struck if self._whole[node_id].strikes >= limit)

    def most_on_one_node(self, gpu_type: str | None) -> int:
        """How many GPUs of the type the node with the most of them has free."""
        shelves = self._shelves.get(gpu_type, [])
        return next((count for count in range(len(shelves) - 1, 0, -1) if shelves[count]), 0)

    def nodes_with(self, gpu_type: str | None, at_least: int) -> int:
        """How many nodes have so many GPUs of the type free."""
        return sum(map(len, self._shelves.get(gpu_type, [])[at_least:]))

    def by_fit(self, gpu_type: str | None, at_least: int) -> Iterator[FreeNode]:
        """The nodes with so many GPUs of the type free, the tightest fit first, then by strikes and id."""
        for shelf in self._shelves.get(gpu_type, [])[at_least:]:
            for place in shelf:
                yield self._at[place]

    def by_room(self, gpu_type: str | None) -> Iterator[FreeNode]:
        """The nodes with any GPU of the type free, those with the most first, then by strikes and id."""
        for shelf in reversed(self._shelves.get(gpu_type, [])[1:]):
            for place in shelf:
                yield self._at[place]

    def candidates(self, demand: Demand) -> Iterator[FreeNode]:
        """The nodes that can host one rank of the demand, or all of a lot; the tightest fit first, as `by_fit`.

        A demand without GPUs goes first to the nodes with the fewest free GPUs, where its CPUs are missed least.
        """
        if self.nodes_with(demand.gpu_type, demand.gpus) < demand.nodes:
            return
        lots = demand.gpus if demand.divisible else 1
        cpus, memory_mib = demand.cpus * lots, demand.memory_mib * lots
        for node in self.by_fit(demand.gpu_type, demand.gpus):
            if node.cpus >= cpus and node.memory_mib >= memory_mib and node.id not in demand.closed:
                yield node

    def shelves(self, gpu_type: str | None) -> Sequence[Sequence[int]]:
        """For each number of free GPUs of the type, from 0, the places of the nodes with so many."""
        return self._shelves.get(gpu_type, [])

    def racks(self, gpu_type: str, at_least: int) -> Iterator[tuple[str, Sequence[Sequence[int]]]]:
        """The shelves of each rack with so many GPUs of the type free, by name of the rack."""
        totals = self._rack_totals.get(gpu_type, Counter[str]())
        for rack, shelves in self._racks.get(gpu_type, {}).items():
            if totals[rack] >= at_least:
                yield rack, shelves

    def at(self, place: int) -> FreeNode:
        """The node at a place of a shelf."""
        return self._at[place]

    def take(self, allocations: Sequence[AllocationView]) -> None:
        """Hand out what the allocations name: all that one job gets; the opposite of `give` in everything.

        Its GPUs must be free, or have the slots free that it takes of them.
        """
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            moved: dict[str, int] = {}
            for gpu_id in share.gpu_ids:
                if gpu_id not in self._usable:
                    continue
                if share.slots < SLOTS and not self._partly.come(gpu_id, share.slots):
                    continue
                gpu_type = self._gpu_type[gpu_id]
                node.gpus[gpu_type].remove(gpu_id)
                moved[gpu_type] = moved.get(gpu_type, 0) - 1
            node.cpus -= share.cpus
            node.memory_mib -= share.memory_mib
            self._shelve(node, moved)
        self._host(allocations, 1)

    def give(self, allocations: Sequence[AllocationView]) -> None:
        """Take back all that one job had; what is on a node out of service, or not healthy, stays lost."""
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            moved: dict[str, int] = {}
            for gpu_id in share.gpu_ids:
                if gpu_id in self._usable and (share.slots == SLOTS or self._partly.go(gpu_id, share.slots)):
                    gpu_type = self._gpu_type[gpu_id]
                    insort(node.gpus.setdefault(gpu_type, []), gpu_id, key=self._rank.__getitem__)
                    moved[gpu_type] = moved.get(gpu_type, 0) + 1
            node.cpus += share.cpus
            node.memory_mib += share.memory_mib
            self._shelve(node, moved)
        self._host(allocations, -1)

    def can_take(self, allocations: Iterable[AllocationView]) -> bool:
        """Whether all that the allocations name is free."""
        allocations = tuple(allocations)
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None or node.cpus < share.cpus or node.memory_mib < share.memory_mib:
                return False
        return self.has_gpus(allocations)

    def has_gpus(self, allocations: Iterable[AllocationView]) -> bool:
        """Whether the GPUs that the allocations name are free, on nodes in service, or so much of each as they take."""
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                return False
            for gpu_id in share.gpu_ids:
                free = gpu_id in node.gpus.get(self._gpu_type.get(gpu_id, ""), ())
                if not free and self.room_on(gpu_id) < share.slots:
                    return False
        return True

    def room_on(self, gpu_id: int) -> int:
        """How many slots of a GPU that somebody has a part of are left; none of one that is free, or taken whole."""
        return self._partly.room(gpu_id)

    @property
    def shared(self) -> Iterable[int]:
        """The ids of the GPUs on which there is more than one job, or no room for another one; ascending."""
        return self._partly.full()

    def _share(self, allocations: Sequence[AllocationView]) -> None:
        for share in allocations:
            for gpu_id in share.gpu_ids:
                if gpu_id in self._usable:
                    self._partly.come(gpu_id, share.slots)

    def _host(self, allocations: Sequence[AllocationView], times: int) -> None:
        guest = Guest(sum(len(share.gpu_ids) for share in allocations), len(allocations))
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            left = node.guests[guest] + times
            if left > 0:
                node.guests[guest] = left
            else:
                del node.guests[guest]

    def _shelve(self, node: FreeNode, moved: Mapping[str, int]) -> None:
        for gpu_type, change in moved.items():
            after = len(node.gpus[gpu_type])
            _move(self._shelves[gpu_type], node.place, after - change, after)
            if self._in_racks:
                _move(self._racks[gpu_type][node.rack], node.place, after - change, after)
            self._total[gpu_type] += change
            self._rack_totals[gpu_type][node.rack] += change
        if moved:
            change, after = sum(moved.values()), node.count(None)
            _move(self._shelves[None], node.place, after - change, after)
            self._total[None] += change


def _move(shelves: Shelves, place: int, before: int, after: int) -> None:
    shelf = shelves[before]
    del shelf[bisect_left(shelf, place)]
    insort(shelves[after], place)


def _rank_of(gpu: Gpu) -> tuple[bool, int, int]:
    """GPUs with a warning come last, the others in the order of their index."""
    return (gpu.warned, gpu.index, gpu.id)


def _free_node(view: View, node: Node, place: int) -> FreeNode:
    gpus: dict[str, list[int]] = {}
    for gpu in sorted(node.gpus, key=_rank_of):
        ids = gpus.setdefault(gpu.type, [])
        if node.schedulable and gpu.healthy and gpu.id not in view.holders_of_gpu and gpu.id not in view.reserved_gpus:
            ids.append(gpu.id)
    used_cpus, used_memory_mib = view.used_by_node.get(node.id, (0, 0))
    return FreeNode(
        id=node.id,
        rack=node.rack,
        # A node can be overcommitted after its inventory shrank; then it has nothing to give, not less than nothing.
        cpus=max(0, node.cpus - used_cpus) if node.schedulable else 0,
        memory_mib=max(0, node.memory_mib - used_memory_mib) if node.schedulable else 0,
        gpus=gpus,
        strikes=node.strikes,
        place=place,
        guests=Counter(),
    )
