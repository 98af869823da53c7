"""Volumes: which ones a virtual cluster's jobs may mount, and how far."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q, QuerySet

from muster.accounts.models import User
from muster.fleet.models import Pool
from muster.tenants.models import VirtualCluster, Volume
from muster.tenants.selectors import tenants_of
from nodeagent.protocol.messages import is_below


def volumes_for(vc: VirtualCluster, names: Collection[str]) -> dict[str, Volume]:
    """The volumes of these names that the virtual cluster's jobs may mount."""
    rows = Volume.objects.filter(Q(vc=None) | Q(vc=vc), tenant_id=vc.tenant_id, name__in=set(names))
    return {row.name: row for row in rows}


def volumes_of(user: User) -> QuerySet[Volume]:
    """The volumes of the tenants that the user may see."""
    rows = Volume.objects.filter(tenant__in=tenants_of(user))
    return rows.select_related("tenant", "vc").order_by("tenant__name", "name")


def why_not(volume: Volume | None, vc: VirtualCluster, pool: Pool, *, name: str, read_only: bool) -> str:
    """Why jobs of the virtual cluster cannot mount the volume so in a pool, empty for nothing.

    One that is another tenant's reads like one that does not exist, and where a volume lies is for operators to know.
    """
    if volume is None:
        return f"there is no volume {name!r} that jobs of {vc.name} may mount"
    if not read_only and not volume.writable:
        return f"volume {name} is read-only: write ro in the place of rw"
    if not is_below(volume.path, pool.roots):
        return f"volume {name} is not on the nodes of pool {pool.name}"
    return ""
