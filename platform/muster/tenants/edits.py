"""Edits of the tree of tenants: by operators, and by managers within what their tenant has.

Each edit names the version that it changes. Locks, in this order: organisations, pools, tenants, virtual clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from muster.accounts.models import User
from muster.common.errors import Conflict, FieldError, Forbidden, Invalid
from muster.common.models import DatabaseNow
from muster.common.validation import require_valid
from muster.events.services import audit, wake_pool
from muster.fleet.models import Pool
from muster.tenants.caps import set_caps
from muster.tenants.models import CommonQuota, Limits, Organisation, Quota, Tenant, TreeNode, VirtualCluster
from muster.tenants.services import (
    cells_problem,
    common_quota_problem,
    create_tenant,
    create_virtual_cluster,
    quota_problem,
)

NodeT = TypeVar("NodeT", bound=TreeNode)
GroupT = TypeVar("GroupT", Organisation, Tenant)
LIMITS = {"borrowing_limit": "borrowing", "lending_limit": "lending"}
OBJECT_TYPES = {Organisation: "organisation", Tenant: "tenant", VirtualCluster: "virtual_cluster"}


def locked(kind: type[NodeT], pk: int, *, version: int) -> NodeT:
    """The row under lock; `Conflict` if it has another version: says who changed it and when."""
    row = kind._default_manager.select_for_update(no_key=True).get(pk=pk)
    if row.version != version:
        raise Conflict(stale(row, version))
    return row


def stale(row: TreeNode, version: int) -> str:
    """The message for a person who edited an earlier version."""
    return (
        f"{row.changed_by or 'the platform'} changed {row} at {row.changed_at:%Y-%m-%d %H:%M:%S} UTC: it has version "
        f"{row.version}; this edit is of version {version}, and nothing was stored. Load it again and repeat the edit"
    )


def touch(row: TreeNode, *, actor: str) -> None:
    """Store the row with its next version and who changed it."""
    row.version, row.changed_by = row.version + 1, actor
    row.changed_at = DatabaseNow()
    row.save()
    row.refresh_from_db()


def edit_virtual_cluster(
    *, user: User, node: VirtualCluster, version: int, changes: Mapping[str, Any]
) -> VirtualCluster:
    """Change weight and quotas, or move quota to another virtual cluster of the tenant. In a transaction."""
    lock_pools([node.pool_id])
    move = changes.get("move")
    other = None if move is None else _target(node, move["to"])
    # Both by their id, as appliers lock them.
    rows = VirtualCluster.objects.select_for_update(no_key=True).order_by("pk")
    list(rows.filter(pk__in=[node.pk] if other is None else [node.pk, other.pk]))
    vc = locked(VirtualCluster, node.pk, version=version)
    before = quotas_as_data(vc.quotas.all())
    was = {"weight": vc.weight, "quotas": before}
    vc.weight = weight_of(changes, vc)
    for quota in changed_quotas(vc, changes.get("quotas", ()), may_raise=user.is_operator):
        quota.save()
    if other is not None and move is not None:
        _move_quota(vc, other, move["gpu_type"], move["gpus"])
        moved = {"moved": {"from": vc.name, **move}}
        touch(other, actor=user.username)
        audit("change", "virtual_cluster", other.name, actor=user.username, after=moved)
    touch(vc, actor=user.username)
    now = {"weight": vc.weight, "quotas": quotas_as_data(vc.quotas.all())}
    audit("change", "virtual_cluster", vc.name, actor=user.username, before=was, after=now)
    wake_pool(vc.pool_id)
    return vc


def edit_group(*, user: User, node: GroupT, version: int, changes: Mapping[str, Any]) -> GroupT:
    """Change what only operators may of an organisation or a tenant: what is above it, weight, quotas. In a
    transaction."""
    above = "parent" if isinstance(node, Organisation) else "organisation"
    if not user.is_operator:
        raise _operators_only([name for name in (above, "weight", "quotas") if name in changes])
    organisations = {}
    if above in changes:
        organisations = {one.name: one for one in Organisation.objects.select_for_update(no_key=True).order_by("pk")}
    pools = lock_pools(_pool_ids(changes.get("quotas", ())))
    group = locked(type(node), node.pk, version=version)
    was = _group_as_data(group)
    if above in changes:
        name = changes[above]
        if name is not None and name not in organisations:
            raise Invalid.field(above, f"there is no organisation {name!r}")
        parent = None if name is None else organisations[name]
        if isinstance(group, Organisation):
            _require_tree(group, parent, {one.pk: one for one in organisations.values()})
        setattr(group, above, parent)
    group.weight = weight_of(changes, group)
    for quota in changed_common_quotas(group, pools.values(), changes.get("quotas", ())):
        quota.save()
    touch(group, actor=user.username)
    kind = OBJECT_TYPES[type(group)]
    audit("change", kind, group, actor=user.username, before=was, after=_group_as_data(group))
    for pool_id in pools_below(group):
        wake_pool(pool_id)
    return group


def create_organisation(*, user: User, name: str, parent: str | None, weight: float) -> Organisation:
    """A new organisation without anything below it. In a transaction."""
    row = Organisation(name=name, parent=organisation_named("parent", parent), weight=weight, changed_by=user.username)
    weight_of({"weight": weight}, row)
    require_valid(row)
    row.save(force_insert=True)
    row.refresh_from_db()
    after = {"name": name, "parent": parent, "weight": weight}
    audit("create", "organisation", name, actor=user.username, after=after)
    return row


def delete_organisation(*, user: User, organisation: Organisation) -> None:
    """Delete an organisation that has nothing below it. In a transaction."""
    row = Organisation.objects.select_for_update().get(pk=organisation.pk)
    tenants, below = row.tenants.count(), row.organisations.count()
    if tenants or below:
        raise Conflict(
            f"{tenants} tenants and {below} organisations are below {row.name}: move them to another organisation first"
        )
    audit("delete", "organisation", row.name, actor=user.username, before=_group_as_data(row))
    row.delete()


def organisation_named(field: str, name: str | None) -> Organisation | None:
    """The organisation of this name; None for None."""
    found = None if name is None else Organisation.objects.filter(name=name).first()
    if name is not None and found is None:
        raise Invalid.field(field, f"there is no organisation {name!r}")
    return found


def lock_pools(ids: Iterable[int]) -> dict[int, Pool]:
    """The pools, locked: of two edits of promises of one pool each must see the other's."""
    rows = Pool.objects.select_for_update(no_key=True).filter(pk__in=list(ids)).order_by("pk")
    return {pool.pk: pool for pool in rows}


