"""What tenants sign in with at registries of images: never the password."""

from __future__ import annotations

from muster.api.shapes.common import Integer, Moment, Shape, Text
from muster.tenants.registries import LONGEST_PASSWORD, LONGEST_USERNAME


class NewRegistry(Shape):
    """Credentials to be stored."""

    tenant = Text(required=False, max_length=63, help_text="Default: the one that you manage.")
    registry = Text(max_length=255, help_text="As images name it: ghcr.io, docker.io or registry.example.org:5000.")
    username = Text(max_length=LONGEST_USERNAME)
    password = Text(
        max_length=LONGEST_PASSWORD,
        trim_whitespace=False,
        write_only=True,
        help_text="A password or a token. It is in no answer.",
    )


class Registry(Shape):
    """Stored credentials, without the password."""

    id = Integer()
    tenant = Text()
    registry = Text()
    username = Text()
    changed_at = Moment()
    changed_by = Text()


class RegistryList(Shape):
    """The credentials of the tenants that the caller manages."""

    results = Registry(many=True)
    next = Text(allow_null=True)
