"""Defragmentation: the cheapest moves of running jobs after which a blocked demand fits.

A move is a checkpoint, a stop and a start elsewhere; no job goes back to the queue. Gandiva (Xiao et al., OSDI 2018,
§4.2) moves jobs to defragment. The bounded search for the jobs and their new places is our own:

1. Openings: for each node, or for each rack if the lot must lie within one, find the cheapest sets of jobs without
   which it could host a rank or the lot.
2. Combine as many openings as nodes are missing, the cheapest combinations first.
3. For each combination, place the demand, then place the leaving jobs elsewhere. Take the first combination that works.
   A job whose old place is still free does not move.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from scheduler.model import AllocationView, Job, Locality, Running
from scheduler.placement import Placement
from scheduler.placement.demand import Demand, demand_of
from scheduler.placement.free import Free, FreeNode

# The sets of jobs that the search tries for each node or rack, and the openings that it keeps.
_MAX_SETS, _MAX_OPENINGS = 64, 4


@dataclass(frozen=True, slots=True)
class Move:
    """A running job and its new allocations. A plan preempts the job for itself and places it there."""

    run: Running
    allocations: tuple[AllocationView, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of the search."""

    moves: int = 4  # jobs in total
    tries: int = 64  # combinations of openings


_DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class _Opening:
    """Jobs without which a node or rack could host a rank or the lot."""

    cost: float
    place: str  # the rack, with the node if it is a node
    runs: tuple[Running, ...]


@dataclass(slots=True)
class _VacatedNode:
    """The free resources of a node after some jobs have left it."""

    node: FreeNode
    gpus: int
    cpus: int
    memory_mib: int
    runs: list[Running] = field(default_factory=list)

    def hosts(self, demand: Demand) -> bool:
        """True if the node could host one rank or the whole lot."""
        if self.node.id in demand.closed:
            return False
        lots = demand.gpus if demand.divisible else 1
        enough = self.cpus >= demand.cpus * lots and self.memory_mib >= demand.memory_mib * lots
        return enough and self.gpus >= demand.gpus

    def of_lot(self, demand: Demand) -> int:
        """The number of GPUs of a lot that the node could host."""
        if self.node.id in demand.closed:
            return 0
        by_cpus = self.cpus // demand.cpus if demand.cpus else self.gpus
        by_memory = self.memory_mib // demand.memory_mib if demand.memory_mib else self.gpus
        return min(self.gpus, by_cpus, by_memory)


def defragment(
    free: Free,
    runs: Iterable[Running],
    demand: Demand,
    placement: Placement,
    *,
    now: float,
    restart_s: Callable[[Job], float],
    limits: Limits = _DEFAULT_LIMITS,
) -> tuple[Move, ...] | None:
    """The moves after which the demand fits, by job id: empty if it fits already, None if the search finds none.

    Only preemptible runs with checkpoints on healthy GPUs of schedulable nodes may move, each to GPUs of its type
    within its locality. A move costs the GPUs of the job times its `restart_s`, in GPU-seconds. A job in two openings
    counts twice in the order of the combinations. Leaves `free` unchanged.
    """
    if placement.place(free, demand, ()) is not None:
        return ()
    if free.gpus(demand.gpu_type) < demand.gpus * demand.nodes:  # a move takes as many GPUs as it frees
        return None
    movable = sorted((run for run in runs if _movable(free, run)), key=lambda run: run.job.id)
    costs = {run.job.id: run.gpus * restart_s(run.job) for run in movable}
    areas = _openings(free, movable, demand, costs)
    sets = heapq.merge(*(_sets(openings, missing) for openings, missing in areas), key=lambda one: one[0])
    seen = set()
    for _, openings in islice(sets, limits.tries):
        leaving = {run.job.id: run for opening in openings for run in opening.runs}
        chosen = tuple(sorted(leaving))
        if len(chosen) > limits.moves or chosen in seen:
            continue
        seen.add(chosen)
        moves = _moved(free, [leaving[job_id] for job_id in chosen], demand, placement, now)
        # A placement may let a job stay beside the demand, but not the demand come to the job.
        if moves and _fits_after(free, moves, demand, placement):
            return moves
    return None


def _fits_after(free: Free, moves: Sequence[Move], demand: Demand, placement: Placement) -> bool:
    """True if the demand fits after the moves. Leaves `free` unchanged."""
    for move in moves:
        free.give(move.run.allocations)
    for move in moves:
        free.take(move.allocations)
    fits = placement.place(free, demand, ()) is not None
    for move in moves:
        free.give(move.allocations)
    for move in moves:
        free.take(move.run.allocations)
    return fits


def _movable(free: Free, run: Running) -> bool:
    if not (run.job.checkpoints and run.job.preemptible and run.gpus) or run.stopping:
        return False
    return all(
        free.node(share.node_id) is not None and all(map(free.usable, share.gpu_ids)) for share in run.allocations
    )


def _openings(
    free: Free, movable: Sequence[Running], demand: Demand, costs: dict[int, float]
) -> Iterator[tuple[Sequence[_Opening], int]]:
    """For each area that can hold all ranks: its openings, the cheapest first, and the number that it needs."""
    rooms = _vacated_nodes(free, movable, demand)
    racks: dict[str, list[_VacatedNode]] = {}
    for room in rooms.values():
        racks.setdefault(room.node.rack, []).append(room)
    if demand.divisible and demand.within is not Locality.NODE:
        areas = [list(rooms.values())] if demand.within is Locality.ANY else [racks[rack] for rack in sorted(racks)]
        for area in areas:
            yield _cheapest_openings(free, demand, costs, area, area[0].node.rack), 1
        return
    for area in [racks[rack] for rack in sorted(racks)] if demand.within is Locality.RACK else [list(rooms.values())]:
        blocked = [room for room in area if not room.hosts(demand)]
        missing = demand.nodes - (len(area) - len(blocked))
        found = [
            opening
            for room in blocked
            for opening in _cheapest_openings(free, demand, costs, [room], f"{room.node.rack} {room.node.id:020}")
        ]
        # If enough nodes have room but the placement refuses them, one more node may help.
        yield sorted(found, key=lambda opening: (opening.cost, opening.place)), max(1, missing)


