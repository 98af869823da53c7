"""The demonstration's users, and the one file in which their passwords and tokens are kept."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

from muster.accounts.models import ApiToken, User
from muster.accounts.scopes import Scope
from muster.accounts.services import create_token, create_user, revoke_token, user_of_token
from muster.common.secrets import write_private
from muster.local.demo.cluster import ACTOR
from muster.local.places import Account, LocalError, as_account
from muster.tenants.models import Membership, Tenant
from muster.tenants.roles import Role
from muster.tenants.services import add_member

FILE_NAME = "demo.json"
_TOKEN_NAME = "demo"  # noqa: S105 - a name, not a secret
_TOKEN_LIFE = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the demonstration: a member or manager of a tenant, or an operator of the cluster, who is in none."""

    name: str
    tenant: str
    role: Role | None


@dataclass(frozen=True, slots=True)
class Access:
    password: str
    token: str
    tenant: str


PEOPLE = (
    Person("ada", "vision", Role.MEMBER),
    Person("grace", "nlp", Role.MANAGER),
    Person("otto", "", None),
)


def prepare_people(path: Path, *, url: str, tenants: Mapping[str, Tenant]) -> tuple[dict[str, Access], list[str]]:
    """The access of all demo users, stored in the file, and the names of users whose password is new.

    The database has digests only: a user keeps password and token if the file has them and the token works.
    """
    known = read_people(path)
    found: dict[str, Access] = {}
    renewed = []
    for person in PEOPLE:
        user = User.objects.filter(username=person.name).first()
        access = known.get(person.name)
        if (
            user is None
            or access is None
            or user_of_token(access.token) != user
            or not user.check_password(access.password)
        ):
            user, access = _renew(person, user)
            renewed.append(person.name)
        if person.role is not None and not Membership.objects.filter(user=user, tenant__name=person.tenant).exists():
            add_member(tenant=tenants[person.tenant], user=user, role=person.role, actor=ACTOR)
        found[person.name] = access
    document = {"url": url, "users": {name: asdict(access) for name, access in found.items()}}
    write_private(path, json.dumps(document, indent=2) + "\n")
    return found, renewed


def read_people(path: Path) -> dict[str, Access]:
    """The users in the file; empty if there is no file or it cannot be parsed."""
    try:
        users = json.loads(path.read_text())["users"]
        return {name: Access(**fields) for name, fields in users.items()}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _renew(person: Person, user: User | None) -> tuple[User, Access]:
    password = secrets.token_urlsafe(12)
    if user is None:
        user = create_user(username=person.name, password=password, operator=person.role is None, actor=ACTOR)
    else:
        user.set_password(password)
        user.save(update_fields=["password"])
        for token in ApiToken.objects.filter(user=user, name=_TOKEN_NAME, revoked_at__isnull=True):
            revoke_token(user=user, token_id=token.pk)
    _, secret = create_token(user=user, name=_TOKEN_NAME, expires_in=_TOKEN_LIFE, scopes=tuple(Scope))
    return user, Access(password=password, token=secret, tenant=person.tenant)


def require_python(uid: int) -> None:
    """Return if this user's jobs can run a `python3`, or agents cannot change the user; else `LocalError`."""
    if os.geteuid() != 0:
        return
    words = ["python3", "--version"]
    try:
        subprocess.run(words, **as_account(Account("", uid, uid)), capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LocalError(
            "the examples need a python3 that ordinary users can run, and jobs never run as root. Install one for all "
            "users (such as `apt-get install python3`), or start the demonstration as an ordinary user."
        ) from error
