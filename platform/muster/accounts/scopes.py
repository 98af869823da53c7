"""The scopes of API tokens: parts of what a user may do."""

from enum import StrEnum


class Scope(StrEnum):
    """The calls that a token may make, within the roles of its user. Each scope includes `read`."""

    READ = "read"
    """Everything that changes nothing."""
    SUBMIT = "submit"
    """The user's own jobs, uploads, shells, frameworks, webhooks and tokens."""
    MANAGE = "manage"
    """Other members' jobs and the tenant's registries, as its managers may; the user's password and sessions."""
    ADMIN = "admin"
    """Nodes, maintenance and policies, as operators may."""
