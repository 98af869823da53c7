"""The commands about GPUs and who may use them: gpus, vc, volumes."""

from __future__ import annotations

import typer

from muster_client.commands.options import JsonFlag
from muster_client.session import begin
from muster_client.show.account import vcs_table, volumes_table
from muster_client.show.render import gpus_table


def gpus_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the GPUs and what they are doing."""
    session = begin(ctx, as_json=as_json)
    gpus = session.ask(lambda client: client.gpus())
    session.output.answer({"results": gpus}, gpus_table(gpus))


def vc_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the virtual clusters that you may submit to, and their quotas."""
    session = begin(ctx, as_json=as_json)
    vcs = session.ask(lambda client: client.vcs())
    session.output.answer({"results": vcs}, vcs_table(vcs))


def volumes_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the volumes that your jobs may mount."""
    session = begin(ctx, as_json=as_json)
    volumes = session.ask(lambda client: client.volumes())
    session.output.answer({"results": volumes}, volumes_table(volumes))