def quotas_as_data(rows: Iterable[Limits]) -> dict[str, list[int | None]]:
    """Nominal share, borrowing limit and lending limit by GPU type, for the audit log."""
    return {row.gpu_type: [row.gpus, row.borrowing, row.lending] for row in rows}


def require_no_cycle(organisation: Organisation, parent: Organisation | None) -> None:
    """Refuse a parent that is the organisation itself or below it (`Invalid`); locks all organisations."""
    rows = {one.pk: one for one in Organisation.objects.select_for_update(no_key=True).order_by("pk")}
    _require_tree(organisation, parent, rows)


def _require_tree(organisation: Organisation, parent: Organisation | None, rows: Mapping[int, Organisation]) -> None:
    above: int | None = None if parent is None else parent.pk
    while above is not None:
        if above == organisation.pk:
            raise Invalid.field("parent", f"{parent} is {organisation} itself or below it; name another organisation")
        above = rows[above].parent_id


def weight_of(changes: Mapping[str, Any], row: TreeNode) -> float:
    """The weight that the row is to have; `Invalid` if it is not above 0, or too large."""
    weight = changes.get("weight", row.weight)
    if not 0 < weight <= 1e6:
        raise Invalid.field("weight", "write a number above 0 and at most 1000000")
    return float(weight)


