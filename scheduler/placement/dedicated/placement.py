"""Dedicated nodes; docs/policies/dedicated.md says what they are against and what they cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from scheduler.model import AllocationView, Locality
from scheduler.placement.as_asked import AsAsked
from scheduler.placement.bases import BASE_PARAMS, base
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode, Guest
from scheduler.placement.steady import STRIKES_LIMIT


@dataclass(frozen=True, slots=True)
class Dedicated(AsAsked):
    """A large job shares its nodes with no other large one, or with nobody when `whole_nodes` is set.

    Large is a job of `from_gpus` GPUs, if that is not 0, and with `distributed` any that uses GPUs of several nodes.
    What that leaves is for the placement `inside` to choose.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "from_gpus": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "how many GPUs make a job large; 0: no number does",
            },
            "distributed": {
                "type": "boolean",
                "default": True,
                "description": "whether GPUs on several nodes make a job large",
            },
            "whole_nodes": {
                "type": "boolean",
                "default": False,
                "description": "whether nobody at all shares a node with a large job",
            },
            **BASE_PARAMS,
        },
        "additionalProperties": False,
    }
    fills: ClassVar[bool] = False

    from_gpus: int = 0
    distributed: bool = True
    whole_nodes: bool = False
    inside: str = "consolidate"
    strikes_limit: float = STRIKES_LIMIT

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """See `Placement`.

        A lot that is not large by its number is so only if it needs several nodes, and one node is better.
        """
        inside = base(self.inside, self.strikes_limit)
        exclusion = inside.exclusion(free, avoid)
        for_small = replace(exclusion, excluded=self._hosts_large) if self.whole_nodes else exclusion
        for_large = replace(exclusion, excluded=_in_use if self.whole_nodes else self._hosts_large)
        if self._large(Guest(demand.gpus * demand.nodes, demand.nodes)):
            return inside.choose(free, demand, for_large)
        if not (demand.divisible and self.distributed):
            return inside.choose(free, demand, for_small)
        if free.most_on_one_node(demand.gpu_type) >= demand.gpus:
            on_one_node = inside.choose(free, demand.relaxed(Locality.NODE), for_small)
            if on_one_node is not None:
                return on_one_node
        return None if demand.within is Locality.NODE else inside.choose(free, demand, for_large)

    def _large(self, guest: Guest) -> bool:
        if not guest.gpus:
            return False
        return (self.distributed and guest.nodes > 1) or 0 < self.from_gpus <= guest.gpus

    def _hosts_large(self, node: FreeNode) -> bool:
        return any(map(self._large, node.guests))


def _in_use(node: FreeNode) -> bool:
    return bool(node.guests)
