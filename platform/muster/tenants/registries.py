"""Registries of images that tenants have credentials for: a password goes in and comes out only for an agent's pull."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import QuerySet

from muster.accounts.models import User
from muster.common.errors import Forbidden, Invalid
from muster.common.models import DatabaseNow
from muster.common.rows import require_first
from muster.common.sealed import Unreadable, seal, unseal
from muster.events.services import audit
from muster.tenants.models import Membership, PrivateRegistry, RegistryCredentials, Tenant
from muster.tenants.roles import Role
from muster.tenants.selectors import is_manager, tenants_of

DOCKER_HUB = "docker.io"
MAX_USERNAME_CHARS, MAX_PASSWORD_CHARS = 200, 16_384

_OTHER_NAMES_OF_DOCKER_HUB = frozenset(
    {"index.docker.io", "registry-1.docker.io", "hub.docker.com", "registry.hub.docker.com"}
)
_HOST = re.compile(r"(?=[a-z0-9])[a-z0-9.-]{1,249}(?<![.-])(?::([1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True)
class Login:
    """An agent's credentials for one registry."""

    registry: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """A tenant's access to an image: whether its registry has to be asked each time, and the login."""

    ask: bool
    login: Login | None = None
    problem: str = ""
    """The reason why there is no login though the tenant has stored one."""


def registry_of(image: str) -> str:
    """The registry that an image is of, such as `docker.io`; as engines read it, and agents."""
    first, slash, _ = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return DOCKER_HUB
    host = first.lower()
    return DOCKER_HUB if host == "index.docker.io" else host


def access_to(*, tenant_id: int, image: str) -> Access:
    """The access of the tenant's jobs to the image."""
    registry = registry_of(image)
    if not PrivateRegistry.objects.filter(pk=registry).exists():
        return Access(ask=False)
    row = RegistryCredentials.objects.filter(tenant_id=tenant_id, registry_id=registry).first()
    if row is None:
        return Access(ask=True)
    try:
        return Access(ask=True, login=Login(registry, row.username, unseal(row.sealed_password)))
    except Unreadable as error:
        return Access(ask=True, problem=f"the tenant's credentials for {registry} cannot be read: {error}")


def store_registry(*, tenant: Tenant, registry: str, username: str, password: str, actor: str) -> RegistryCredentials:
    """The tenant's credentials for a registry, new or in the place of those before."""
    host = require_registry(registry)
    values = {
        "username": require_username(username),
        "sealed_password": seal(require_password(password)),
        "changed_at": DatabaseNow(),
        "changed_by": actor,
    }
    with transaction.atomic():
        PrivateRegistry.objects.get_or_create(host=host)
        before = RegistryCredentials.objects.select_for_update(no_key=True).filter(tenant=tenant, registry=host).first()
        row, _ = RegistryCredentials.objects.update_or_create(tenant=tenant, registry_id=host, defaults=values)
        audit(
            "replace_registry" if before else "add_registry",
            "tenant",
            tenant.name,
            actor=actor,
            before={"registry": host, "username": before.username} if before else None,
            after={"registry": host, "username": row.username},
        )
    row.refresh_from_db()
    return row


def remove_registry(*, credentials: RegistryCredentials, actor: str) -> None:
    """Forget the credentials; images of the registry are still asked for each time."""
    with transaction.atomic():
        RegistryCredentials.objects.filter(pk=credentials.pk).delete()
        audit(
            "remove_registry",
            "tenant",
            credentials.tenant.name,
            actor=actor,
            before={"registry": credentials.registry_id, "username": credentials.username},
        )


def registries_managed_by(user: User) -> QuerySet[RegistryCredentials]:
    """The credentials that the user may see, replace and remove: those of the tenants that they manage."""
    rows = RegistryCredentials.objects.select_related("tenant").order_by("tenant__name", "registry_id")
    if user.is_operator:
        return rows
    return rows.filter(tenant__memberships__user=user, tenant__memberships__role=Role.MANAGER)


def tenant_managed_by(user: User, name: str | None) -> Tenant:
    """The tenant of this name, or the only one that the user manages; `NotFound`, `Forbidden` or `Invalid` else."""
    if name is None:
        rows = Membership.objects.filter(user=user, role=Role.MANAGER).select_related("tenant").order_by("tenant__name")
        managed = [row.tenant for row in rows]
        if len(managed) == 1:
            return managed[0]
        which = ": one of " + ", ".join(tenant.name for tenant in managed) if managed else ""
        raise Invalid.field("tenant", f"say whose credentials these are{which}")
    tenant = require_first(tenants_of(user).filter(name=name), f"there is no tenant {name}")
    if not is_manager(user, tenant.pk):
        raise Forbidden(f"only managers of tenant {name} may store credentials for it")
    return tenant


def require_registry(text: str) -> str:
    """The registry's host and port as images name it, or `Invalid`."""
    host = text.strip().lower()
    if "/" in host:
        raise Invalid.field(
            "registry", "write its host, and the port if it has one: ghcr.io, or registry.example.org:5000"
        )
    if host in _OTHER_NAMES_OF_DOCKER_HUB:
        return DOCKER_HUB
    match = _HOST.fullmatch(host)
    if match is None or not (host == "localhost" or "." in host or ":" in host) or int(match[1] or 1) > 65_535:
        raise Invalid.field(
            "registry", "write the host as images name it, such as ghcr.io or registry.example.org:5000"
        )
    return host


def require_username(text: str) -> str:
    """The user name, or `Invalid`."""
    if not 0 < len(text) <= MAX_USERNAME_CHARS or not text.isprintable() or text != text.strip() or ":" in text:
        raise Invalid.field("username", f"write 1 to {MAX_USERNAME_CHARS} printable characters without ':'")
    return text


def require_password(text: str) -> str:
    """The password or token, or `Invalid`, which does not repeat it."""
    if not 0 < len(text) <= MAX_PASSWORD_CHARS or "\0" in text or not text.strip():
        raise Invalid.field("password", f"write the password or token: 1 to {MAX_PASSWORD_CHARS} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Invalid.field("password", "it is not valid Unicode") from error
    return text