def _operators_only(fields: Sequence[str]) -> Forbidden | Invalid:
    if not fields:
        return Forbidden("only operators may change this")
    errors = tuple(FieldError(name, "only operators may change it") for name in fields)
    return Invalid.fields(errors)


def changed_quotas(vc: VirtualCluster, rows: Sequence[Mapping[str, Any]], *, may_raise: bool = True) -> list[Quota]:
    """The quotas of the virtual cluster as the rows change them, to be stored; `Invalid` names each wrong field."""
    require_types_once(rows, ("gpu_type",))
    stored = {one.gpu_type: one for one in vc.quotas.all()} if vc.pk else {}
    changed, problems = [], []
    for index, row in enumerate(rows):
        kind, at = row["gpu_type"], f"quotas.{index}"
        quota = stored.get(kind) or Quota(vc=vc, gpu_type=kind, gpus=0)
        gpus, borrowing = row.get("gpus", quota.gpus), row.get("borrowing_limit", quota.borrowing)
        if not may_raise and gpus > quota.gpus:
            _refuse_raise(f"{at}.gpus", f"the quota of {vc.name}")
        if not may_raise and quota.borrowing is not None and (borrowing is None or borrowing > quota.borrowing):
            _refuse_raise(f"{at}.borrowing_limit", f"the borrowing limit of {vc.name}")
        _fill(quota, row, at)
        if problem := quota_problem(vc=vc, gpu_type=kind, gpus=gpus):
            problems.append(FieldError(f"{at}.gpus", problem))
        changed.append(quota)
    if problems:
        raise Invalid.fields(problems)
    return changed


def _refuse_raise(field: str, what: str) -> None:
    raise Invalid.field(field, f"only operators may raise {what}")


def _move_quota(vc: VirtualCluster, other: VirtualCluster, kind: str, gpus: int) -> None:
    if problem := cells_problem(vc):
        raise Invalid.field("move", problem)
    source = vc.quotas.filter(gpu_type=kind).first()
    has = source.gpus if source else 0
    if source is None or gpus > has:
        raise Invalid.field("move.gpus", f"{vc.name} has a quota of {has} {kind}: at most {has} can be moved")
    target = other.quotas.filter(gpu_type=kind).first() or Quota(vc=other, gpu_type=kind, gpus=0)
    source.gpus, target.gpus = has - gpus, target.gpus + gpus
    source.save()
    target.save()


def _target(vc: VirtualCluster, name: str) -> VirtualCluster:
    found = VirtualCluster.objects.filter(tenant=vc.tenant_id, name=name, closed_at__isnull=True).first()
    if found is None or found.pk == vc.pk:
        raise Invalid.field("move.to", f"your tenant has no other virtual cluster {name!r}")
    if found.pool_id != vc.pool_id:
        raise Invalid.field("move.to", f"{name} is in another pool than {vc.name}")
    return found


def changed_common_quotas(
    group: Organisation | Tenant, pools: Iterable[Pool], rows: Sequence[Mapping[str, Any]]
) -> list[CommonQuota]:
    """The quotas of the group itself as the rows change them, to be stored; `Invalid` names each wrong field."""
    require_types_once(rows, ("pool", "gpu_type"))
    owner = {"tenant": group} if isinstance(group, Tenant) else {"organisation": group}
    stored = {(one.pool_id, one.gpu_type): one for one in group.quotas.all()} if group.pk else {}
    by_name = {pool.name: pool for pool in pools}
    changed, problems = [], []
    for index, row in enumerate(rows):
        at, pool = f"quotas.{index}", by_name.get(row["pool"])
        if pool is None:
            raise Invalid.field(f"{at}.pool", f"there is no pool {row['pool']!r}")
        kind = row["gpu_type"]
        quota = stored.get((pool.pk, kind)) or CommonQuota(**owner, pool=pool, gpu_type=kind, gpus=0)
        _fill(quota, row, at)
        if problem := common_quota_problem(group, pool, gpu_type=kind, gpus=quota.gpus):
            problems.append(FieldError(f"{at}.gpus", problem))
        changed.append(quota)
    if problems:
        raise Invalid.fields(problems)
    return changed


