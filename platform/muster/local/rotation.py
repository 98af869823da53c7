"""New secrets for the platform and its agents, in case the old ones have leaked."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import transaction
from django.db.models import Model

from muster.common.sealed import SEALED, reseal
from muster.common.secrets import write_private
from muster.fleet.models import Node
from muster.fleet.services import invalidate_credential
from muster.links.models import Server
from muster.links.services import renew_credential
from muster.settings.env import new_encryption_key
from scheduler.model.lifecycle import NodeAdmin


@dataclass(frozen=True, slots=True)
class Rotation:
    """The parts with a new secret, and the variables that an operator replaces by hand."""

    files: list[str]
    variables: list[str]
    join_tokens: dict[str, str]
    servers: list[str]


def rotate_keys(*, home: Path, actor: str) -> Rotation:
    """Replace all secrets of the platform in `home`, and the credentials of all agents.

    A new encryption key comes in front of the stored one, all secrets are encrypted by it, and the old key is removed;
    a run that was interrupted can be repeated. A secret that comes from a variable stays: the variable is returned.
    `Unreadable`: none of the keys decrypts a stored secret, and nothing but the order of keys has changed.
    """
    files, variables = [], []
    if os.environ.get("MUSTER_ENCRYPTION_KEYS"):
        variables.append("MUSTER_ENCRYPTION_KEYS")
        reencrypt()
    else:
        key = new_encryption_key()
        settings.ENCRYPTION_KEYS = [key, *settings.ENCRYPTION_KEYS]
        write_private(home / "encryption_key", ",".join(settings.ENCRYPTION_KEYS))
        reencrypt()
        settings.ENCRYPTION_KEYS = [key]
        write_private(home / "encryption_key", key)
        files.append("encryption_key")
    for name, variable, size in (
        ("secret_key", "MUSTER_SECRET_KEY", 48),
        ("metrics_token", "MUSTER_METRICS_TOKEN", 32),
    ):
        if os.environ.get(variable):
            variables.append(variable)
        else:
            write_private(home / name, secrets.token_urlsafe(size))
            files.append(name)
    with transaction.atomic():
        servers = list(Server.objects.select_related("node").order_by("pk"))
        for server in servers:
            renew_credential(server=server, actor=actor)
        nodes = Node.objects.exclude(admin=NodeAdmin.RETIRED).exclude(pk__in=[server.pk for server in servers])
        join_tokens = {node.name: invalidate_credential(node=node, actor=actor) for node in nodes.order_by("pk")}
    return Rotation(files, variables, join_tokens, [server.node.name for server in servers])


def reencrypt() -> int:
    """Encrypt all stored secrets by the first key and return their number; `Unreadable` if no key decrypts one."""
    return sum(_reencrypt(model) for model in apps.get_models())


def _reencrypt(model: type[Model]) -> int:
    """Encrypt the secrets of each row; return the number of rows."""
    columns = [field.name for field in model._meta.concrete_fields if field.name.startswith(SEALED)]
    rows, count = model._default_manager, 0
    for pk in list(rows.order_by("pk").values_list("pk", flat=True)) if columns else ():
        with transaction.atomic():
            row = rows.select_for_update(no_key=True).filter(pk=pk).values(*columns).first()
            if row is not None:
                rows.filter(pk=pk).update(**{name: reseal(sealed) for name, sealed in row.items()})
                count += 1
    return count
