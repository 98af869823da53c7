"""The bases of placements: a fixed locality, and the choice by free resources alone with excluded nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.model import AllocationView, Job, Locality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode
from scheduler.registry import param, params_of_fields

STRIKES_LIMIT = 3.0

STRIKES = "Nodes with this many strikes are a last resort, like those that the job avoids. 0: any strikes."


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


class FixedLocality:
    """Demands the locality that the job asks for."""

    __slots__ = ()  # subclasses have slots
    relaxes: ClassVar[bool] = False

    def within(self, job: Job, now: float) -> Locality:
        """The locality of the job."""
        return job.request.locality

    def relaxes_at(self, job: Job, now: float) -> float | None:
        """Always None."""
        return None


@dataclass(frozen=True, slots=True)
class BasePlacement(FixedLocality):
    """The base class; a subclass implements `choose`.

    A node that the job avoids, or that has `strikes_limit` strikes, is a last resort. Of otherwise equal nodes, the one
    with the fewest strikes goes first, because `Free` sorts nodes so.
    """

    params_schema: ClassVar[Mapping[str, Any]] = params_of_fields()
    fills: ClassVar[bool] = True

    strikes_limit: float = param(STRIKES_LIMIT, STRIKES, minimum=0)

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        return self.choose(free, demand, self.exclusion(free, avoid))

    def exclusion(self, free: Free, avoid: Collection[int]) -> NodeExclusion:
        """Makes nodes that the job avoids, or that have too many strikes, a last resort."""
        over_limit = free.nodes_over_strike_limit(self.strikes_limit)
        return NodeExclusion(over_limit.union(avoid)) if over_limit or avoid else _NOTHING

    def choose(self, free: Free, demand: Demand, exclusion: NodeExclusion) -> tuple[AllocationView, ...] | None:
        """As `place`, with these nodes excluded or a last resort."""
        raise NotImplementedError


_NOTHING = NodeExclusion()
