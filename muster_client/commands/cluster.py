"""The commands about the machines and who may use them: nodes, gpus, vc, volumes."""

from __future__ import annotations

from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag
from muster_client.render import checks_part, gpus_table, nodes_table, utc_now, vcs_table, volumes_table
from muster_client.session import begin


def nodes_command(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Only this node, with its GPUs.", show_default=False)] = None,
    checked: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="After the word check: have the GPUs of this node checked that no job has. For operators.",
            show_default=False,
        ),
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(
            help="Only nodes whose worst GPU is ok, warning or failure, or that are ready, suspect, down or pending.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the nodes, or show one; `check NAME` has one checked."""
    if checked is not None and name != "check":
        raise typer.BadParameter(f"{checked}: name one node, or write: check {checked}", param_hint="[NAME]")
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        if checked is not None:
            node = client.check_node(checked)
            count = sum(1 for one in node.get("gpu_checks", []) if one["wanted"])
            session.output.answer(node, f"{count} {'GPU is' if count == 1 else 'GPUs are'} being checked.")
            return
        if name is None:
            nodes = client.nodes(health=health)
            session.output.answer({"results": nodes}, nodes_table(nodes, utc_now()))
            return
        node = client.node(name)
    session.output.answer(node, nodes_table([node], utc_now()), "", gpus_table(node["gpus"]), *checks_part(node))


def gpus_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the GPUs and what they are doing."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        gpus = client.gpus()
    session.output.answer({"results": gpus}, gpus_table(gpus))


def vc_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the virtual clusters that you may submit to, and their quotas."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        vcs = client.vcs()
    session.output.answer({"results": vcs}, vcs_table(vcs))


def volumes_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the volumes that your jobs may mount."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        volumes = client.volumes()
    session.output.answer({"results": volumes}, volumes_table(volumes))


def register(app: typer.Typer) -> None:
    """Add these commands to `muster`."""
    app.command("nodes")(nodes_command)
    app.command("gpus")(gpus_command)
    app.command("vc")(vc_command)
    app.command("volumes")(volumes_command)
