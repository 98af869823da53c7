"""What the placements share that choose by what is free alone, whatever time it is, and that others build upon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView
from scheduler.placement.as_asked import AsAsked
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode

STRIKES_LIMIT = 3.0

STRIKES_SCHEMA: Mapping[str, Any] = {
    "type": "number",
    "minimum": 0,
    "default": STRIKES_LIMIT,
    "description": "a node with so many strikes is a last choice, as one that the job avoids; 0: every node with any",
}


@dataclass(frozen=True, slots=True)
class NodeExclusion:
    """The nodes that are a `last` choice, by id, and those that are none at all."""

    last_resort: frozenset[int] = frozenset()
    excluded: Callable[[FreeNode], bool] | None = None

    def allowed(self, nodes: Iterable[FreeNode]) -> Iterator[FreeNode]:
        """Those of the nodes that may be chosen, in their order."""
        excluded = self.excluded
        if excluded is None:
            return iter(nodes)
        return (node for node in nodes if not excluded(node))


@dataclass(frozen=True, slots=True)
class Steady(AsAsked):
    """The base of such a placement, which says how to `choose`; nothing else of it need be written.

    A node that the job avoids, or that has `strikes_limit` strikes, is a last choice. Of nodes that are equal in all
    that a placement looks at, the one with the fewest strikes goes first: so `Free` has them in order.
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
        """What the job avoids, and what has too many strikes."""
        struck = free.struck(self.strikes_limit)
        return NodeExclusion(struck.union(avoid)) if struck or avoid else _NOTHING

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """As `place`, without the nodes of `exclusion`."""
        raise NotImplementedError


_NOTHING = NodeExclusion()
