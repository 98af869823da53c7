"""Times at which each node has room: free resources, those that become free, and promises.

A demand meets thousands of nodes but few sizes, so the nodes are sorted for each size by the moment at which they have
that much free, promises aside. Only nodes with promises need a further search.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from scheduler.workshop import AllocationView, Demand, Free, FreeNode

# GPUs of a type, CPUs or memory of a node: the resource, the node, and the type.
Key = tuple[str, int, str | None]
# A claim: its start, its end and its amount.
Claim = tuple[float, float, int]
# What one rank takes: GPU type, GPUs, CPUs and MiB of memory.
_Size = tuple[str | None, int, int, int]


@dataclass(slots=True)
class _Order:
    """The nodes by the moment at which they can host a rank of one size, promises aside; nodes that never can are
    missing."""

    entries: list[tuple[float, int]]
    since: dict[int, float]

    def put(self, node_id: int, since: float | None) -> None:
        """Insert a node."""
        before = self.since.pop(node_id, None)
        if before is not None:
            del self.entries[bisect_left(self.entries, (before, node_id))]
        if since is not None:
            self.since[node_id] = since
            insort(self.entries, (since, node_id))


@dataclass(slots=True)
class _Total:
    """GPUs of one type in the whole pool: free now, freed by ends, and promised."""

    now: int = 0
    ends: list[tuple[float, int]] = field(default_factory=list)
    claims: dict[tuple[int, int], Claim] = field(default_factory=dict)

    def at(self, moment: float) -> int:
        """The number of GPUs neither held nor promised at a moment."""
        came = sum(gpus for _, gpus in self.ends[: bisect_right(self.ends, (moment, math.inf))])
        gone = sum(gpus for since, until, gpus in self.claims.values() if since <= moment < until)
        return self.now + came - gone

    def since(self, gpus: int) -> float | None:
        """The end from which on `gpus` are free, promises aside; None if never."""
        if gpus <= self.now:
            return -math.inf
        came = accumulate(freed for _, freed in self.ends)
        return next((end for (end, _), sum_ in zip(self.ends, came, strict=True) if self.now + sum_ >= gpus), None)


class NodeTimes:
    """The free resources of each schedulable node at each moment from now on."""

    def __init__(self, free: Free, nodes: Iterable[FreeNode], now: float) -> None:
        self._free, self._start = free, now
        self._now: dict[Key, int] = {}
        self._held: dict[Key, list[tuple[float, int]]] = {}
        self._booked: dict[Key, dict[int, Claim]] = {}
        self._claims: dict[int, int] = {}  # number of bookings of a node, by its keys
        self._totals: dict[str, _Total] = {}
        self._node_ids: list[int] = []
        for node in nodes:
            self._node_ids.append(node.id)
            self._now["cpus", node.id, None] = node.cpus
            self._now["memory", node.id, None] = node.memory_mib
            for gpu_type, gpu_ids in node.gpus.items():
                self._now["gpus", node.id, gpu_type] = len(gpu_ids)
                self._total(gpu_type).now += len(gpu_ids)
        self._orders: dict[_Size, _Order] = {}
        # For a node with promises: when it can host a rank of a size for a duration.
        self._exact: dict[int, dict[tuple[_Size, float], float | None]] = {}

    # Changes

    def add_hold(self, share: AllocationView, end: float) -> None:
        """Add a share that becomes free at `end`."""
        self._change(share, end, 1)

    def remove_hold(self, share: AllocationView, end: float) -> None:
        """Undo an `add_hold`."""
        self._change(share, end, -1)

    def _change(self, share: AllocationView, end: float, times: int) -> None:
        for key, amount in self._amounts(share):
            ends = [self._held.setdefault(key, [])]
            if key[2] is not None:
                ends.append(self._total(key[2]).ends)
            for one in ends:
                if times > 0:
                    insort(one, (end, amount))
                else:
                    del one[bisect_left(one, (end, amount))]
        self._look_again(share.node_id)

    def take(self, share: AllocationView, times: int = 1) -> None:
        """Take a share from the free resources, or give it back with `times` -1."""
        for key, amount in self._amounts(share):
            self._now[key] -= amount * times
            if key[2] is not None:
                self._total(key[2]).now -= amount * times
        self._look_again(share.node_id)

    def book(self, job_id: int, share: AllocationView, gpu_type: str | None, start: float, end: float) -> None:
        """Book a promised share for an interval; GPUs count by number only."""
        for key, amount in _needs(share.node_id, _size_of(share, gpu_type)):
            self._booked.setdefault(key, {})[job_id] = (start, end, amount)
            self._claims[share.node_id] = self._claims.get(share.node_id, 0) + 1
            if key[2] is not None:
                self._total(key[2]).claims[job_id, share.node_id] = (start, end, amount)
        self._exact.pop(share.node_id, None)

    def unbook(self, job_id: int, share: AllocationView, gpu_type: str | None) -> None:
        """Undo a `book`."""
        for key, _ in _needs(share.node_id, _size_of(share, gpu_type)):
            del self._booked[key][job_id]
            self._claims[share.node_id] -= 1
            if key[2] is not None:
                del self._total(key[2]).claims[job_id, share.node_id]
        if not self._claims.get(share.node_id):
            self._claims.pop(share.node_id, None)
        self._exact.pop(share.node_id, None)

    def _look_again(self, node_id: int) -> None:
        self._exact.pop(node_id, None)
        for size, order in self._orders.items():
            order.put(node_id, self._since(node_id, size))

    # Queries

    @property
    def booked(self) -> Iterable[int]:
        """The nodes with promises, ascending."""
        return sorted(self._claims)

    def has_room(self, share: AllocationView, gpu_type: str | None, start: float, end: float) -> bool:
        """True if the node has room for the share between the two moments, beside its promises."""
        if ("cpus", share.node_id, None) not in self._now:
            return False
        return self._fits(_needs(share.node_id, _size_of(share, gpu_type)), start, end)

    def not_before(self, demand: Demand, length_s: float, since: float) -> float | None:
        """A moment from `since` on before which the demand finds no room for this long; None: it never does."""
        if demand.divisible:
            enough = self._total(str(demand.gpu_type)).since(demand.gpus)
            return None if enough is None else max(since, enough)
        size, best = _size(demand), list[float]()
        order = self._order(size)
        for raw, node_id in order.entries:
            if len(best) >= demand.nodes and best[demand.nodes - 1] <= raw:
                break
            at = self._for_so_long(node_id, size, length_s) if node_id in self._claims else raw
            if at is not None:
                insort(best, at)
        return max(since, best[demand.nodes - 1]) if len(best) >= demand.nodes else None

    def hosts(self, demand: Demand, start: float, end: float) -> Sequence[int]:
        """The nodes with room for a part of the demand between the two moments; none if they are too few."""
        if demand.divisible and self._total(str(demand.gpu_type)).at(start) < demand.gpus:
            return ()
        size, found = _size(demand), list[int]()
        for since, node_id in self._order(size).entries:
            if since > start:
                break
            if node_id not in self._claims or self._fits(_needs(node_id, size), start, end):
                found.append(node_id)
        return found if len(found) >= demand.nodes else ()

    def peak(self, key: Key, start: float, end: float) -> int:
        """The maximum promised at any moment of the interval, beyond what becomes free after its start; at least 0."""
        booked = self._booked.get(key)
        return peak(booked.values(), self._held.get(key, ()), start, end) if booked else 0

    def _order(self, size: _Size) -> _Order:
        if size not in self._orders:
            found = ((node_id, self._since(node_id, size)) for node_id in self._node_ids)
            since = {node_id: at for node_id, at in found if at is not None}
            self._orders[size] = _Order(sorted((at, node_id) for node_id, at in since.items()), since)
        return self._orders[size]

    def _since(self, node_id: int, size: _Size) -> float | None:
        """The time at which the node has this much free, promises aside; None if never."""
        since = self._start
        for key, amount in _needs(node_id, size):
            have = self._now.get(key, 0)
            if have >= amount:
                continue
            for end, freed in self._held.get(key, ()):
                have += freed
                if have >= amount:
                    since = max(since, end)
                    break
            else:
                return None
        return since

    def _for_so_long(self, node_id: int, size: _Size, length_s: float) -> float | None:
        """The first moment at which the node can host a rank for this long, beside its promises; None if never."""
        known = self._exact.setdefault(node_id, {})
        if (size, length_s) not in known:
            needs = _needs(node_id, size)
            first = self._order(size).since[node_id]
            moments = {first}
            for key, _ in needs:
                moments.update(end for end, _ in self._held.get(key, ()) if end > first)
                moments.update(until for _, until, _ in self._booked.get(key, {}).values() if until > first)
            known[size, length_s] = next((at for at in sorted(moments) if self._fits(needs, at, at + length_s)), None)
        return known[size, length_s]

    def _fits(self, needs: Iterable[tuple[Key, int]], start: float, end: float) -> bool:
        for key, amount in needs:
            have = self._now.get(key, 0)
            held = self._held.get(key, ())
            for at, freed in held:
                if at > start:
                    break
                have += freed
            booked = self._booked.get(key)
            if have < amount or (booked and have < amount + peak(booked.values(), held, start, end)):
                return False
        return True

    def _amounts(self, share: AllocationView) -> list[tuple[Key, int]]:
        by_type: dict[str, int] = {}
        for gpu_id in share.gpu_ids:
            gpu_type = self._free.type_of(gpu_id)
            by_type[gpu_type] = by_type.get(gpu_type, 0) + 1
        found: list[tuple[Key, int]] = [(("gpus", share.node_id, kind), gpus) for kind, gpus in by_type.items()]
        if share.cpus:
            found.append((("cpus", share.node_id, None), share.cpus))
        if share.memory_mib:
            found.append((("memory", share.node_id, None), share.memory_mib))
        return found

    def _total(self, gpu_type: str) -> _Total:
        return self._totals.setdefault(gpu_type, _Total())


def peak(claims: Iterable[Claim], ends: Iterable[tuple[float, int]], start: float, end: float) -> int:
    """The maximum claimed at any moment of the interval, beyond what becomes free after its start; at least 0."""
    changes: list[tuple[float, int]] = []
    for since, until, amount in claims:
        if (since < end or math.isinf(end)) and (until > start or math.isinf(until)):
            changes.append((max(since, start), amount))
            if until < end:
                changes.append((until, -amount))
    if not changes:
        return 0
    if len(changes) > 1 or changes[0][0] > start:
        changes += [(at, -freed) for at, freed in ends if start < at <= end]
        changes.sort()  # at one moment, ends come before starts
    level = most = 0
    for _, change in changes:
        level += change
        most = max(most, level)
    return most


def _size(demand: Demand) -> _Size:
    """The minimum that one node must host."""
    return demand.gpu_type, 1 if demand.divisible else demand.gpus, demand.cpus, demand.memory_mib


def _size_of(share: AllocationView, gpu_type: str | None) -> _Size:
    return gpu_type, len(share.gpu_ids), share.cpus, share.memory_mib


def _needs(node_id: int, size: _Size) -> Sequence[tuple[Key, int]]:
    gpu_type, gpus, cpus, memory_mib = size
    needs: list[tuple[Key, int]] = []
    if gpus:
        needs.append((("gpus", node_id, gpu_type), gpus))
    if cpus:
        needs.append((("cpus", node_id, None), cpus))
    if memory_mib:
        needs.append((("memory", node_id, None), memory_mib))
    return needs