def _vacated_nodes(free: Free, movable: Sequence[Running], demand: Demand) -> dict[int, _VacatedNode]:
    """The schedulable nodes with their free resources and movable jobs."""
    rooms = {
        node.id: _VacatedNode(node, node.count(demand.gpu_type), node.cpus, node.memory_mib)
        for node in free.by_fit(None, 0)
    }
    for run in movable:
        for share in run.allocations:
            if share.node_id in rooms:
                rooms[share.node_id].runs.append(run)
    return dict(sorted(rooms.items()))


def _cheapest_openings(
    free: Free, demand: Demand, costs: dict[int, float], area: Sequence[_VacatedNode], place: str
) -> list[_Opening]:
    """The cheapest sets of jobs whose leaving makes room for the rank or the lot; no set contains another."""
    runs = {run.job.id: run for room in area for run in room.runs}
    order = sorted(runs.values(), key=lambda run: (costs[run.job.id], run.job.id))
    if not _hosted(free, demand, area, order):
        return []
    found: list[_Opening] = []
    price = [costs[run.job.id] for run in order]
    sizes = (_cheapest(price, size) for size in range(1, len(order) + 1))
    for cost, chosen in islice(heapq.merge(*islice(sizes, 8), key=lambda one: one[0]), _MAX_SETS):
        leaving = tuple(order[position] for position in chosen)
        redundant = any(set(map(_id, one.runs)) <= set(map(_id, leaving)) for one in found)
        if not redundant and _hosted(free, demand, area, leaving):
            found.append(_Opening(cost, place, leaving))
            if len(found) == _MAX_OPENINGS:
                break
    return found


def _hosted(free: Free, demand: Demand, area: Sequence[_VacatedNode], leaving: Collection[Running]) -> bool:
    rooms = {room.node.id: _VacatedNode(room.node, room.gpus, room.cpus, room.memory_mib) for room in area}
    for run in leaving:
        for share in run.allocations:
            if share.node_id in rooms:
                room = rooms[share.node_id]
                room.gpus += sum(free.type_of(gpu_id) == demand.gpu_type for gpu_id in share.gpu_ids)
                room.cpus += share.cpus
                room.memory_mib += share.memory_mib
    if len(area) == 1:
        return all(room.hosts(demand) for room in rooms.values())
    return sum(room.of_lot(demand) for room in rooms.values()) >= demand.gpus


def _sets(openings: Sequence[_Opening], size: int) -> Iterator[tuple[float, list[_Opening]]]:
    """Combinations of `size` openings in different places, the cheapest first."""
    for cost, chosen in _cheapest([opening.cost for opening in openings], size):
        together = [openings[position] for position in chosen]
        if len({opening.place for opening in together}) == size:
            yield cost, together


def _cheapest(costs: Sequence[float], size: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """All sets of `size` positions in `costs`, which ascend; the cheapest set first."""
    if size > len(costs):
        return
    first = tuple(range(size))
    heap = [(sum(costs[:size]), first)]
    seen = {first}
    while heap:
        cost, chosen = heapq.heappop(heap)
        yield cost, chosen
        for at, position in enumerate(chosen):
            limit = chosen[at + 1] if at + 1 < size else len(costs)
            if position + 1 < limit:
                successor = (*chosen[:at], position + 1, *chosen[at + 1 :])
                if successor not in seen:
                    seen.add(successor)
                    heapq.heappush(heap, (sum(costs[each] for each in successor), successor))


def _moved(
    free: Free, leaving: Sequence[Running], demand: Demand, placement: Placement, now: float
) -> tuple[Move, ...] | None:
    """The moves of the leaving jobs after the demand is placed; None if the demand or a job finds no place."""
    for run in leaving:
        free.give(run.allocations)
    taken: list[tuple[AllocationView, ...]] = []
    moves = _places(free, leaving, demand, placement, taken, now=now)
    for allocations in reversed(taken):
        free.give(allocations)
    for run in leaving:
        free.take(run.allocations)
    return moves


def _places(
    free: Free,
    leaving: Sequence[Running],
    demand: Demand,
    placement: Placement,
    taken: list[tuple[AllocationView, ...]],
    *,
    now: float,
) -> tuple[Move, ...] | None:
    found = placement.place(free, demand, ())
    if found is None:
        return None
    free.take(found)
    taken.append(found)
    moves = []
    for run in sorted(leaving, key=lambda run: (-run.gpus, run.job.id)):  # large jobs are the hardest to place
        stays = free.can_take(run.allocations)  # without a restart
        found = run.allocations if stays else placement.place(free, _held(free, run, now), run.job.avoid_nodes)
        if found is None:
            return None
        free.take(found)
        taken.append(found)
        if not stays:
            moves.append(Move(run, found))
    return tuple(sorted(moves, key=lambda move: move.run.job.id))


def _held(free: Free, run: Running, now: float) -> Demand:
    """The demand of the job for the same resources elsewhere."""
    return demand_of(free.given_to(run), closed=free.eligibility.to(run.job, now))


def _id(run: Running) -> int:
    return run.job.id
