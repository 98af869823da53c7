"""Shapes of the tree of tenants: organisations, tenants, virtual clusters, their limits, caps and loans."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from muster.api.shapes.common import Choice, Flag, Integer, Moment, Number, Shape, Text, values
from muster.tenants.roles import Role

MAX_GPUS = 2**31 - 1
_MAY = [("operate", "operate"), ("manage", "manage"), ("read", "read")]
_PROMISED = "The number of GPUs that it is promised."
_BORROWING = "How many GPUs more it may borrow; null: no limit."
_LENDING = "How many of its GPUs others may borrow; null: all."
_SHARES = "Its shares among its siblings."


class Change(Shape):
    """How a change is made."""

    dry_run = Flag(
        required=False,
        default=False,
        help_text="Whether only to check the change: the answer is the same, and nothing is stored.",
    )


class Closing(Shape):
    """How a virtual cluster is deleted."""

    merge_into = Text(
        required=False,
        max_length=63,
        help_text="The virtual cluster of the same tenant and pool that gets the waiting jobs.",
    )


class Limits(Shape):
    """GPUs of one type that a part of the tree is promised, and its limits."""

    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text=_PROMISED)
    borrowing_limit = Integer(allow_null=True, help_text=_BORROWING)
    lending_limit = Integer(allow_null=True, help_text=_LENDING)


class Quota(Limits):
    """How many GPUs of one type a virtual cluster is promised, and what it holds, lends and borrows."""

    used = Integer(help_text="The number of GPUs that the jobs of the virtual cluster hold, without screening runs.")
    borrowed = Integer(help_text="Of these, the number of GPUs that it has borrowed.")
    lent = Integer(help_text="The number of its GPUs that others have borrowed.")
    opportunistic = Integer(
        help_text="Of `used`, the number of GPUs outside of its cells; they fill no quota. 0 in pools without cells."
    )


class CommonQuota(Limits):
    """GPUs of one type in a pool that an organisation or a tenant is promised itself, for all below it."""

    pool = Text(help_text="The name of the pool.")


class NewLimits(Shape):
    """Limits to be set of one GPU type; what is left out stays."""

    gpu_type = Text(max_length=63, help_text="The GPU type.")
    gpus = Integer(required=False, max_value=MAX_GPUS, help_text=_PROMISED)
    borrowing_limit = Integer(required=False, allow_null=True, max_value=MAX_GPUS, help_text=_BORROWING)
    lending_limit = Integer(required=False, allow_null=True, max_value=MAX_GPUS, help_text=_LENDING)


class NewCommonLimits(NewLimits):
    """Limits to be set of one GPU type in one pool; what is left out stays."""

    pool = Text(max_length=63, help_text="The name of the pool.")


class Part(Shape):
    """What all parts of the tree have."""

    id = Integer(help_text="The id.")
    name = Text(help_text="The name.")
    weight = Number(help_text="Its shares among its siblings, for policies that divide a pool.")
    version = Integer(help_text="It grows with each change, and a change has to name it.")
    changed_at = Moment(help_text="When it was changed last.")
    changed_by = Text(allow_blank=True, help_text="Who changed it last; empty: it is as it was made.")
    may = Choice(
        choices=_MAY,
        help_text="What the caller may do: `operate` for operators, `manage` for managers of the tenant, or `read`.",
    )


class NewPart(Shape):
    """What all new parts of the tree have."""

    name = Text(max_length=63, help_text="The name.")
    weight = Number(required=False, default=1.0, help_text=_SHARES)


class PartChanges(Shape):
    """What can be changed of all parts of the tree."""

    version = Integer(help_text="The version that is changed.")
    weight = Number(required=False, help_text=_SHARES)


class GroupChanges(PartChanges):
    """What can be changed of organisations and tenants."""

    quotas = NewCommonLimits(many=True, required=False, help_text="The limits to set; others stay as they are.")


class Loan(Shape):
    """GPUs that a virtual cluster has borrowed, or others have borrowed of it."""

    direction = Choice(
        choices=[("lent", "lent"), ("borrowed", "borrowed")], help_text="As the virtual cluster sees it."
    )
    other = Text(help_text="The borrower or the lender; `another tenant` where the caller may not see its name.")
    gpu_type = Text(help_text="The GPU type.")
    gpus = Integer(help_text="The number of GPUs.")
    since = Moment(help_text="Since when.")
    until = Moment(allow_null=True, help_text="Until when; null: it still is.")


class VirtualCluster(Part):
    """A tenant's share of a pool."""

    tenant = Text(help_text="The name of the tenant.")
    tenant_id = Integer(help_text="The id of the tenant.")
    organisation = Text(allow_null=True, help_text="The name of the tenant's organisation; null: none.")
    pool = Text(help_text="The name of the pool.")
    quotas = Quota(many=True, help_text="The quotas, by GPU type.")
    waiting = Integer(help_text="The number of queued jobs.")
    active = Integer(help_text="The number of active jobs.")


class VirtualClusterDetail(VirtualCluster):
    """A tenant's share of a pool, with its loans."""

    loans = Loan(many=True, help_text="Open loans first, then those that ended in the last 30 days, newest first.")


