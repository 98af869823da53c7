"""Tables for people of what belongs to a user or a tenant: virtual clusters, tokens, registries, volumes, webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from muster_client.show.tables import make_table, sheet, text_of
from muster_client.show.times import ago, moment_text

if TYPE_CHECKING:
    from muster_client.answers.accounts import Me, Token
    from muster_client.answers.notices import Webhook
    from muster_client.answers.tree import Registry, VirtualCluster, Volume

_NAME_CHARS = 40


def vcs_table(vcs: Sequence[VirtualCluster]) -> RenderableType:
    """Return a table with one line per virtual cluster and GPU type."""
    if not vcs:
        return Text("No virtual clusters.")
    table = make_table("VC", "TENANT", "POOL", "GPU", "USED", "QUOTA", "WAITING", "ACTIVE")
    for vc in vcs:
        ends = (str(vc["waiting"]), str(vc["active"]))
        starts = (text_of(vc["name"]), text_of(vc["tenant"]), text_of(vc["pool"]))
        if not vc["quotas"]:
            table.add_row(*starts, "-", "-", "-", *ends)
        for quota in vc["quotas"]:
            table.add_row(*starts, text_of(quota["gpu_type"]), str(quota["used"]), str(quota["gpus"]), *ends)
    return table


def me_sheet(me: Me, url: str) -> RenderableType:
    """Return who the user is, and where."""
    tenants = ", ".join(f"{tenant['name']} ({tenant['role']})" for tenant in me["tenants"]) or "none"
    vcs = ", ".join(f"{name} (default)" if name == me["default_vc"] else name for name in me["vcs"]) or "none"
    rows: list[tuple[str, RenderableType]] = [
        ("User", text_of(f"{me['username']} <{me['email']}>" if me["email"] else me["username"])),
        ("Server", text_of(url)),
        ("Tenants", text_of(tenants)),
        ("Virtual clusters", text_of(vcs)),
    ]
    if me["is_operator"]:
        rows.append(("Operator", Text("yes")))
    return sheet(rows)


def tokens_table(tokens: Sequence[Token], now: datetime) -> RenderableType:
    """Return a table with one line per token."""
    if not tokens:
        return Text("No tokens.")
    table = make_table("ID", "NAME", "PREFIX", "SCOPES", "CREATED", "LAST USED", "EXPIRES")
    for token in tokens:
        table.add_row(
            str(token["id"]),
            text_of(token["name"], _NAME_CHARS),
            text_of(token["prefix"]),
            text_of(" ".join(token["scopes"])),
            ago(token["created_at"], now),
            ago(token["last_used_at"], now),
            Text(moment_text(token["expires_at"]) if token["expires_at"] else "never"),
        )
    return table


def registries_table(registries: Sequence[Registry], now: datetime) -> RenderableType:
    """Return a table with one line per registry that a tenant has credentials for."""
    if not registries:
        return Text("No registries.")
    table = make_table("REGISTRY", "TENANT", "USER", "CHANGED", "BY")
    for one in registries:
        table.add_row(
            text_of(one["registry"]),
            text_of(one["tenant"]),
            text_of(one["username"], _NAME_CHARS),
            ago(one["changed_at"], now),
            text_of(one["changed_by"]),
        )
    return table


def volumes_table(volumes: Sequence[Volume]) -> RenderableType:
    """Return a table with one line per volume."""
    if not volumes:
        return Text("No volumes.")
    table = make_table("VOLUME", "TENANT", "VC", "MODE")
    for one in volumes:
        table.add_row(text_of(one["name"]), text_of(one["tenant"]), text_of(one["vc"] or "all"), text_of(one["mode"]))
    return table


def webhooks_table(webhooks: Sequence[Webhook], now: datetime) -> RenderableType:
    """Return a table with one line per webhook."""
    if not webhooks:
        return Text("No webhooks.")
    table = make_table("ID", "URL", "STATE", "LAST TRY", "RESULT")
    for one in webhooks:
        result = one["reason"] or one["last_result"] or "-"
        table.add_row(
            str(one["id"]), text_of(one["url"]), text_of(one["state"]), ago(one["last_try_at"], now), text_of(result)
        )
    return table
