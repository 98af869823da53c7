"""What requests about registries say."""

from muster.api.fields import Shape, Text
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
