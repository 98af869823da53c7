"""Actions of operators on servers that are reached over SSH."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import redis
from celery import current_app
from django.db import transaction
from django.db.models import F
from kombu.exceptions import KombuError

from muster.common.errors import Conflict, FieldError
from muster.common.models import DatabaseNow
from muster.common.sealed import seal
from muster.common.secrets import digest, new_secret
from muster.events.services import audit, record
from muster.fleet.leases import supersede
from muster.fleet.models import Node, Pool
from muster.fleet.services import create_node, holds_anything
from muster.links import rules
from muster.links.keys import fingerprint_of, open_private_key, public_line, read_host_key, read_private_key
from muster.links.models import LinkState, Server, Step
from scheduler.model.lifecycle import NodeAdmin

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """The access to a server, and the options of its agent. An empty private key keeps the stored one."""

    host: str
    user: str
    private_key: str = ""
    host_key: str = ""
    port: int = 22
    folder: str = ""
    options: str = ""


def add_server(*, pool: Pool, name: str, access: Access, actor: str, address: str = "", rack: str = "") -> Server:
    """A server that is reached over SSH, for a new node or for one that no agent has joined yet."""
    columns = _columns(access, key_needed=True)
    credential = new_secret("mnode")
    with transaction.atomic():
        node = _node_for_server(pool=pool, name=name, address=address, rack=rack, actor=actor)
        # The platform uses this credential for calls that arrive by the link; it never goes to the server.
        Node.objects.filter(pk=node.pk).update(
            credential_digest=digest(credential), join_digest="", join_expires_at=None
        )
        server = Server.objects.create(node=node, sealed_credential=seal(credential), **columns)
        audit("create", actor=actor, object_type="server", object_id=name, after=_shown(server))
        transaction.on_commit(lambda: ask_for_install(server.pk))
    return server


def change_server(*, server: Server, access: Access, actor: str) -> None:
    """Reach the server in another way from now on, beginning at once.

    Where the agent is changes only while nothing is held there: another machine, or another folder on it, knows nothing
    of what runs, and an agent that begins there would start it again.
    """
    columns = _columns(access, key_needed=False)
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True).get(pk=server.pk)
        servers = Server.objects.select_for_update(no_key=True, of=("self",)).select_related("node")
        row = servers.get(pk=server.pk)
        if moved := _moved(row, columns):
            _require_free(node, errors=tuple(FieldError(name, "it stays while jobs hold GPUs") for name in moved))
            # Its agent may not have heard of it yet, and must not claim what comes now.
            supersede(node)
        before = _shown(row)
        Server.objects.filter(pk=row.pk).update(**columns, **_anew())
        row.refresh_from_db()
        after = _shown(row)
        if "sealed_key" in columns:
            after["private_key"] = "replaced"
        audit("change", actor=actor, object_type="server", object_id=row.node.name, before=before, after=after)
        transaction.on_commit(lambda: ask_for_install(row.pk))


def try_again(*, server: Server, actor: str) -> None:
    """Try now what failed, and look anew at what the server has."""
    with transaction.atomic():
        Server.objects.filter(pk=server.pk).update(**_anew())
        audit("try_again", actor=actor, object_type="server", object_id=server.node.name)
        transaction.on_commit(lambda: ask_for_install(server.pk))


def remove_server(*, server: Server, actor: str) -> None:
    """Reach the node over SSH no more. Its agent is refused from now on, so what runs there must have ended."""
    with transaction.atomic():
        node = Node.objects.select_for_update(no_key=True).get(pk=server.pk)
        _require_free(node)
        audit("delete", actor=actor, object_type="server", object_id=node.name, before=_shown(server))
        Node.objects.filter(pk=node.pk).update(credential_digest="")
        Server.objects.filter(pk=node.pk).delete()


def renew_credential(*, server: Server, actor: str) -> None:
    """Replace the credential by which the link of a server vouches for its node. Restart `links` afterwards."""
    credential = new_secret("mnode")
    with transaction.atomic():
        Node.objects.filter(pk=server.pk).update(credential_digest=digest(credential))
        Server.objects.filter(pk=server.pk).update(sealed_credential=seal(credential))
        audit("renew_credential", actor=actor, object_type="server", object_id=server.node.name)


def ask_for_install(server_id: int) -> None:
    """Hint that a server has to be looked at; the sweep does it where the hint is lost."""
    try:
        current_app.send_task("links.install", args=[server_id], queue="default", retry=False, expires=30)
    except (redis.RedisError, OSError, KombuError) as error:
        log.warning("install_not_asked server=%s error=%s", server_id, error)


def _anew() -> dict[str, Any]:
    return {
        "version": F("version") + 1,
        "step": Step.INSTALL,
        "state": LinkState.INSTALLING,
        "reason": "",
        "since": DatabaseNow(),
        "tries": 0,
        "due_at": DatabaseNow(),
        "token": "",
    }


def _columns(access: Access, *, key_needed: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "host": rules.require_host(access.host),
        "port": rules.require_port(access.port),
        "user": rules.require_user(access.user),
        "host_key": read_host_key(access.host_key),
        "folder": rules.require_folder(access.folder),
        "options": rules.require_options(access.options),
    }
    if key_needed or access.private_key:
        key = read_private_key(access.private_key)
        columns |= {"sealed_key": seal(key), "public_key": public_line(open_private_key(key))}
    return columns


def _moved(server: Server, columns: dict[str, Any]) -> list[str]:
    """Changed fields that move the agent: to another machine, another user, or another folder."""
    places = {"host": server.host, "port": server.port, "user": server.user}
    moved = [name for name, stored in places.items() if columns[name] != stored]
    folders = rules.folder_of(server.folder, server.user), rules.folder_of(columns["folder"], columns["user"])
    if columns["folder"] != server.folder and folders[0] != folders[1]:
        moved.append("folder")
    return moved


def _require_free(node: Node, *, errors: tuple[FieldError, ...] = ()) -> None:
    """Return if nothing is held on the node, whose lock the caller has; `errors` name the fields that depend on it."""
    if holds_anything(node):
        which = f"{', '.join(error.field for error in errors)}: " if errors else ""
        raise Conflict(f"{which}jobs still hold GPUs of node {node.name}: drain it first", errors=errors)


def _node_for_server(*, pool: Pool, name: str, address: str, rack: str, actor: str) -> Node:
    node = Node.objects.select_for_update(no_key=True).filter(name=name).first()
    if node is None:
        return create_node(pool=pool, name=name, address=address, rack=rack, actor=actor)[0]
    if node.pool_id != pool.pk:
        raise Conflict(f"node {name} belongs to another pool")
    if node.admin == NodeAdmin.RETIRED:
        raise Conflict(f"node {name} is retired")
    if Server.objects.filter(pk=node.pk).exists():
        raise Conflict(f"node {name} is reached over SSH already")
    if node.credential_digest:
        raise Conflict(f"node {name} has an agent that calls the platform by itself")
    return node


def _shown(server: Server) -> dict[str, Any]:
    """The fields of a server in the audit log: no secret."""
    return {
        "host": server.host,
        "port": server.port,
        "user": server.user,
        "host_key": fingerprint_of(server.host_key) if server.host_key else "",
        "key": fingerprint_of(server.public_key),
        "folder": server.folder,
        "options": server.options,
    }


def record_state(server: Server, state: LinkState) -> None:
    """Tell in the events that the link of a node stands otherwise now."""
    # All members see events of nodes, and the reason may name addresses: operators read it in the row.
    record("node.link", actor="platform", node_id=server.pk, data={"node": server.node.name, "state": state})
