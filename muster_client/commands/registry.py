"""The commands about registries of images that a tenant's jobs sign in at: registry add, ls, rm."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster_client.commands.group import Group
from muster_client.commands.options import JsonFlag
from muster_client.errors import ConfigError, NotThereError
from muster_client.local.config import travels_unencrypted
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.account import registries_table
from muster_client.show.times import utc_now

registry_app = typer.Typer(
    cls=Group, help="Store what a tenant's jobs sign in with at private registries.", no_args_is_help=True
)

Host = Annotated[str, typer.Argument(metavar="REGISTRY", help="As images name it, such as ghcr.io.")]
Tenant = Annotated[
    str | None, typer.Option("--tenant", "-t", help="Whose it is; default: the one you manage.", show_default=False)
]


@registry_app.command("add")
def add_command(
    ctx: typer.Context,
    registry: Host,
    user: Annotated[str, typer.Option("--user", "-u", help="The name to sign in with there.")],
    tenant: Tenant = None,
    as_json: JsonFlag = False,
) -> None:
    """Store or replace the credentials for a registry; the password is asked for, or read from standard input."""
    session = begin(ctx, as_json=as_json)
    if travels_unencrypted(session.target().url):
        session.output.warn(f"{session.target().url} is not encrypted; the password can be read on the way.")
    password = _password()
    stored = session.ask(lambda client: client.store_registry(registry, user, password, tenant=tenant))
    said = f"Jobs of {clean(stored['tenant'])} sign in at {clean(stored['registry'])} as {clean(stored['username'])}."
    session.output.answer(stored, said)


@registry_app.command("ls")
def ls_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the registries that the tenants you manage have credentials for."""
    session = begin(ctx, as_json=as_json)
    found = session.ask(lambda client: client.registries())
    session.output.answer({"results": found}, registries_table(found, utc_now()))


@registry_app.command("rm")
def rm_command(ctx: typer.Context, registry: Host, tenant: Tenant = None, as_json: JsonFlag = False) -> None:
    """Forget the credentials for a registry."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        found = [one for one in client.registries() if one["registry"] == registry.lower()]
        mine = [one for one in found if tenant in {None, one["tenant"]}]
        if not mine:
            whose = f"tenant {tenant}" if tenant else "any tenant"
            raise NotThereError(f"You manage no credentials of {whose} for {registry}.")
        if len(mine) > 1:
            names = ", ".join(one["tenant"] for one in mine)
            raise ConfigError(f"Several tenants have credentials for {registry}: say --tenant, one of {names}.")
        client.remove_registry(mine[0]["id"])
    removed = mine[0]
    session.output.answer(
        {"id": removed["id"], "removed": True},
        f"{clean(removed['tenant'])} has no credentials for {clean(removed['registry'])} any more.",
    )


def _password() -> str:
    """Return what is typed at a terminal, or else all of standard input without its last line end."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password or token", hide_input=True, err=True))
    password = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    if not password:
        raise ConfigError("There is no password on standard input.")
    return password
