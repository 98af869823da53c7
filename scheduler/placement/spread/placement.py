"""Spreading; docs/policies/spread.md says what it optimises and what it does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.model import AllocationView, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import by_rack, gang, ranks
from scheduler.placement.split import cut
from scheduler.placement.steady import NodeExclusion, Steady


@dataclass(frozen=True, slots=True)
class Spread(Steady):
    """Places a gang by these wishes, the earlier the stronger.

    1. No node that is a last choice, or else as few as possible.
    2. As many racks as possible, if they may be several.
    3. The nodes with the most free GPUs.
    4. The fewer strikes, the smaller node id.
    """

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, the emptiest node first, or None when the gang does not fit."""
        nodes = exclusion.allowed(_emptiest_first(free, demand))
        if demand.divisible:
            return _lot(nodes, demand, exclusion.last_resort)
        chosen = gang((node for node in nodes if node.fits(demand)), demand, exclusion.last_resort, _turns)
        return None if chosen is None else ranks(demand, chosen)


def _emptiest_first(free: Free, demand: Demand) -> Iterable[FreeNode]:
    if demand.gpu_type is None:  # a job without GPUs may also go where none is free
        return sorted(free.by_fit(None, 0), key=lambda node: (-node.count(None), node.place))
    return free.by_room(demand.gpu_type)


def _lot(nodes: Iterable[FreeNode], demand: Demand, last: frozenset[int]) -> tuple[AllocationView, ...] | None:
    """As much as there is on the emptiest node, then on the next."""
    if last:
        nodes = sorted(nodes, key=lambda node: node.id in last)
    if demand.within is Locality.ANY:
        return cut(demand, nodes)
    if demand.within is Locality.NODE:
        node = next((node for node in nodes if node.room(demand) >= demand.gpus), None)
        return None if node is None else cut(demand, [node])
    lots = [lot for members in by_rack(nodes).values() if (lot := cut(demand, members)) is not None]
    return min(lots, key=lambda lot: sum(share.node_id in last for share in lot)) if lots else None


def _turns(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    """The first nodes if the racks take turns: the second of a rack comes after the first of each."""
    seen: Counter[str] = Counter()
    turns = []
    for preference, node in enumerate(candidates):
        turns.append((seen[node.rack], preference))
        seen[node.rack] += 1
    return [candidates[preference] for _, preference in sorted(turns)[: demand.nodes]]
