"""Dominant resource fairness; docs/policies/drf.md says what it optimises and what its parameters cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.board import Key
from scheduler.model import Job, Running, View
from scheduler.placement.capacity import Capacity
from scheduler.placement.free import Demand
from scheduler.policies.shared import Books, Shared, dominant, wanted


@dataclass(frozen=True, slots=True)
class Drf(Shared):
    """Serves next the user, tenant or virtual cluster with the smallest dominant share by weight.

    Source: Ghodsi et al., Dominant Resource Fairness (NSDI 2011), §4.2, algorithm 1.
    """

    params_schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "over": {
                "type": "string",
                "enum": ["user", "tenant", "vc"],
                "default": "user",
                "description": "Whose shares are made equal; tenants and virtual clusters by the weight of the tenant.",
            },
            "preemption_share": {
                "type": "number",
                "minimum": 0,
                "maximum": 1,
                "default": 0,
                "description": "Of all GPUs, how many may be taken at a time from who holds more. 0: none.",
            },
        },
        "additionalProperties": False,
    }

    over: str = "user"
    preemption_share: float = 0

    @property
    def bound(self) -> float:
        """See `Shared`."""
        return self.preemption_share

    def group_of(self, job: Job) -> int:
        """See `Shared`."""
        if self.over == "user":
            return job.owner_id
        return job.tenant_id if self.over == "tenant" else job.vc_id

    def books(self, view: View, capacity: Capacity) -> Books:
        """See `Shared`."""
        weights: dict[int, float] = {}
        if self.over != "user":
            of_tenant = {tenant.id: tenant.weight for tenant in view.tenants}
            weights = of_tenant
            if self.over == "vc":
                weights = {vc.id: of_tenant.get(vc.tenant_id, 1.0) for vc in view.vcs}
        return _Dominant(view, capacity, self.group_of, weights)


class _Dominant(Books):
    """Books of dominant shares."""

    def __init__(self, view: View, capacity: Capacity, group_of: Any, weights: Mapping[int, float]) -> None:
        super().__init__(view, capacity, group_of)
        self._weights = weights

    def key(self, group: int) -> Key:
        """The dominant share over the weight."""
        return (self._share(self.used.get(group, {}), group),)

    def may_take(self, job: Job, demand: Demand, now: float) -> bool:
        """See `Books`; from whom is what decides."""
        return True

    def excess(self, group: int, job: Job, demand: Demand, run: Running) -> float:
        """The share of the group, while without the run it is no smaller than that of the taker with the job."""
        used, held = self.used[group], self.held(run)
        taker = self.group_of(job)
        without = {resource: amount - held.get(resource, 0) for resource, amount in used.items()}
        have: Mapping[str, int] = self.used.get(taker, {})
        want = wanted(demand)
        then = {resource: have.get(resource, 0) + want.get(resource, 0) for resource in {*have, *want}}
        fair = self._share(without, group) >= self._share(then, taker)
        return self._share(used, group) if fair else 0.0

    def _share(self, used: Mapping[str, int], group: int) -> float:
        weight = self._weights.get(group, 1.0)
        return dominant(used, self.total) / weight if weight > 0 else float("inf")
