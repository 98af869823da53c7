"""Use the nodes with the fewest free resources left after the job is placed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from scheduler.model import AllocationView
from scheduler.placement.base import BasePlacement, NodeExclusion
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.placement.gang import gang, idle, ranks
from scheduler.placement.split import fewest_nodes


@dataclass(frozen=True, slots=True)
class BestFit(BasePlacement):
    """Prefers nodes for each rank by these rules, in order:

    1. as few last resorts as possible;
    2. the fewest free GPUs, then nodes in use, then the fewest free CPUs, then the least free memory;
    3. the fewest strikes, then the smallest node id.
    """

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """One allocation for each rank, neighbouring ranks close together; None if the gang does not fit."""
        if demand.divisible:
            return fewest_nodes(free, demand, exclusion, _tightest_first)
        nodes = gang(exclusion.allowed(_tightest_first(free, demand)), demand, exclusion.last_resort, _the_first, idle)
        return None if nodes is None else ranks(demand, sorted(nodes, key=lambda node: (node.rack, node.id)))


def _tightest_first(free: Free, demand: Demand) -> Iterator[FreeNode]:
    """The nodes that can host one rank or the whole lot, sorted as far as the caller reads."""
    for _, equals in groupby(free.candidates(demand), key=lambda node: node.count(demand.gpu_type)):
        yield from sorted(equals, key=_left)


def _left(node: FreeNode) -> Any:
    return not node.residents, node.cpus, node.memory_mib, node.place


def _the_first(candidates: Sequence[FreeNode], demand: Demand) -> Sequence[FreeNode]:
    return candidates[: demand.nodes]


PLUGIN = BestFit
