"""Give large and distributed jobs nodes that they share with no other large job, or with no job at all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from scheduler.model import AllocationView, Locality
from scheduler.placement.base import FixedLocality
from scheduler.placement.demand import Demand
from scheduler.placement.free import Free, FreeNode, Resident
from scheduler.placement.inner import Delegating
from scheduler.registry import param


@dataclass(frozen=True, slots=True)
class Dedicated(FixedLocality, Delegating):
    """Keeps the nodes of a large job free of other large jobs, and of all other jobs if `whole_nodes` is set.

    A job is large with at least `from_gpus` GPUs (0: no number), and if `distributed` is set, on several nodes. The
    placement `inside` chooses among the remaining nodes.
    """

    fills: ClassVar[bool] = False

    from_gpus: int = param(0, "the number of GPUs that makes a job large; 0: no number does", minimum=0)
    distributed: bool = param(True, "count a job on several nodes as large")
    whole_nodes: bool = param(False, "give a large job its nodes alone")

    def place(self, free: Free, demand: Demand, avoid: Collection[int]) -> tuple[AllocationView, ...] | None:
        """See `Placement`.

        A divisible lot below `from_gpus` is large only on several nodes, so one node is tried first.
        """
        inside = self.inner
        exclusion = inside.exclusion(free, avoid)
        for_small = replace(exclusion, excluded=self._hosts_large) if self.whole_nodes else exclusion
        for_large = replace(exclusion, excluded=_in_use if self.whole_nodes else self._hosts_large)
        if self._large(Resident(demand.gpus * demand.nodes, demand.nodes)):
            return inside.choose(free, demand, for_large)
        if not (demand.divisible and self.distributed):
            return inside.choose(free, demand, for_small)
        if free.max_on_one_node(demand.gpu_type) >= demand.gpus:
            on_one_node = inside.choose(free, demand.relaxed(Locality.NODE), for_small)
            if on_one_node is not None:
                return on_one_node
        return None if demand.within is Locality.NODE else inside.choose(free, demand, for_large)

    def _large(self, resident: Resident) -> bool:
        if not resident.gpus:
            return False
        return (self.distributed and resident.nodes > 1) or 0 < self.from_gpus <= resident.gpus

    def _hosts_large(self, node: FreeNode) -> bool:
        return any(map(self._large, node.residents))


def _in_use(node: FreeNode) -> bool:
    return bool(node.residents)


PLUGIN = Dedicated
