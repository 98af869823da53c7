"""The caller and their tokens as JSON."""

from __future__ import annotations

from muster.accounts.models import ApiToken, User
from muster.api.render.jobs import Json
from muster.api.render.moments import moment
from muster.tenants.models import Membership
from muster.tenants.selectors import default_virtual_cluster, virtual_clusters_of


def me(user: User) -> Json:
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


def token(row: ApiToken) -> Json:
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
