"""What a user may see and do."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet, Sum

from muster.accounts.models import User
from muster.common.rows import first_of
from muster.fleet.selectors import gpus_by_type
from muster.tenants.models import Membership, Quota, Tenant, VirtualCluster
from muster.tenants.roles import Role


@dataclass(frozen=True, slots=True)
class Capacity:
    """The GPUs of one type in a pool, and how many of them quotas promise."""

    total: int
    promised: int

    @property
    def available(self) -> int:
        """How many a further quota can promise."""
        return max(self.total - self.promised, 0)


def tenants_of(user: User) -> QuerySet[Tenant]:
    """The tenants whose objects the user may see: all for operators."""
    if user.is_operator:
        return Tenant.objects.all()
    return Tenant.objects.filter(memberships__user=user)


def virtual_clusters_of(user: User) -> QuerySet[VirtualCluster]:
    """The virtual clusters the user may see."""
    return VirtualCluster.objects.filter(tenant__in=tenants_of(user)).order_by("name")


def default_virtual_cluster(user: User) -> VirtualCluster | None:
    """Where the user's jobs go if they name none: the first of their own memberships."""
    theirs = VirtualCluster.objects.filter(tenant__memberships__user=user).select_related("tenant", "pool")
    return first_of(theirs.order_by("tenant__memberships__id", "id"))


def is_manager(user: User, tenant_id: int) -> bool:
    """Whether the user may act on other members' jobs of the tenant."""
    if user.is_operator:
        return True
    return Membership.objects.filter(user=user, tenant_id=tenant_id, role=Role.MANAGER).exists()


def capacity_of(pool_id: int, *, without: int | None = None) -> dict[str, Capacity]:
    """The capacity of a pool by GPU type; the quotas of the virtual cluster `without` (its id) do not count."""
    promised = dict(
        Quota.objects.filter(vc__pool_id=pool_id)
        .exclude(vc_id=without)
        .values_list("gpu_type")
        .annotate(sum=Sum("gpus"))
    )
    return {name: Capacity(total, promised.get(name, 0)) for name, total in gpus_by_type(pool_id).items()}
