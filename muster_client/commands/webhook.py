"""The commands about addresses that notices are posted to: webhook add, ls, rm, test."""

from __future__ import annotations

from typing import Annotated

import typer

from muster_client.commands.group import Group
from muster_client.commands.options import JsonFlag
from muster_client.errors import MusterError
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.account import webhooks_table
from muster_client.show.times import utc_now

webhook_app = typer.Typer(cls=Group, help="Have notices about your jobs posted to an address.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(metavar="WEBHOOK", min=1, help="Its number, as `webhook ls` shows it.")]


@webhook_app.command("add")
def add_command(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where notices are posted to.")],
    as_json: JsonFlag = False,
) -> None:
    """Make a webhook; the secret that its calls are signed with is shown this once."""
    session = begin(ctx, as_json=as_json)
    made = session.ask(lambda client: client.create_webhook(url))
    session.output.note(f"Webhook {made['id']} is made. Its secret is shown this once:")
    session.output.answer(made, clean(made["secret"]))


@webhook_app.command("ls")
def ls_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List your webhooks, and how it stands with them."""
    session = begin(ctx, as_json=as_json)
    found = session.ask(lambda client: client.webhooks())
    session.output.answer({"results": found}, webhooks_table(found, utc_now()))


@webhook_app.command("rm")
def rm_command(ctx: typer.Context, webhook: Number, as_json: JsonFlag = False) -> None:
    """Remove a webhook."""
    session = begin(ctx, as_json=as_json)
    session.ask(lambda client: client.remove_webhook(webhook))
    session.output.answer({"id": webhook, "removed": True}, f"Webhook {webhook} is gone.")


@webhook_app.command("test")
def ping_command(
    ctx: typer.Context,
    webhook: Number,
    timeout_s: Annotated[int, typer.Option("--timeout", min=1, max=600, help="How many seconds to wait.")] = 60,
    as_json: JsonFlag = False,
) -> None:
    """Have a ping sent, and tell what became of it; one that goes well takes a disabled webhook into use again."""
    session = begin(ctx, as_json=as_json)
    tried = session.ask(lambda client: client.test_webhook(webhook, timeout_s=timeout_s))
    if tried is None:
        raise MusterError(f"The ping of webhook {webhook} was not sent within {timeout_s} s; look again later.")
    session.output.answer(tried, f"Webhook {webhook}: {clean(tried['last_result'] or '')}.")
    if tried["last_success_at"] != tried["last_try_at"]:
        raise typer.Exit(1)
