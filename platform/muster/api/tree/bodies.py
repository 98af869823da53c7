"""Bodies of requests about the tree of tenants and their registries."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from muster.api.fields import Choice, Flag, Integer, Number, Shape, Text, values
from muster.tenants.registries import MAX_PASSWORD_CHARS, MAX_USERNAME_CHARS
from muster.tenants.roles import Role

MAX_GPUS = 2**31 - 1
_PROMISED = "The number of GPUs that it is promised."
_BORROWING = "The number of GPUs that it may borrow; null: no limit."
_LENDING = "The number of its GPUs that others may borrow; null: all."
_SHARES = "Its shares among its siblings."


class Change(Shape):
    """Options of a change."""

    dry_run = Flag(
        required=False,
        default=False,
        help_text="Only check the change: the answer is the same, and nothing is stored.",
    )


class Closing(Shape):
    """Options of deleting a virtual cluster."""

    merge_into = Text(
        required=False,
        max_length=63,
        help_text="The virtual cluster of the same tenant and pool that gets the waiting jobs.",
    )


class NewLimits(Shape):
    """New limits for one GPU type; limits that are left out stay."""

    gpu_type = Text(max_length=63, help_text="The GPU type.")
    gpus = Integer(required=False, max_value=MAX_GPUS, help_text=_PROMISED)
    borrowing_limit = Integer(required=False, allow_null=True, max_value=MAX_GPUS, help_text=_BORROWING)
    lending_limit = Integer(required=False, allow_null=True, max_value=MAX_GPUS, help_text=_LENDING)


class NewCommonLimits(NewLimits):
    """New limits for one GPU type in one pool; limits that are left out stay."""

    pool = Text(max_length=63, help_text="The name of the pool.")


class NewPart(Shape):
    """Fields that all new parts of the tree have."""

    name = Text(max_length=63, help_text="The name.")
    weight = Number(required=False, default=1.0, help_text=_SHARES)


class PartChanges(Shape):
    """Changes that all parts of the tree share."""

    version = Integer(help_text="The version that the change is based on.")
    weight = Number(required=False, help_text=_SHARES)


class GroupChanges(PartChanges):
    """Changes of organisations and tenants."""

    quotas = NewCommonLimits(many=True, required=False, help_text="The limits to set; others stay as they are.")


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
    """Changes of a virtual cluster. Managers may set the weight, move quota and lower limits."""

    quotas = NewLimits(many=True, required=False, help_text="The limits to set; other GPU types stay as they are.")
    move = Move(required=False, help_text="Quota to move to another virtual cluster.")


def _cap(field: type[serializers.Field], text: str, **options: Any) -> Any:  # type: ignore[type-arg]
    return field(allow_null=True, help_text=f"{text}; null: no limit by this cap.", **options)


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


class NewTenant(NewPart):
    """A tenant to be made."""

    organisation = Text(required=False, default=None, allow_null=True, max_length=63, help_text="Its organisation.")


class TenantChanges(GroupChanges):
    """Changes of a tenant. Managers may set caps, and may not raise a limit on themselves."""

    organisation = Text(required=False, allow_null=True, max_length=63, help_text="Its organisation; null: none.")
    caps = NewCap(many=True, required=False, help_text="The caps that replace all present ones.")


class NewOrganisation(NewPart):
    """An organisation to be made."""

    parent = Text(required=False, default=None, allow_null=True, max_length=63, help_text="The organisation above it.")  # type: ignore[assignment]


class OrganisationChanges(GroupChanges):
    """Changes of an organisation."""

    parent = Text(required=False, allow_null=True, max_length=63, help_text="The organisation above it; null: none.")  # type: ignore[assignment]


class NewRegistry(Shape):
    """Credentials to be stored."""

    tenant = Text(required=False, max_length=63, help_text="Default: the tenant that you manage.")
    registry = Text(max_length=255, help_text="As images name it: ghcr.io, docker.io or registry.example.org:5000.")
    username = Text(max_length=MAX_USERNAME_CHARS, help_text="The user name at the registry.")
    password = Text(
        max_length=MAX_PASSWORD_CHARS,
        trim_whitespace=False,
        write_only=True,
        help_text="A password or a token. No answer shows it.",
    )
