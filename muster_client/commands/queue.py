"""The commands about waiting jobs: queue, hold, release, bump."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from muster_client.client import Client
from muster_client.commands.options import JobId, JobIds, JsonFlag
from muster_client.errors import UsageError
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.tables import make_table, text_of
from muster_client.show.times import duration

if TYPE_CHECKING:
    from muster_client.answers.jobs import Job
    from muster_client.answers.queue import QueueEntry


def queue_command(
    ctx: typer.Context,
    vc: Annotated[
        str | None, typer.Argument(metavar="[VC]", help="The virtual cluster; by default your own.", show_default=False)
    ] = None,
    *,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List what waits in a virtual cluster, in the order of its policy."""
    session = begin(ctx, as_json=as_json)
    queue = session.ask(lambda client: client.queue(_id_of(client, vc), mine=mine, limit=limit))
    session.output.answer(queue, _queue_table(queue["results"]))
    if queue["next"] is not None:
        session.output.note(f"There are more; see them with --limit {limit * 2}.")


def hold_command(ctx: typer.Context, job_ids: JobIds, as_json: JsonFlag = False) -> None:
    """Hold waiting jobs back until they are released."""
    _each(ctx, job_ids, lambda client, job_id: client.hold(job_id), "is held", as_json=as_json)


def release_command(ctx: typer.Context, job_ids: JobIds, as_json: JsonFlag = False) -> None:
    """Let held jobs wait for their turns again."""
    _each(ctx, job_ids, lambda client, job_id: client.release(job_id), "waits for its turn", as_json=as_json)


def bump_command(
    ctx: typer.Context,
    job_id: JobId,
    undo: Annotated[bool, typer.Option("--undo", help="Give the job back the place that it has without.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Put a waiting job before all others of its virtual cluster; for managers."""
    if undo:
        _each(ctx, [job_id], lambda client, one: client.unbump(one), "is back at its own place", as_json=as_json)
    else:
        _each(ctx, [job_id], lambda client, one: client.bump(one), "goes first", as_json=as_json)


def _each(
    ctx: typer.Context, job_ids: list[int], act: Callable[[Client, int], Job], words: str, *, as_json: bool
) -> None:
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        jobs = [act(client, job_id) for job_id in dict.fromkeys(job_ids)]
    lines = [f"Job {job['id']} ({clean(job['name'])}) {words}." for job in jobs]
    session.output.answer({"results": jobs}, *lines)


def _id_of(client: Client, name: str | None) -> int:
    wanted = name or client.me()["default_vc"]
    if wanted is None:
        raise UsageError("You are in no virtual cluster: name one.")
    found = next((vc["id"] for vc in client.vcs() if vc["name"] == wanted), None)
    if found is None:
        raise UsageError(f"There is no virtual cluster {wanted} that you may see; muster vc lists them.")
    return found


def _queue_table(jobs: list[QueueEntry]) -> Table:
    table = make_table("PLACE", "JOB", "NAME", "OWNER", "GPUS", "WAITED", "WHY")
    for job in jobs:
        hold = job["hold"]
        table.add_row(
            text_of("-" if job["position"] is None else job["position"]),
            text_of(job["id"]),
            text_of(job["name"], 30),
            text_of(job["owner"]),
            text_of(job["gpus_total"]),
            text_of(duration(job["waited_s"])),
            text_of(hold["detail"] if hold else ""),
        )
    return table
