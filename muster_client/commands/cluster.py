"""The commands about the machines and who may use them: nodes, gpus, vc, volumes."""

from __future__ import annotations

from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag
from muster_client.errors import UsageError
from muster_client.render import checks_part, disk_part, gpus_table, nodes_table, vcs_table, volumes_table
from muster_client.session import begin
from muster_client.terminal import clean
from muster_client.times import utc_now


def nodes_command(
    ctx: typer.Context,
    *,
    name: Annotated[str | None, typer.Argument(help="Only this node, with its GPUs.", show_default=False)] = None,
    acted_on: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="After the word check: have the GPUs of this node checked that no job has. After declare-gone: take "
            "this silent node for gone, and let go of what it has. For operators.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", "-m", help="Why a node is declared gone; everybody reads it.", show_default=False),
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
    """List the nodes, or show one; `check NAME` has one checked, and `declare-gone NAME` takes one for gone."""
    if acted_on is not None and name not in {"check", "declare-gone"}:
        raise typer.BadParameter(f"{acted_on}: name one node, or write: check {acted_on}", param_hint="[NAME]")
    session = begin(ctx, as_json=as_json)
    goes = acted_on is not None and name == "declare-gone"
    if goes != (reason is not None):
        raise UsageError(
            "Say why the node is declared gone: --reason TEXT." if goes else "A reason goes with: declare-gone NAME."
        )
    with session.client() as client:
        if acted_on is not None and reason is not None:
            node = client.declare_node_gone(acted_on, reason=reason)
            session.output.answer(node, f"{clean(acted_on)} is taken for gone: what it has is being let go.")
            return
        if acted_on is not None:
            node = client.check_node(acted_on)
            count = sum(1 for one in node.get("gpu_checks", []) if one["wanted"])
            session.output.answer(node, f"{count} {'GPU is' if count == 1 else 'GPUs are'} being checked.")
            return
        if name is None:
            nodes = client.nodes(health=health)
            session.output.answer({"results": nodes}, nodes_table(nodes, utc_now()))
            return
        node = client.node(name)
    told = (nodes_table([node], utc_now()), *disk_part(node), "", gpus_table(node["gpus"]), *checks_part(node))
    session.output.answer(node, *told)


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
