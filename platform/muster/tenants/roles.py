"""The roles that a user can have in a tenant."""

from enum import StrEnum


class Role(StrEnum):
    """What a member of a tenant may do; operators of the cluster need no membership."""

    MEMBER = "member"
    MANAGER = "manager"
