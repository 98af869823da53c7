"""The command about what GPU time was used for, and how long jobs waited for it: usage."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag
from muster_client.session import begin
from muster_client.show.usage import delays_table, usage_table, waste_tables

# What a table of waste is told apart by: the rows of one file must not count anything twice.
_WASTE = "outcome,category,failure"


def usage_command(
    ctx: typer.Context,
    *,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT",
            help="tenant, vc, user, gpu, class, day, week, state, outcome, failure, category or retry; of delays "
            "tenant, vc, user, size, day or week. Several with commas; by default vc.",
            show_default=False,
        ),
    ] = None,
    waste: Annotated[bool, typer.Option("--waste", help="What it was for, and what came to nothing.")] = False,
    delays: Annotated[bool, typer.Option("--delays", help="Mean waits for a start, by their causes.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print a table for spreadsheets.")] = False,
    since: Annotated[str | None, typer.Option(metavar="DURATION", help="By default 7d.", show_default=False)] = None,
    begin_at: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Such as 2026-11-01, in UTC.", show_default=False)
    ] = None,
    end_at: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="By default now.", show_default=False)
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant.", show_default=False)] = None,
    vc: Annotated[str | None, typer.Option(help="Of this virtual cluster.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option(help="Of this user.", show_default=False)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell what GPU time was used for, or how long jobs waited: yours, a tenant's for managers, all for operators."""
    if csv and as_json:
        raise typer.BadParameter("it is either --csv or --json")
    if waste and by:
        raise typer.BadParameter("--waste has its own order; leave --by out")
    if delays and (waste or csv):
        raise typer.BadParameter("--delays goes neither with --waste nor with --csv")
    session = begin(ctx, as_json=as_json)
    asked = {"since": since, "from": begin_at, "to": end_at, "tenant": tenant, "vc": vc, "user": user}
    wanted = {name: value for name, value in asked.items() if value is not None}
    words = ",".join(by or ["vc"])
    with session.client() as client:
        if csv:
            # As it came: a console would wrap the lines, and the line ends are part of the format.
            sys.stdout.write(client.usage_csv(by=_WASTE if waste else words, **wanted))
            return
        if delays:
            waits = client.delays(by=words, **wanted)
            session.output.answer(waits, delays_table(waits))
            return
        if waste:
            found = client.waste(**wanted)
            session.output.answer(found, *waste_tables(found))
            return
        used = client.usage(by=words, **wanted)
    session.output.answer(used, usage_table(used))
