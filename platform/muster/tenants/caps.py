"""Caps: limits on one user of a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from muster.accounts.models import User
from muster.common.errors import Invalid
from muster.events.services import audit, wake_pool
from muster.tenants.models import Cap, Membership, Tenant, VirtualCluster
from muster.tenants.roles import Role
from muster_client.answers import tree as answers


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits that hold for one user; None: no limit."""

    gpus: int | None = None
    jobs: int | None = None
    gpu_hours_month: float | None = None
    time_s: float | None = None
    job_gpus: int | None = None


NAMES = tuple(field.name for field in fields(Caps))


def caps_of(tenant_id: int, user_id: int) -> Caps:
    """The limits that hold for a user in a tenant."""
    rows = list(Cap.objects.filter(tenant_id=tenant_id))
    if not rows:
        return Caps()
    role = Membership.objects.filter(tenant_id=tenant_id, user_id=user_id).values_list("role", flat=True).first()
    return effective(rows, user_id, role or "")


def effective(rows: Iterable[Cap], user_id: int, role: str) -> Caps:
    """Of each limit what the most specific of these caps of one tenant says: the user's, the role's, the members'."""
    mine = sorted(
        (row for row in rows if _specificity(row, user_id, role)), key=lambda row: _specificity(row, user_id, role)
    )
    return Caps(**{name: getattr(row, name) for row in mine for name in NAMES if getattr(row, name) is not None})


def set_caps(*, user: User, tenant: Tenant, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the caps of the tenant, whose row is locked.

    Raises:
        Invalid: a cap is wrong, or the user is no operator and would raise a limit on themselves.
    """
    role = Membership.objects.filter(tenant=tenant, user=user).values_list("role", flat=True).first() or ""
    before = list(tenant.caps.select_related("user"))
    caps = caps_from(tenant, rows)
    if not user.is_operator:
        was, now = effective(before, user.pk, role), effective(caps, user.pk, role)
        for name in NAMES:
            if _is_raised(getattr(was, name), getattr(now, name)):
                raise Invalid.field(
                    f"caps.{_source(caps, user.pk, role, name)}{name}", "you may not raise your own limit"
                )
    tenant.caps.all().delete()
    Cap.objects.bulk_create(caps)
    audit(
        "set_caps",
        "tenant",
        tenant.name,
        actor=user.username,
        before={"caps": [cap_as_data(cap) for cap in before]},
        after={"caps": [cap_as_data(cap) for cap in caps]},
    )
    for pool_id in set(VirtualCluster.objects.filter(tenant=tenant).values_list("pool_id", flat=True)):
        wake_pool(pool_id)


def caps_from(tenant: Tenant, rows: Sequence[Mapping[str, Any]]) -> list[Cap]:
    """The caps that these rows describe, not stored; `Invalid` if a cap is wrong, or two are of the same user or
    role."""
    members = {one.user.username: one.user for one in tenant.memberships.select_related("user")}
    caps = [_cap(tenant, members, row, f"caps.{index}") for index, row in enumerate(rows)]
    for index, cap in enumerate(caps):
        if any((cap.user_id, cap.role) == (other.user_id, other.role) for other in caps[:index]):
            raise Invalid.field(f"caps.{index}", f"there are two caps of {cap.user or cap.role or 'each member'}")
    return caps


def cap_as_data(cap: Cap) -> answers.Cap:
    """The cap as JSON."""
    return {
        "user": cap.user.username if cap.user else None,
        "role": cap.role or None,
        "gpus": cap.gpus,
        "jobs": cap.jobs,
        "gpu_hours_month": cap.gpu_hours_month,
        "time_s": cap.time_s,
        "job_gpus": cap.job_gpus,
    }


def _specificity(row: Cap, user_id: int, role: str) -> int:
    """3 for the user's cap, 2 for the role's, 1 for the members', 0 for another one."""
    if row.user_id is not None:
        return 3 * (row.user_id == user_id)
    if row.role:
        return 2 * (row.role == role)
    return 1


def _is_raised(was: float | None, now: float | None) -> bool:
    return was is not None and (now is None or now > was)


def _source(caps: Sequence[Cap], user_id: int, role: str, name: str) -> str:
    """The index of the cap that sets the limit, with a dot; empty if none does."""
    setting = [
        (_specificity(cap, user_id, role), index)
        for index, cap in enumerate(caps)
        if _specificity(cap, user_id, role) and getattr(cap, name) is not None
    ]
    return f"{max(setting)[1]}." if setting else ""


def _cap(tenant: Tenant, members: Mapping[str, User], row: Mapping[str, Any], at: str) -> Cap:
    name, role = row.get("user"), row.get("role")
    if name is not None and role is not None:
        raise Invalid.field(f"{at}.role", "a cap is of a user or of a role: leave one of them out")
    if name is not None and name not in members:
        raise Invalid.field(f"{at}.user", f"{name} is no member of {tenant.name}")
    cap = Cap(tenant=tenant, user=None if name is None else members[name], role=Role(role) if role else "")
    for limit in NAMES:
        value = row.get(limit)
        if value is not None and value < (1 if limit == "time_s" else 0):
            raise Invalid.field(f"{at}.{limit}", "write 1 or more" if limit == "time_s" else "it cannot be negative")
        setattr(cap, limit, value)
    return cap
