"""Rights of users."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import QuerySet, Sum

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.common.rows import first_of
from muster.common.statements import Statement
from muster.fleet.selectors import gpus_by_type
from muster.tenants.models import CommonQuota, Membership, Organisation, Quota, Tenant, VirtualCluster
from muster.tenants.roles import Role

_CLOSED = Statement("SELECT FROM tenants_virtualcluster WHERE id = %s AND closed_at IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The GPUs of one type in a pool, and how many of them quotas promise."""

    total: int
    promised: int

    @property
    def available(self) -> int:
        """The number that a further quota can promise."""
        return max(self.total - self.promised, 0)


def tenants_of(user: User) -> QuerySet[Tenant]:
    """The tenants whose objects the user may see: all for operators."""
    if user.confined_to is not None:
        return Tenant.objects.filter(pk=user.confined_to)
    if user.is_operator:
        return Tenant.objects.all()
    return Tenant.objects.filter(memberships__user=user)


def virtual_clusters_of(user: User) -> QuerySet[VirtualCluster]:
    """The virtual clusters the user may see."""
    return VirtualCluster.objects.filter(tenant__in=tenants_of(user), closed_at__isnull=True).order_by("name")


def default_virtual_cluster(user: User) -> VirtualCluster | None:
    """The virtual cluster of the user's jobs if they name none: the first of their own memberships."""
    theirs = VirtualCluster.objects.filter(tenant__memberships__user=user).select_related("tenant", "pool")
    theirs = theirs.filter(closed_at__isnull=True)
    if user.confined_to is not None:
        theirs = theirs.filter(tenant_id=user.confined_to)
    return first_of(theirs.order_by("tenant__memberships__id", "id"))


def require_open(vc: VirtualCluster) -> None:
    """Refuse a job that was stored in a virtual cluster which has been deleted since the job was checked."""
    if _CLOSED.rows(vc.pk):
        raise Invalid.field("vc", f"{vc.name} has been deleted: name another virtual cluster")


def is_manager(user: User, tenant_id: int) -> bool:
    """Whether the user may act on other members' jobs of the tenant."""
    if user.is_operator:
        return True
    if user.confined_to not in {None, tenant_id}:
        return False
    return Membership.objects.filter(user=user, tenant_id=tenant_id, role=Role.MANAGER).exists()


def capacity_of(
    pool_id: int, *, without: int | None = None, without_group: Organisation | Tenant | None = None
) -> dict[str, Capacity]:
    """The capacity of a pool by GPU type; quotas of the virtual cluster `without` (its id), or of the group, do not
    count."""
    promised: Counter[str] = Counter()
    of_groups = CommonQuota.objects.filter(pool_id=pool_id)
    if without_group is not None:
        kind = "tenant" if isinstance(without_group, Tenant) else "organisation"
        of_groups = of_groups.exclude(**{kind: without_group})
    for rows in (Quota.objects.filter(vc__pool_id=pool_id).exclude(vc_id=without), of_groups):
        promised.update(dict(rows.values_list("gpu_type").annotate(sum=Sum("gpus"))))
    return {name: Capacity(total, promised[name]) for name, total in gpus_by_type(pool_id).items()}


def organisations_of(user: User) -> QuerySet[Organisation]:
    """The organisations whose name the user may see: all for operators, else those above the user's tenants."""
    if user.is_operator:
        return Organisation.objects.all()
    above = dict(Organisation.objects.values_list("pk", "parent_id"))
    ids: set[int] = set()
    for start in tenants_of(user).values_list("organisation_id", flat=True):
        pk = start
        while pk is not None and pk not in ids:
            ids.add(pk)
            pk = above[pk]
    return Organisation.objects.filter(pk__in=ids)
