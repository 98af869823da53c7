"""The command that watches the cluster: top."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from muster_client.client import Client
from muster_client.commands.options import JsonFlag
from muster_client.local.watching import watch
from muster_client.session import begin
from muster_client.show.times import utc_now
from muster_client.show.top import View, top_lines

# Five pages; more lines than that no terminal has.
MAX_JOBS = 1000


def top_command(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once as plain text, and end.")] = False,
    interval_s: Annotated[
        float, typer.Option("--interval", "-n", min=1, max=3600, metavar="SECONDS", help="How often it is drawn anew.")
    ] = 5,
    vc: Annotated[str | None, typer.Option(help="Only jobs of this virtual cluster.", show_default=False)] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your jobs.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Watch nodes, virtual clusters and running jobs; q leaves."""
    session = begin(ctx, as_json=as_json)
    live = not (once or as_json) and os.environ.get("TERM") != "dumb"
    live = live and all(one and one.isatty() for one in (sys.stdin, sys.stdout))
    # A note of a server that is slow would be written over the screen.
    client = session.client(quiet=live)
    fetch = _fetcher(client, vc, mine=mine)
    if live:
        # Not closed: who leaves does not wait for the answer that is on its way.
        watch(
            session.output.console,
            fetch=fetch,
            draw=lambda view, width, height, note: top_lines(view, width=width, height=height, note=note),
            interval_s=interval_s,
        )
        return
    with client:
        view = fetch()
    session.output.answer(view.document(), *top_lines(view, width=session.output.console.width))


def _fetcher(client: Client, vc: str | None, *, mine: bool) -> Callable[[], View]:
    def fetch() -> View:
        page = client.jobs(limit=MAX_JOBS, state=["active"], vc=vc, mine=mine)
        return View(
            url=client.url,
            nodes=client.nodes(),
            vcs=client.vcs(),
            jobs=page["results"],
            at=utc_now(),
            more_jobs=page["next"] is not None,
        )

    return fetch
