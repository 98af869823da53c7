"""Whose GPU-hours a user may see, and whose are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from muster.accounts.models import User
from muster.tenants.models import Membership
from muster.tenants.roles import Role


@dataclass(frozen=True, slots=True)
class Asked:
    """The names to which an answer is narrowed; empty: whatever may be seen. What is unknown finds nothing."""

    tenant: str = ""
    vc: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """A condition on a `job` in SQL, with its parameters; no condition for all jobs."""

    sql: str = ""
    parameters: tuple[object, ...] = ()


def scope_of(user: User, asked: Asked) -> Scope:
    """What the user may see of what is asked for.

    1. Operators see all.
    2. Managers of a tenant see all of it.
    3. Members see what is their own, in the tenants that they are still in.
    """
    conditions: list[str] = []
    parameters: list[object] = []
    if not user.is_operator:
        memberships = list(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
        managed = [tenant_id for tenant_id, role in memberships if role == Role.MANAGER]
        conditions.append("(job.tenant_id = ANY(%s) OR (job.owner_id = %s AND job.tenant_id = ANY(%s)))")
        parameters += [managed, user.pk, [tenant_id for tenant_id, _ in memberships]]
    for name, sql in _NARROWED.items():
        if getattr(asked, name):
            conditions.append(sql)
            parameters.append(getattr(asked, name))
    return Scope(" AND ".join(conditions), tuple(parameters))


_NARROWED = {
    "tenant": "job.tenant_id = (SELECT id FROM tenants_tenant WHERE name = %s)",
    "vc": "job.vc_id = (SELECT id FROM tenants_virtualcluster WHERE name = %s)",
    "user": "job.owner_id = (SELECT id FROM accounts_user WHERE username = %s)",
}
