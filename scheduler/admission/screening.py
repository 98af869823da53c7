"""The virtual clusters of screening runs in a snapshot: one for each tenant. They have no row and no stored quota."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from scheduler.model import Snapshot, Tenant, VirtualCluster

# Above the ids of all stored virtual clusters.
FIRST_ID = 1 << 48


def screens(vc_id: int) -> bool:
    """True if the virtual cluster is one of screening runs, whose quota is a cap and no share of the pool."""
    return vc_id >= FIRST_ID


def with_screening_clusters(snapshot: Snapshot, tenants: Iterable[Tenant], *, cap: int) -> Snapshot:
    """Add a virtual cluster for the screening runs of each tenant; its runs may hold `cap` GPUs at once.

    It lends and borrows nothing.
    """
    quotas = {gpu.type: cap for node in snapshot.nodes for gpu in node.gpus}
    screened = {one.id: one for one in tenants}
    known = screened | {one.id: one for one in snapshot.tenants}  # those have their place in the tree
    none = dict.fromkeys(quotas, 0)
    clusters = tuple(
        VirtualCluster(FIRST_ID + one.id, one.id, f"screening of {one.name}", quotas, borrowing=none, lending=none)
        for one in screened.values()
    )
    return replace(snapshot, tenants=tuple(known[pk] for pk in sorted(known)), vcs=(*snapshot.vcs, *clusters))
