"""The free resources of the nodes of a pool. Production builds the index for each cycle; the simulator updates one.

Shelves hold the nodes by their number of free GPUs, sorted by strikes, then by id. Best fit reads the shelves in order,
and a demand that no node can meet fails without reading any node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model import SLOTS, AllocationView, Gpu, Node, Running, View
from scheduler.model.eligibility import NodeEligibility
from scheduler.model.request import Choice, Request
from scheduler.model.sharing import SharedGpuIndex
from scheduler.placement.demand import Demand


class Resident(NamedTuple):
    """The total GPUs and nodes of a job on a node: all that placements of other jobs need to know."""

    gpus: int
    nodes: int


@dataclass(slots=True)
class FreeNode:
    """The free resources of a schedulable node: healthy GPUs by type in the order of use, CPUs and memory."""

    id: int
    rack: str
    cpus: int
    memory_mib: int
    gpus: dict[str, list[int]]
    strikes: float
    place: int  # the rank among all nodes by strikes and id
    residents: Counter[Resident]  # the jobs with allocations or reservations here

    def count(self, gpu_type: str | None) -> int:
        """The number of free GPUs of the type, or of all types for None."""
        if gpu_type is None:
            return sum(map(len, self.gpus.values()))
        return len(self.gpus.get(gpu_type, ()))

    def fits(self, demand: Demand) -> bool:
        """True if the node can host one rank of an indivisible demand."""
        return (
            self.cpus >= demand.cpus
            and self.memory_mib >= demand.memory_mib
            and self.count(demand.gpu_type) >= demand.gpus
            and self.id not in demand.closed
        )

    def room(self, demand: Demand) -> int:
        """The number of GPUs of a divisible demand that the node can host with their CPUs and memory."""
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
    """An index of free resources, updated as allocations are taken and given back."""

    def __init__(self, view: View) -> None:
        known = [node for node in view.nodes if node.schedulable or node.maintenance_ends_at is not None]
        known.sort(key=lambda node: (node.strikes, node.id))
        self.eligibility = NodeEligibility(known)
        self._at = [_free_node(view, node, place) for place, node in enumerate(known)]
        self._nodes = {node.id: self._at[place] for place, node in enumerate(known) if node.schedulable}
        self._full_node = {node.id: node for node in known}
        # Nodes out of service that return at a known time. They have no free resources until `show`.
        self._returning = {node.id: self._at[place] for place, node in enumerate(known) if not node.schedulable}
        self._links = {node.id: node.links for node in known if node.links}
        self._with_strikes = frozenset(node.id for node in known if node.strikes > 0.0)
        self._gpu_type = {gpu.id: gpu.type for gpu in view.gpu_by_id.values()}
        self._rank = {gpu.id: _rank_of(gpu) for gpu in view.gpu_by_id.values()}
        self._usable = {gpu.id for gpu in view.gpu_by_id.values() if gpu.healthy}
        self._shared_gpus = SharedGpuIndex()
        for run in view.running:
            self._host(run.allocations, 1)
            if run.job.request.shares_gpu:
                self._share(run.allocations)
        for reservation in view.reservations:
            if reservation.until > view.now:
                self._host(reservation.allocations, 1)
        self._shelves: dict[str | None, Shelves] = {}
        self._total: Counter[str | None] = Counter()
        # The same by rack, for divisible lots. A pool with one rack shares its shelves.
        self._racks: dict[str, dict[str, Shelves]] = {}
        self._rack_totals: dict[str, Counter[str]] = {}
        self._in_racks = len({node.rack for node in self._at}) > 1
        self._stock(view)

    def _stock(self, view: View) -> None:
        most: dict[str | None, int] = {}  # one shelf for each possible number of free GPUs
        for node in view.nodes:
            here: dict[str | None, int] = {None: len(node.gpus), **Counter(gpu.type for gpu in node.gpus)}
            for gpu_type, gpus in here.items():
                most[gpu_type] = max(gpus, most.get(gpu_type, 0))
        for gpu_type in (None, *sorted({gpu.type for gpu in view.gpu_by_id.values()})):
            shelves: Shelves = [[] for _ in range(most.get(gpu_type, 0) + 1)]
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
        """The number of free GPUs of the type in the pool."""
        return self._total[gpu_type]

    def node(self, node_id: int) -> FreeNode | None:
        """The free resources of a node; None if it is not schedulable."""
        return self._nodes.get(node_id)

    def full_node(self, node_id: int) -> Node:
        """The node in the view, if it is schedulable or returns at a known time."""
        return self._full_node[node_id]

    @property
    def returning(self) -> Sequence[FreeNode]:
        """The nodes out of service that return at a known time. Nothing on them is free until it is given."""
        return tuple(self._returning.values())

    def show(self, node_id: int) -> bool:
        """Treat a returning node as in service. Returns False if it is in service already."""
        node = self._returning.pop(node_id, None)
        if node is None:
            return False
        self._nodes[node_id] = node
        for shelves in self._shelves_of(node):
            insort(shelves[0], node.place)
        return True

    def hide(self, node_id: int) -> None:
        """Undo `show`. All resources given on the node must have been taken again."""
        node = self._returning[node_id] = self._nodes.pop(node_id)
        for shelves in self._shelves_of(node):
            shelves[0].remove(node.place)

    def _shelves_of(self, node: FreeNode) -> Iterator[Shelves]:
        yield from self._shelves.values()
        if self._in_racks:
            yield from (racks[node.rack] for racks in self._racks.values())

    def type_of(self, gpu_id: int) -> str:
        """The type of a GPU."""
        return self._gpu_type[gpu_id]

    def given_to(self, run: Running) -> Request:
        """The request of a running job in the size that it has."""
        share = run.allocations[0]
        gpu_ids = [gpu_id for share in run.allocations for gpu_id in share.gpu_ids]
        kind = self.type_of(gpu_ids[0]) if gpu_ids else None
        request = run.job.request
        if request.divisible:
            lots = len(share.gpu_ids)
            return request.given(Choice(kind, len(gpu_ids), share.cpus // lots, share.memory_mib // lots))
        return request.given(Choice(kind, len(share.gpu_ids), share.cpus, share.memory_mib), len(run.allocations))

    def usable(self, gpu_id: int) -> bool:
        """True if the GPU is healthy."""
        return gpu_id in self._usable

    def index_of(self, gpu_id: int) -> int:
        """The index of a GPU on its node."""
        return self._rank[gpu_id][1]

    @property
    def linked(self) -> bool:
        """True if the GPU links of any node are known."""
        return bool(self._links)

    def links(self, node_id: int) -> tuple[tuple[int, ...], ...]:
        """The GPU links of a node, as `Node.links`; empty if unknown."""
        return self._links.get(node_id, ())

    def nodes_over_strike_limit(self, limit: float) -> frozenset[int]:
        """The ids of the nodes with at least `limit` strikes."""
        return frozenset(node_id for node_id in self._with_strikes if self._full_node[node_id].strikes >= limit)

    def max_on_one_node(self, gpu_type: str | None) -> int:
        """The largest number of free GPUs of the type on one node."""
        shelves = self._shelves.get(gpu_type, [])
        return next((count for count in range(len(shelves) - 1, 0, -1) if shelves[count]), 0)

    def nodes_with(self, gpu_type: str | None, at_least: int) -> int:
        """The number of nodes with at least that many free GPUs of the type."""
        return sum(map(len, self._shelves.get(gpu_type, [])[at_least:]))

    def by_fit(self, gpu_type: str | None, at_least: int) -> Iterator[FreeNode]:
        """The nodes with enough free GPUs of the type, the tightest fit first, then by strikes and id."""
        for shelf in self._shelves.get(gpu_type, [])[at_least:]:
            for place in shelf:
                yield self._at[place]

    def by_room(self, gpu_type: str | None) -> Iterator[FreeNode]:
        """The nodes with free GPUs of the type, the most first, then by strikes and id."""
        for shelf in reversed(self._shelves.get(gpu_type, [])[1:]):
            for place in shelf:
                yield self._at[place]

    def candidates(self, demand: Demand) -> Iterator[FreeNode]:
        """The nodes that can host one rank of the demand, or a whole lot, in the order of `by_fit`.

        So a demand without GPUs prefers nodes with few free GPUs, which need their CPUs least.
        """
        if self.nodes_with(demand.gpu_type, demand.gpus) < demand.nodes:
            return
        lots = demand.gpus if demand.divisible else 1
        cpus, memory_mib = demand.cpus * lots, demand.memory_mib * lots
        for node in self.by_fit(demand.gpu_type, demand.gpus):
            if node.cpus >= cpus and node.memory_mib >= memory_mib and node.id not in demand.closed:
                yield node

    def shelves(self, gpu_type: str | None) -> Sequence[Sequence[int]]:
        """For each number of free GPUs of the type, from 0: the places of the nodes."""
        return self._shelves.get(gpu_type, [])

    def racks(self, gpu_type: str, at_least: int) -> Iterator[tuple[str, Sequence[Sequence[int]]]]:
        """The shelves of each rack with enough free GPUs of the type, by rack name."""
        totals = self._rack_totals.get(gpu_type, Counter[str]())
        for rack, shelves in self._racks.get(gpu_type, {}).items():
            if totals[rack] >= at_least:
                yield rack, shelves

    def at(self, place: int) -> FreeNode:
        """The node with this place on a shelf."""
        return self._at[place]

    def take(self, allocations: Sequence[AllocationView]) -> None:
        """Take all allocations of one job, the exact inverse of `give`.

        The GPUs must be free, or have enough free slots for a sharing job.
        """
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            moved: dict[str, int] = {}
            for gpu_id in share.gpu_ids:
                if gpu_id not in self._usable:
                    continue
                if share.slots < SLOTS and not self._shared_gpus.take(gpu_id, share.slots):
                    continue
                gpu_type = self._gpu_type[gpu_id]
                node.gpus[gpu_type].remove(gpu_id)
                moved[gpu_type] = moved.get(gpu_type, 0) - 1
            node.cpus -= share.cpus
            node.memory_mib -= share.memory_mib
            self._shelve(node, moved)
        self._host(allocations, 1)

    def give(self, allocations: Sequence[AllocationView]) -> None:
        """Return all allocations of one job. Unhealthy GPUs and nodes out of service stay unavailable."""
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            moved: dict[str, int] = {}
            for gpu_id in share.gpu_ids:
                if gpu_id in self._usable and (share.slots == SLOTS or self._shared_gpus.give(gpu_id, share.slots)):
                    gpu_type = self._gpu_type[gpu_id]
                    insort(node.gpus.setdefault(gpu_type, []), gpu_id, key=self._rank.__getitem__)
                    moved[gpu_type] = moved.get(gpu_type, 0) + 1
            node.cpus += share.cpus
            node.memory_mib += share.memory_mib
            self._shelve(node, moved)
        self._host(allocations, -1)

    def can_take(self, allocations: Iterable[AllocationView]) -> bool:
        """True if the GPUs, CPUs and memory of the allocations are free."""
        allocations = tuple(allocations)
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None or node.cpus < share.cpus or node.memory_mib < share.memory_mib:
                return False
        return self.has_gpus(allocations)

    def has_gpus(self, allocations: Iterable[AllocationView]) -> bool:
        """True if the GPUs of the allocations, or enough slots of them, are free on nodes in service."""
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
        """The free slots of a shared GPU; 0 if the GPU is free or one job has all of it."""
        return self._shared_gpus.free_slots(gpu_id)

    @property
    def shared(self) -> Iterable[int]:
        """The ids of the shared GPUs without free slots, ascending."""
        return self._shared_gpus.full()

    def _share(self, allocations: Sequence[AllocationView]) -> None:
        for share in allocations:
            for gpu_id in share.gpu_ids:
                if gpu_id in self._usable:
                    self._shared_gpus.take(gpu_id, share.slots)

    def _host(self, allocations: Sequence[AllocationView], times: int) -> None:
        resident = Resident(sum(len(share.gpu_ids) for share in allocations), len(allocations))
        for share in allocations:
            node = self._nodes.get(share.node_id)
            if node is None:
                continue
            left = node.residents[resident] + times
            if left > 0:
                node.residents[resident] = left
            else:
                del node.residents[resident]

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
    """The order of use: by index, GPUs with a warning last."""
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
        # A node whose inventory shrank can be overcommitted: it has 0 free, not less.
        cpus=max(0, node.cpus - used_cpus) if node.schedulable else 0,
        memory_mib=max(0, node.memory_mib - used_memory_mib) if node.schedulable else 0,
        gpus=gpus,
        strikes=node.strikes,
        place=place,
        residents=Counter(),
    )
