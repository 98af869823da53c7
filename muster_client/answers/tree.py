"""The tree of tenants: organisations, tenants, virtual clusters, their limits, caps and loans; volumes and "
"registries."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from muster_client.answers.terms import Moment, Role


class Registry(TypedDict):
    """Stored credentials, without the password."""

    id: Annotated[int, "The id of the credentials."]
    tenant: Annotated[str, "The name of the tenant whose jobs use the credentials."]
    registry: Annotated[str, "The registry, as images name it."]
    username: Annotated[str, "The user name at the registry."]
    changed_at: Annotated[Moment, "When the credentials were last changed."]
    changed_by: Annotated[str, "The user name of the person who last changed them."]


class RegistryList(TypedDict):
    """The credentials of the tenants that the caller manages."""

    results: Annotated[list[Registry], "The credentials."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Limits(TypedDict):
    """GPUs of one type that a part of the tree is promised, and its limits."""

    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "The number of GPUs that it is promised."]
    borrowing_limit: Annotated[int | None, "The number of GPUs that it may borrow; null: no limit."]
    lending_limit: Annotated[int | None, "The number of its GPUs that others may borrow; null: all."]


class Quota(Limits):
    """GPUs of one type that a virtual cluster is promised, holds, lends and borrows."""

    used: Annotated[int, "The number of GPUs that the jobs of the virtual cluster hold, without screening runs."]
    borrowed: Annotated[int, "Of these, the number of GPUs that it has borrowed."]
    lent: Annotated[int, "The number of its GPUs that others have borrowed."]
    opportunistic: Annotated[
        int, "Of `used`, the number of GPUs outside of its cells; they fill no quota. 0 in pools without cells."
    ]


class CommonQuota(Limits):
    """GPUs of one type in a pool that an organisation or a tenant is promised, shared by all below it."""

    pool: Annotated[str, "The name of the pool."]


class Part(TypedDict):
    """Fields that all parts of the tree have."""

    id: Annotated[int, "The id."]
    name: Annotated[str, "The name."]
    weight: Annotated[float, "Its shares among its siblings, for policies that divide a pool."]
    version: Annotated[int, "The version, which grows with each change; a change must name it."]
    changed_at: Annotated[Moment, "When it was changed last."]
    changed_by: Annotated[str, "Who changed it last; empty: unchanged since it was made."]
    may: Annotated[
        Literal["operate", "manage", "read"],
        "The caller's rights: `operate` for operators, `manage` for managers of the tenant, or `read`.",
    ]


class Loan(TypedDict):
    """GPUs that a virtual cluster has borrowed, or has lent."""

    direction: Annotated[Literal["lent", "borrowed"], "Borrowed or lent, from the virtual cluster's view."]
    other: Annotated[str, "The borrower or the lender; `another tenant` where the caller may not see its name."]
    gpu_type: Annotated[str, "The GPU type."]
    gpus: Annotated[int, "The number of GPUs."]
    since: Annotated[Moment, "The beginning of the loan."]
    until: Annotated[Moment | None, "The end of the loan; null: it is open."]


class VirtualCluster(Part):
    """A tenant's share of a pool."""

    tenant: Annotated[str, "The name of the tenant."]
    tenant_id: Annotated[int, "The id of the tenant."]
    organisation: Annotated[str | None, "The name of the tenant's organisation; null: none."]
    pool: Annotated[str, "The name of the pool."]
    quotas: Annotated[list[Quota], "The quotas, by GPU type."]
    waiting: Annotated[int, "The number of queued jobs."]
    active: Annotated[int, "The number of active jobs."]


class VirtualClusterDetail(VirtualCluster):
    """A tenant's share of a pool, with its loans."""

    loans: Annotated[list[Loan], "Open loans first, then those that ended in the last 30 days, newest first."]


class VirtualClusterList(TypedDict):
    """The virtual clusters that the caller may see, by name."""

    results: Annotated[list[VirtualCluster], "The virtual clusters."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Cap(TypedDict):
    """Limits on one user, on each user with a role, or on each member. For each limit the most specific cap counts."""

    user: Annotated[str | None, "The name of the user; null: no single user."]
    role: Annotated[Role | None, "Null, as `user`: each member."]
    gpus: Annotated[int | None, "GPUs at once; null: no limit by this cap."]
    jobs: Annotated[int | None, "Jobs at once; null: no limit by this cap."]
    gpu_hours_month: Annotated[float | None, "GPU-hours a calendar month (UTC); null: no limit by this cap."]
    time_s: Annotated[float | None, "The longest `time` of a job, s; null: no limit by this cap."]
    job_gpus: Annotated[int | None, "GPUs of one job; null: no limit by this cap."]


class OwnCluster(TypedDict):
    """A virtual cluster of a tenant."""

    id: Annotated[int, "The id."]
    name: Annotated[str, "The name."]
    pool: Annotated[str, "The name of the pool."]


class Member(TypedDict):
    """A member of a tenant."""

    username: Annotated[str, "The name of the user."]
    role: Annotated[Role, "The role in the tenant."]


class Tenant(Part):
    """A group of people that shares virtual clusters."""

    organisation: Annotated[str | None, "The name of its organisation; null: none."]
    quotas: Annotated[list[CommonQuota], "GPUs promised to it, for all its virtual clusters."]
    vcs: Annotated[list[OwnCluster], "Its virtual clusters, by name."]
    members: Annotated[list[Member], "Its members, by name."]
    caps: Annotated[list[Cap], "The limits on its members."]


class TenantList(TypedDict):
    """The tenants that the caller may see, by name."""

    results: Annotated[list[Tenant], "The tenants."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Organisation(Part):
    """A group of tenants and organisations that lend to each other first."""

    parent: Annotated[str | None, "The name of the organisation above it; null: none."]
    quotas: Annotated[list[CommonQuota], "GPUs promised to it, for all below it."]
    organisations: Annotated[list[str], "The names of the organisations below it."]
    tenants: Annotated[list[str], "The names of its tenants, as far as the caller may see them."]


class OrganisationList(TypedDict):
    """The organisations that the caller may see, by name."""

    results: Annotated[list[Organisation], "The organisations."]
    next: Annotated[str | None, "Always null: the list has one page."]


class Volume(TypedDict):
    """A volume of a tenant."""

    name: Annotated[str, "The name that `mounts` of a spec uses."]
    tenant: Annotated[str, "The name of the tenant that the volume belongs to."]
    vc: Annotated[str | None, "Null: every virtual cluster of the tenant."]
    mode: Annotated[Literal["ro", "rw"], "The access that jobs may have at most."]


class VolumeList(TypedDict):
    """The volumes of the caller's tenants."""

    results: Annotated[list[Volume], "The volumes."]
    next: Annotated[str | None, "Always null: the list has one page."]