class VirtualClusterList(Shape):
    """The virtual clusters that the caller may see, by name."""

    results = VirtualCluster(many=True, help_text="The virtual clusters.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NewVirtualCluster(NewPart):
    """A virtual cluster to be made."""

    tenant = Text(max_length=63, help_text="The name of the tenant.")
    pool = Text(max_length=63, help_text="The name of the pool.")
    quotas = NewLimits(many=True, required=False, help_text="The quotas, by GPU type.")


class Move(Shape):
    """Quota that goes to another virtual cluster of the same tenant and pool."""

    to = Text(max_length=63, help_text="The name of the other virtual cluster.")
    gpu_type = Text(max_length=63, help_text="The GPU type.")
    gpus = Integer(min_value=1, max_value=MAX_GPUS, help_text="The number of GPUs.")


class VirtualClusterChanges(PartChanges):
    """What is changed of a virtual cluster. Managers may set the weight, move quota and lower limits."""

    quotas = NewLimits(many=True, required=False, help_text="The limits to set; other GPU types stay as they are.")
    move = Move(required=False, help_text="Quota to move to another virtual cluster.")


def _cap(field: type[serializers.Field], text: str, **options: Any) -> Any:  # type: ignore[type-arg]
    return field(allow_null=True, help_text=f"{text}; null: it says nothing.", **options)


class Cap(Shape):
    """Limits on one user, on each user with a role, or on each member. Of each limit the most specific cap counts."""

    user = Text(allow_null=True, help_text="The name of the user; null: no single user.")
    role = Choice(choices=values(Role), allow_null=True, help_text="Null, as `user`: each member.")
    gpus = _cap(Integer, "GPUs at once")
    jobs = _cap(Integer, "Jobs at once")
    gpu_hours_month = _cap(Number, "GPU-hours a calendar month (UTC)")
    time_s = _cap(Number, "The longest `time` of a job, s")
    job_gpus = _cap(Integer, "GPUs of one job")


_UNSET: dict[str, Any] = {"required": False, "default": None}


class NewCap(Shape):
    """A cap to be set; it needs `user`, `role` or neither."""

    user = Text(allow_null=True, help_text="The name of the user; null: no single user.", **_UNSET)
    role = Choice(choices=values(Role), allow_null=True, help_text="Null, as `user`: each member.", **_UNSET)
    gpus = _cap(Integer, "GPUs at once", max_value=MAX_GPUS, **_UNSET)
    jobs = _cap(Integer, "Jobs at once", max_value=MAX_GPUS, **_UNSET)
    gpu_hours_month = _cap(Number, "GPU-hours a calendar month (UTC)", **_UNSET)
    time_s = _cap(Number, "The longest `time` of a job, s", **_UNSET)
    job_gpus = _cap(Integer, "GPUs of one job", max_value=MAX_GPUS, **_UNSET)


class OwnCluster(Shape):
    """A virtual cluster of a tenant."""

    id = Integer(help_text="The id.")
    name = Text(help_text="The name.")
    pool = Text(help_text="The name of the pool.")


class Member(Shape):
    """A member of a tenant."""

    username = Text(help_text="The name of the user.")
    role = Choice(choices=values(Role), help_text="The role in the tenant.")


class Tenant(Part):
    """A group of people that shares virtual clusters."""

    organisation = Text(allow_null=True, help_text="The name of its organisation; null: none.")
    quotas = CommonQuota(many=True, help_text="GPUs of its own that all its virtual clusters may use.")
    vcs = OwnCluster(many=True, help_text="Its virtual clusters, by name.")
    members = Member(many=True, help_text="Its members, by name.")
    caps = Cap(many=True, help_text="The limits on its members.")


class TenantList(Shape):
    """The tenants that the caller may see, by name."""

    results = Tenant(many=True, help_text="The tenants.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NewTenant(NewPart):
    """A tenant to be made."""

    organisation = Text(required=False, default=None, allow_null=True, max_length=63, help_text="Its organisation.")


class TenantChanges(GroupChanges):
    """What is changed of a tenant. Managers may set caps, and may not raise a limit on themselves."""

    organisation = Text(required=False, allow_null=True, max_length=63, help_text="Its organisation; null: none.")
    caps = NewCap(many=True, required=False, help_text="The caps that replace all present ones.")


class Organisation(Part):
    """Tenants and organisations that lend each other first."""

    parent = Text(allow_null=True, help_text="The name of the organisation above it; null: none.")  # type: ignore[assignment]
    quotas = CommonQuota(many=True, help_text="GPUs of its own that all below it may use.")
    organisations = serializers.ListField(child=Text(), help_text="The names of the organisations below it.")
    tenants = serializers.ListField(
        child=Text(), help_text="The names of its tenants, as far as the caller may see them."
    )


class OrganisationList(Shape):
    """The organisations that the caller may see, by name."""

    results = Organisation(many=True, help_text="The organisations.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")


class NewOrganisation(NewPart):
    """An organisation to be made."""

    parent = Text(required=False, default=None, allow_null=True, max_length=63, help_text="What it is below.")  # type: ignore[assignment]


class OrganisationChanges(GroupChanges):
    """What is changed of an organisation."""

    parent = Text(required=False, allow_null=True, max_length=63, help_text="What it is below; null: nothing.")  # type: ignore[assignment]
