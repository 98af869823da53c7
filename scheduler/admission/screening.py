"""The virtual clusters of trials in a snapshot: one for each tenant, which no quota knows and nobody has stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.model import Snapshot, Tenant, VirtualCluster

# Above all ids of virtual clusters that are stored.
FIRST_ID = 1 << 48


def beside_others(snapshot: Snapshot, tenants: Iterable[Tenant], *, cap: int) -> Snapshot:
    """The snapshot with a virtual cluster for the trials of each of the tenants, which may hold `cap` GPUs at once."""
    quotas = {gpu.type: cap for node in snapshot.nodes for gpu in node.gpus}
    trying = {one.id: one for one in tenants}
    known = {one.id: one for one in snapshot.tenants} | trying
    clusters = tuple(
        VirtualCluster(FIRST_ID + one.id, one.id, f"trials of {one.name}", quotas) for one in trying.values()
    )
    return replace(snapshot, tenants=tuple(known[pk] for pk in sorted(known)), vcs=(*snapshot.vcs, *clusters))
