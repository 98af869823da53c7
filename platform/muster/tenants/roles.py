"""The roles that a user can have in a tenant."""

from enum import StrEnum


class Role(StrEnum):
    """The role of a member of a tenant; operators of the cluster need no membership."""

    MEMBER = "member"
    MANAGER = "manager"
