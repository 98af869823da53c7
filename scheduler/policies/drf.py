"""Dominant resource fairness: serve the user with the smallest share of their most used resource first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.authoring import Job, View, param
from scheduler.policies.shared import DominantShares, Shared, ShareLedger, weights_of_vcs
from scheduler.workshop import Capacity, ResourceUsage


@dataclass(frozen=True, slots=True)
class Drf(Shared):
    """Serves the user, tenant or virtual cluster next with the smallest dominant share by weight.

    Source: Ghodsi et al., Dominant Resource Fairness (NSDI 2011), §4.2, algorithm 1.
    """

    over: str = param(
        "user",
        "The groups with equal shares; tenants and virtual clusters by the tenant's weight.",
        enum=["user", "tenant", "vc"],
    )
    preemption_share: float = param(
        0, "The share of all GPUs that may be preempted at a time. 0: none.", minimum=0, maximum=1
    )

    def group_of(self, job: Job) -> int:
        if self.over == "user":
            return job.owner_id
        return job.tenant_id if self.over == "tenant" else job.vc_id

    def ledger(self, view: View, capacity: Capacity, usage: ResourceUsage) -> ShareLedger:
        weights: Mapping[int, float] = {}
        if self.over == "tenant":
            weights = {tenant.id: tenant.weight for tenant in view.tenants}
        elif self.over == "vc":
            weights = weights_of_vcs(view)
        return DominantShares(view, capacity, usage, self.group_of, weights)


PLUGIN = Drf
