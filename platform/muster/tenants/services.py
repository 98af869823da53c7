"""Making tenants and virtual clusters, and setting quotas that the pool can keep."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.common.validation import require_valid
from muster.events.services import access_changed, audit, wake_pool
from muster.fleet.models import Pool
from muster.tenants.models import Membership, Organisation, Quota, Tenant, VirtualCluster
from muster.tenants.ports import ports
from muster.tenants.roles import Role
from muster.tenants.selectors import Capacity, capacity_of


def create_tenant(*, name: str, actor: str, weight: float = 1) -> Tenant:
    """A new tenant without members."""
    tenant = Tenant(name=name, weight=weight)
    require_valid(tenant)
    with transaction.atomic():
        tenant.save(force_insert=True)
        audit("create", "tenant", name, actor=actor, after={"name": name, "weight": weight})
    return tenant


def add_member(*, tenant: Tenant, user: User, role: Role, actor: str) -> Membership:
    """The user's role in the tenant, new or changed."""
    with transaction.atomic():
        membership, _ = Membership.objects.update_or_create(tenant=tenant, user=user, defaults={"role": role})
        audit("add_member", "tenant", tenant.name, actor=actor, after={"user": user.username, "role": role})
        access_changed()
    return membership


def create_virtual_cluster(*, tenant: Tenant, pool: Pool, name: str, actor: str) -> VirtualCluster:
    """A virtual cluster without a quota."""
    vc = VirtualCluster(tenant=tenant, pool=pool, name=name)
    require_valid(vc)
    with transaction.atomic():
        vc.save(force_insert=True)
        after = {"tenant": tenant.name, "pool": pool.name, "name": name}
        audit("create", "virtual_cluster", name, actor=actor, after=after)
    return vc


def set_quota(*, vc: VirtualCluster, gpu_type: str, gpus: int, actor: str) -> Quota:
    """The virtual cluster's quota of one GPU type; `Invalid` if it is negative or more than the pool can keep."""
    with transaction.atomic():
        # Two quotas of one pool that are edited at once must not each see the other's old value.
        Pool.objects.select_for_update(no_key=True).get(pk=vc.pool_id)
        problem = quota_problem(vc=vc, gpu_type=gpu_type, gpus=gpus)
        if problem:
            raise Invalid.field("gpus", problem)
        before = Quota.objects.filter(vc=vc, gpu_type=gpu_type).values("gpus").first()
        quota, _ = Quota.objects.update_or_create(vc=vc, gpu_type=gpu_type, defaults={"gpus": gpus})
        audit(
            "set_quota",
            "virtual_cluster",
            vc.name,
            actor=actor,
            before={"gpu_type": gpu_type, "gpus": before["gpus"] if before else None},
            after={"gpu_type": gpu_type, "gpus": gpus},
        )
        wake_pool(vc.pool_id)
    return quota


def quota_problem(*, vc: VirtualCluster, gpu_type: str, gpus: int) -> str | None:
    """The reason why the virtual cluster cannot have this quota, or None. A quota is a promise, so the pool must be
    able to keep all of its quotas at once.
    """
    if gpus < 0:
        return "a quota cannot be negative"
    stored = Quota.objects.filter(vc=vc, gpu_type=gpu_type).values_list("gpus", flat=True).first() if vc.pk else None
    if gpus != (stored or 0) and (problem := cells_problem(vc)):
        return problem
    if gpus <= (stored or 0):
        return None
    return promise_problem(vc.pool, capacity_of(vc.pool_id, without=vc.pk), gpu_type=gpu_type, gpus=gpus, name=vc.name)


def common_quota_problem(group: Organisation | Tenant, pool: Pool, *, gpu_type: str, gpus: int) -> str | None:
    """The reason why the organisation or the tenant cannot have this quota of its own in the pool, or None."""
    stored = group.quotas.filter(pool=pool, gpu_type=gpu_type).first() if group.pk else None
    if gpus <= (stored.gpus if stored else 0):
        return None
    capacities = capacity_of(pool.pk, without_group=group if group.pk else None)
    return promise_problem(pool, capacities, gpu_type=gpu_type, gpus=gpus, name=group.name)


def cells_problem(vc: VirtualCluster) -> str | None:
    """The reason why the quotas of the virtual cluster cannot be set by numbers, or None."""
    by_cells = ports.has_cells(vc.pool.admission)
    return f"the quotas of {vc.name} are those of its cells: change the cells" if by_cells else None


def promise_problem(
    pool: Pool, capacities: Mapping[str, Capacity], *, gpu_type: str, gpus: int, name: str
) -> str | None:
    """The reason why the pool cannot promise this many GPUs beside the capacity that others are promised, or None."""
    capacity = capacities.get(gpu_type)
    if capacity is None:
        types = ", ".join(capacities) or "none yet"
        return f"pool {pool.name} has no GPUs of type {gpu_type!r}; it has: {types}"
    if gpus > capacity.available:
        return (
            f"pool {pool.name} has {capacity.total} {gpu_type}, of which others are promised {capacity.promised}: at "
            f"most {capacity.available} can be given to {name}"
        )
    return None
