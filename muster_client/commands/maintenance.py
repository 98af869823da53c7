"""The commands about times in which nodes are to be free of jobs: maintenance plan, ls, cancel. For operators."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

import typer

from muster_client.commands.group import Group
from muster_client.commands.options import JsonFlag
from muster_client.errors import UsageError
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.render import maintenance_table
from muster_client.show.times import moment_text, utc_now

maintenance_app = typer.Typer(
    cls=Group, help="Have nodes free of jobs for some time. For operators.", no_args_is_help=True
)

_SPAN = re.compile(r"([0-9]{1,5})([smhd])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@maintenance_app.command("plan")
def plan_command(
    ctx: typer.Context,
    *,
    reason: Annotated[str, typer.Option("--reason", "-m", help="What is done; all members see it.")],
    node: Annotated[str | None, typer.Option("--node", help="This node.", show_default=False)] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Every node of this pool.", show_default=False)] = None,
    begins: Annotated[
        str | None, typer.Option("--begins", metavar="WHEN", help="2026-12-01T08:00Z, or 12h from now. Default: now.")
    ] = None,
    ends: Annotated[
        str | None, typer.Option("--ends", metavar="WHEN", help="When it is over.", show_default=False)
    ] = None,
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="How long, instead of --ends: 4h.", show_default=False)
    ] = None,
    move: Annotated[
        bool, typer.Option("--move", help="When it begins, jobs that may be stopped for others go elsewhere.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Plan a time in which a node, or every node of a pool, is free of jobs."""
    session = begin(ctx, as_json=as_json)
    if (node is None) == (pool is None):
        raise UsageError("Say which nodes: --node NAME, or --pool NAME for all of a pool.")
    if (ends is None) == (lasts is None):
        raise UsageError("Say how long: --ends WHEN or --for SPAN.")
    now = utc_now()
    begins_at = None if begins is None else _moment("--begins", begins, now)
    ends_at = _moment("--ends", ends, now) if ends is not None else (begins_at or now) + _span("--for", lasts or "")
    with session.client() as client:
        planned = client.plan_maintenance(
            node=node,
            pool=pool,
            begins_at=begins_at.isoformat() if begins_at else None,
            ends_at=ends_at.isoformat(),
            running_jobs="move" if move else "wait",
            reason=reason,
        )
    what = f"node {planned['node']}" if planned["node"] else f"pool {planned['pool']}"
    times = f"{moment_text(planned['begins_at'])} to {moment_text(planned['ends_at'])}"
    session.output.answer(planned, f"Maintenance {planned['id']} of {clean(what)} is planned from {times}.")


@maintenance_app.command("ls")
def ls_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List what is planned or under way, the next one first."""
    session = begin(ctx, as_json=as_json)
    found = session.ask(lambda client: client.maintenance())
    session.output.answer({"results": found}, maintenance_table(found))


@maintenance_app.command("cancel")
def cancel_command(
    ctx: typer.Context,
    number: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="As `maintenance ls` shows it.")],
    reason: Annotated[
        str | None, typer.Option("--reason", "-m", help="Why, for the audit log.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Call it off before it begins, or end it now; its nodes take jobs again."""
    session = begin(ctx, as_json=as_json)
    session.ask(lambda client: client.call_off_maintenance(number, reason=reason))
    session.output.answer({"id": number, "called_off": True}, f"Maintenance {number} is called off.")


def _moment(option: str, text: str, now: datetime) -> datetime:
    """The moment that a text names: itself, or how long from now."""
    if _SPAN.fullmatch(text):
        return now + _span(option, text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option}: {clean(text)} is neither a time such as 2026-12-01T08:00Z nor a duration."
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"{option}: say in which zone {clean(text)} is meant, by Z or +01:00 at its end.")
    return moment


def _span(option: str, text: str) -> timedelta:
    match = _SPAN.fullmatch(text)
    if match is None or not int(match[1]):
        raise UsageError(f"{option}: {clean(text)} is not a duration such as 90s, 30m, 4h or 2d.")
    return timedelta(seconds=int(match[1]) * _UNIT_S[match[2]])
