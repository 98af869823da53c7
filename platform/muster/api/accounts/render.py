"""The caller, their tokens and their sessions as JSON."""

from __future__ import annotations

from muster.accounts.models import ApiToken, User
from muster.accounts.models import Session as SessionRow
from muster.common.clock import moment
from muster.tenants.models import Membership
from muster.tenants.selectors import default_virtual_cluster, virtual_clusters_of
from muster_client.answers.accounts import Me, Session, Token


def me(user: User) -> Me:
    """The user, their tenants and what they may submit to."""
    default = default_virtual_cluster(user)
    memberships = Membership.objects.filter(user=user).order_by("tenant__name").values_list("tenant__name", "role")
    return {
        "username": user.username,
        "email": user.email,
        "is_operator": user.is_operator,
        "tenants": [{"name": name, "role": role} for name, role in memberships],
        "vcs": list(virtual_clusters_of(user).values_list("name", flat=True)),
        "default_vc": default.name if default else None,
    }


def token(row: ApiToken) -> Token:
    """A token without its secret."""
    return {
        "id": row.pk,
        "name": row.name,
        "prefix": row.prefix,
        "created_at": moment(row.created_at),
        "expires_at": moment(row.expires_at),
        "last_used_at": moment(row.last_used_at),
        "scopes": row.scopes,
        "survives_password_change": row.survives_password_change,
    }


def session(row: SessionRow, *, current: bool) -> Session:
    """A session without its key."""
    return {
        "id": row.pk,
        "created_at": moment(row.created_at),
        "last_used_at": moment(row.last_used_at),
        "address": row.address,
        "user_agent": row.user_agent,
        "current": current,
    }