def _fill(quota: Limits, row: Mapping[str, Any], at: str) -> None:
    for name, column in {"gpus": "gpus", **LIMITS}.items():
        if name in row:
            if row[name] is not None and row[name] < 0:
                raise Invalid.field(f"{at}.{name}", "it cannot be negative")
            setattr(quota, column, row[name])


def require_types_once(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """Refuse two quotas of one GPU type (in one pool, if `keys` say so)."""
    seen = set()
    for index, row in enumerate(rows):
        key = tuple(row[name] for name in keys)
        if key in seen:
            raise Invalid.field(f"quotas.{index}.gpu_type", f"{' '.join(key)} is named twice")
        seen.add(key)


def _pool_ids(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    return list(Pool.objects.filter(name__in=[row["pool"] for row in rows]).values_list("pk", flat=True))


def pools_below(group: Organisation | Tenant) -> list[int]:
    """The pools with virtual clusters that may be below; of an organisation all pools with any."""
    rows = VirtualCluster.objects.filter(closed_at__isnull=True)
    if isinstance(group, Tenant):
        rows = rows.filter(tenant=group)
    return sorted(set(rows.values_list("pool_id", flat=True)))


def _group_as_data(group: Organisation | Tenant) -> dict[str, Any]:
    above = group.parent if isinstance(group, Organisation) else group.organisation
    quotas = [
        {"pool": one.pool.name, "gpu_type": one.gpu_type, "limits": [one.gpus, one.borrowing, one.lending]}
        for one in group.quotas.select_related("pool").order_by("pool", "gpu_type")
    ]
    return {"weight": group.weight, "above": str(above) if above else None, "quotas": quotas}


def edit_tenant(*, user: User, node: Tenant, version: int, changes: Mapping[str, Any]) -> Tenant:
    """Change a tenant: what `edit_group` may of it, and its caps, which managers may change too. In a transaction."""
    rest = {name: value for name, value in changes.items() if name != "caps"}
    if rest or not changes:
        tenant = edit_group(user=user, node=node, version=version, changes=rest)
    else:
        tenant = locked(Tenant, node.pk, version=version)
        touch(tenant, actor=user.username)
    if "caps" in changes:
        set_caps(user=user, tenant=tenant, rows=changes["caps"])
    return tenant


def create_tenant_below(*, user: User, name: str, organisation: str | None, weight: float) -> Tenant:
    """A new tenant of an organisation. In a transaction."""
    above = organisation_named("organisation", organisation)
    row = create_tenant(name=name, weight=weight_of({"weight": weight}, Tenant()), actor=user.username)
    row.organisation = above
    row.save(update_fields=["organisation"])
    return row


def create_cluster(
    *, user: User, name: str, tenant: str, pool: str, weight: float, quotas: Sequence[Mapping[str, Any]] = ()
) -> VirtualCluster:
    """A new virtual cluster with its quotas. In a transaction."""
    owner, place = Tenant.objects.filter(name=tenant).first(), Pool.objects.filter(name=pool).first()
    if owner is None:
        raise Invalid.field("tenant", f"there is no tenant {tenant!r}")
    if place is None:
        raise Invalid.field("pool", f"there is no pool {pool!r}")
    lock_pools([place.pk])
    row = create_virtual_cluster(tenant=owner, pool=place, name=name, actor=user.username)
    row.weight = weight_of({"weight": weight}, row)
    row.save(update_fields=["weight"])
    for quota in changed_quotas(row, quotas):
        quota.save()
    wake_pool(place.pk)
    return row
