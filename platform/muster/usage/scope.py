"""The scope of a report: GPU-hours that a user may see, and those that are asked for."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q

from muster.accounts.models import User
from muster.tenants.models import Membership, Tenant
from muster.tenants.roles import Role


@dataclass(frozen=True, slots=True)
class Asked:
    """The names to which an answer is narrowed; empty: whatever may be seen. What is unknown finds nothing."""

    tenant: str = ""
    vc: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member: sees all of the tenants that they manage, and their own jobs in those that they are in."""

    user_id: int
    managed: tuple[int, ...]
    tenants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Jobs that count: those that a member may see, or with None all, as far as they are asked for."""

    member: Member | None = None
    asked: Asked = Asked()

    @property
    def sql(self) -> str:
        """The condition in SQL on a `job`, or what has its tenant, virtual cluster and owner; empty for all jobs."""
        mine = (
            ["(job.tenant_id = ANY(%(managed)s) OR (job.owner_id = %(viewer)s AND job.tenant_id = ANY(%(tenants)s)))"]
            if self.member
            else []
        )
        return " AND ".join([*mine, *(sql for name, sql in _NARROWED.items() if getattr(self.asked, name))])

    @property
    def parameters(self) -> dict[str, object]:
        """The parameters of the condition, by their names."""
        mine: dict[str, object] = {name: getattr(self.asked, name) for name in _NARROWED}
        if self.member:
            mine |= {
                "managed": list(self.member.managed),
                "viewer": self.member.user_id,
                "tenants": list(self.member.tenants),
            }
        return mine

    @property
    def of_jobs(self) -> Q:
        """The same on rows that have a `job`."""
        condition = Q()
        if self.member:
            own = Q(job__owner_id=self.member.user_id, job__tenant_id__in=self.member.tenants)
            condition = Q(job__tenant_id__in=self.member.managed) | own
        names = {"job__tenant__name": "tenant", "job__vc__name": "vc", "job__owner__username": "user"}
        wanted = {path: getattr(self.asked, name) for path, name in names.items() if getattr(self.asked, name)}
        return condition & Q(**wanted) if wanted else condition

    def whole_tenants(self) -> list[int] | None:
        """The tenants of which all is seen, as far as asked for; None: all there are. Empty for a virtual cluster or a
        user."""
        if self.asked.vc or self.asked.user:
            return []
        if not self.asked.tenant:
            return list(self.member.managed) if self.member else None
        named = Tenant.objects.filter(name=self.asked.tenant).values_list("pk", flat=True)
        return [tenant_id for tenant_id in named if self.member is None or tenant_id in self.member.managed]


def scope_of(user: User, asked: Asked) -> Scope:
    """The part of the asked scope that the user may see.

    1. Operators see all.
    2. Managers of a tenant see all of it.
    3. Members see what is their own, in the tenants that they are still in.
    """
    if user.is_operator:
        return Scope(None, asked)
    memberships = list(Membership.objects.filter(user=user).values_list("tenant_id", "role"))
    managed = tuple(tenant_id for tenant_id, role in memberships if role == Role.MANAGER)
    return Scope(Member(user.pk, managed, tuple(tenant_id for tenant_id, _ in memberships)), asked)


_NARROWED = {
    "tenant": "job.tenant_id = (SELECT id FROM tenants_tenant WHERE name = %(tenant)s)",
    "vc": "job.vc_id = (SELECT id FROM tenants_virtualcluster WHERE name = %(vc)s)",
    "user": "job.owner_id = (SELECT id FROM accounts_user WHERE username = %(user)s)",
}
