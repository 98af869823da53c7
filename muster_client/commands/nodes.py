"""The command about the machines: nodes, and what operators do with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from muster_client.client import Client
from muster_client.commands.options import JsonFlag
from muster_client.errors import UsageError
from muster_client.local.terminal import clean
from muster_client.session import Session, begin
from muster_client.show.render import gpus_table, nodes_table
from muster_client.show.tables import make_table, text_of
from muster_client.show.times import ago, utc_now

if TYPE_CHECKING:
    from muster_client.answers.fleet import NodeDetail

_REASONED: dict[str, str] = {
    "cordon": "takes no new jobs; the jobs that run there go on",
    "drain": "takes no new jobs, and is empty when the jobs that run there have ended",
    "move-off": "takes no new jobs, and its preemptible jobs are being stopped and queued again",
    "declare-gone": "is declared gone: its jobs there are lost",
}
_UNREASONED = ("resume", "check")


def nodes_command(
    ctx: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|ACTION]", help="Only this node, with its GPUs; or an action.", show_default=False
        ),
    ] = None,
    acted_on: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The node of the action, which is one of cordon, drain, move-off, resume, check and declare-gone. "
            "For operators.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", "-m", help="Why; all users see it at the node.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Move jobs off without asking.")] = False,
    health: Annotated[
        str | None,
        typer.Option(
            help="Only nodes whose worst GPU is ok, warning or failure, or that are ready, suspect, down or pending.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the nodes, show one, or do something with one: `muster nodes drain NAME`."""
    session = begin(ctx, as_json=as_json)
    actions = (*_REASONED, *_UNREASONED)
    if acted_on is None and (reason is not None or yes):
        raise UsageError("A reason goes with an action, such as: muster nodes drain NAME --reason TEXT.")
    if acted_on is None:
        if name in actions:
            raise UsageError(f"Name the node: muster nodes {name} NAME.")
        _show(session, name, health)
        return
    if name not in actions:
        raise UsageError(f"{clean(name or '')} is not an action on a node; the actions are {', '.join(actions)}.")
    if name in _REASONED and reason is None:
        raise UsageError(f"Write a reason: muster nodes {name} {clean(acted_on)} --reason TEXT.")
    with session.client() as client:
        if name == "move-off" and not yes:
            _confirm_move(session, client, acted_on)
        node = _ACTS[name](client, acted_on, reason)
    session.output.answer(node, _done(name, node))


def _show(session: Session, name: str | None, health: str | None) -> None:
    with session.client() as client:
        if name is None:
            nodes = client.nodes(health=health)
            session.output.answer({"results": nodes}, nodes_table(nodes, utc_now()))
            return
        node = client.node(name)
    told = (nodes_table([node], utc_now()), *_disk_part(node), "", gpus_table(node["gpus"]), *_checks_part(node))
    session.output.answer(node, *told)


_ACTS: dict[str, Callable[[Client, str, str | None], NodeDetail]] = {
    "check": lambda client, name, _: client.check_node(name),
    "declare-gone": lambda client, name, reason: client.declare_node_gone(name, reason=reason or ""),
    **{
        action: lambda client, name, reason, action=action: client.change_node(name, action, reason=reason)  # type: ignore[misc]
        for action in ("cordon", "drain", "move-off", "resume")
    },
}


def _confirm_move(session: Session, client: Client, name: str) -> None:
    """Name the jobs that the move stops, and ask; the question is on standard error, beside the answer."""
    for part in _moved_jobs_part(client.node(name)):
        session.output.errors.print(part)
    try:
        agreed = typer.confirm(f"Move jobs off {clean(name)}?", err=True)
    except typer.Abort:
        raise UsageError("Nothing was changed: confirm with y, or write --yes.") from None
    if not agreed:
        raise UsageError("Nothing was changed.")


def _done(action: str, node: NodeDetail) -> str:
    name = clean(node["name"])
    if action == "check":
        count = sum(1 for one in node["gpu_checks"] if one["wanted"])
        return f"{count} {'GPU is' if count == 1 else 'GPUs are'} being checked."
    if action == "resume":
        return f"{name} takes jobs again."
    return f"{name} {_REASONED[action]}."


def _disk_part(node: NodeDetail) -> list[RenderableType]:
    """Return how much of the node's disk is left; nothing where the agent does not say."""
    size, free = node["disk_mib"], node["disk_free_mib"]
    if size is None or free is None:
        return []
    return ["", Text(f"Disk: {free / 1024:.1f} of {size / 1024:.1f} GiB are free.")]


def _moved_jobs_part(node: NodeDetail) -> list[RenderableType]:
    """Return the jobs that moving jobs off the node stops, and those that it waits for."""
    jobs = node["running_jobs"]
    if not jobs:
        return [Text(f"No job runs on {clean(node['name'])}.")]
    table = make_table("JOB", "NAME", "OWNER", "TENANT", "GPUS", "NODES", "HAPPENS")
    for job in jobs:
        happens = "stops and is queued again" if job["preemptible"] else "is waited for: not preemptible"
        names = (text_of(name) for name in (job["name"], job["owner"], job["tenant"]))
        table.add_row(str(job["id"]), *names, str(job["gpus"]), str(job["nodes"]), happens)
    return [table]


def _checks_part(node: NodeDetail) -> list[RenderableType]:
    """Return a table of the newest check of each GPU; nothing where none was checked."""
    checks = node["gpu_checks"]
    if not checks:
        return []
    table = make_table("GPU", "CHECK", "WHEN", "TFLOP/S", "GB/S", "IN A ROW", "DETAIL")
    for one in checks:
        table.add_row(
            str(one["gpu"]),
            text_of("under way" if one["wanted"] else one["result"] or "-"),
            ago(one["at"], utc_now()),
            _figure(one["tflops"]),
            _figure(one["gb_s"]),
            str(abs(one["streak"])),
            text_of(one["detail"] or ""),
        )
    return ["", table]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
