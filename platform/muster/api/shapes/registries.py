"""What tenants sign in with at registries of images: never the password."""

from __future__ import annotations

from muster.api.shapes.common import Integer, Moment, Shape, Text
from muster.tenants.registries import MAX_PASSWORD_CHARS, MAX_USERNAME_CHARS


class NewRegistry(Shape):
    """Credentials to be stored."""

    tenant = Text(required=False, max_length=63, help_text="Default: the tenant that you manage.")
    registry = Text(max_length=255, help_text="As images name it: ghcr.io, docker.io or registry.example.org:5000.")
    username = Text(max_length=MAX_USERNAME_CHARS, help_text="The user name at the registry.")
    password = Text(
        max_length=MAX_PASSWORD_CHARS,
        trim_whitespace=False,
        write_only=True,
        help_text="A password or a token. It is in no answer.",
    )


class Registry(Shape):
    """Stored credentials, without the password."""

    id = Integer(help_text="The id of the credentials.")
    tenant = Text(help_text="The name of the tenant whose jobs use the credentials.")
    registry = Text(help_text="The registry, as images name it.")
    username = Text(help_text="The user name at the registry.")
    changed_at = Moment(help_text="When the credentials were last changed.")
    changed_by = Text(help_text="The user name of the person who last changed them.")


class RegistryList(Shape):
    """The credentials of the tenants that the caller manages."""

    results = Registry(many=True, help_text="The credentials.")
    next = Text(allow_null=True, help_text="Always null: the list comes whole.")
