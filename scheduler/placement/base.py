"""The base class of placements that choose by free resources alone, and their exclusion of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView
from scheduler.placement.demand import Demand
from scheduler.placement.fixed_locality import FixedLocality
from scheduler.placement.free import Free, FreeNode

STRIKES_LIMIT = 3.0

STRIKES_SCHEMA: Mapping[str, Any] = {
    "type": "number",
    "minimum": 0,
    "default": STRIKES_LIMIT,
    "description": "Nodes with this many strikes are a last resort, like those that the job avoids. 0: any strikes.",
}


@dataclass(frozen=True, slots=True)
class NodeExclusion:
    """The nodes to use only as a `last_resort`, by id, and a test for the nodes that are `excluded`."""

    last_resort: frozenset[int] = frozenset()
    excluded: Callable[[FreeNode], bool] | None = None

    def allowed(self, nodes: Iterable[FreeNode]) -> Iterator[FreeNode]:
        """The nodes that are not excluded, in their order."""
        excluded = self.excluded
        if excluded is None:
            return iter(nodes)
        return (node for node in nodes if not excluded(node))


@dataclass(frozen=True, slots=True)
class BasePlacement(FixedLocality):
    """The base class; a subclass implements `choose`.

    A node that the job avoids, or that has `strikes_limit` strikes, is a last resort. Of otherwise equal nodes, the one
    with the fewest strikes goes first, because `Free` sorts nodes so.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"strikes_limit": STRIKES_SCHEMA},
        "additionalProperties": False,
    }
    fills: ClassVar[bool] = True

    strikes_limit: float = STRIKES_LIMIT

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """See `Placement`."""
        return self.choose(free, demand, self.exclusion(free, avoid))

    def exclusion(self, free: Free, avoid: Collection[int]) -> NodeExclusion:
        """Makes nodes that the job avoids, or that have too many strikes, a last resort."""
        over_limit = free.nodes_over_strike_limit(self.strikes_limit)
        return NodeExclusion(over_limit.union(avoid)) if over_limit or avoid else _NOTHING

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """As `place`, with these nodes excluded or a last resort."""
        raise NotImplementedError


_NOTHING = NodeExclusion()
