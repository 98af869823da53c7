"""The commands about sweeps: sweep ls, show, cancel, retry, clone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from muster_client.calls.sweeps import SWEEP_STATES, SweepState
from muster_client.commands.group import Group
from muster_client.commands.options import JsonFlag, Sets
from muster_client.errors import UsageError
from muster_client.follow import warn_of
from muster_client.local.spec import apply_sets
from muster_client.session import begin
from muster_client.show.sweepsheet import by_value, members_table, rungs_table, sweep_sheet, sweeps_table
from muster_client.show.times import utc_now
from muster_client.submission import submitted_line

if TYPE_CHECKING:
    from muster_client.answers.terms import JobSpec

sweep_app = typer.Typer(
    cls=Group, help="See, cancel and repeat sweeps; `muster submit` submits them.", no_args_is_help=True
)

SweepId = Annotated[int, typer.Argument(metavar="SWEEP", min=1, help="The number of the sweep.")]


@sweep_app.command("ls")
def ls_command(
    ctx: typer.Context,
    *,
    state: Annotated[
        str | None, typer.Option(help="active, succeeded, failed or cancelled.", show_default=False)
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List sweeps, newest first."""
    session = begin(ctx, as_json=as_json)
    wanted: SweepState | None = next((known for known in SWEEP_STATES if known == state), None)
    if state is not None and wanted is None:
        raise UsageError(f"--state {state}: a sweep is {', '.join(SWEEP_STATES[:-1])} or {SWEEP_STATES[-1]}.")
    page = session.ask(lambda client: client.sweeps(limit=limit, state=wanted, mine=mine))
    session.output.answer(page, sweeps_table(page["results"], utc_now()))
    if page["next"] is not None:
        session.output.note(f"There are more; see them with --limit {limit * 2}.")


@sweep_app.command("show")
def show_command(
    ctx: typer.Context,
    sweep_id: SweepId,
    limit: Annotated[int, typer.Option(min=0, help="At most this many members, the best first.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Show one sweep, its rungs, and its members with the best first; --json has all members."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        sweep = client.sweep(sweep_id)
        members = by_value(sweep, client.sweep_members(sweep_id))
    rungs = ["", rungs_table(sweep)] if sweep["rungs"] else []
    table = ["", members_table(sweep, members[:limit])] if limit else []
    session.output.answer({**sweep, "results": members}, sweep_sheet(sweep, utc_now()), *rungs, *table)
    if len(members) > limit:
        session.output.note(f"There are {len(members)} members; see them with --limit {len(members)}.")


@sweep_app.command("cancel")
def cancel_command(ctx: typer.Context, sweep_id: SweepId, as_json: JsonFlag = False) -> None:
    """Stop all members of a sweep, waiting or running."""
    session = begin(ctx, as_json=as_json)
    sweep = session.ask(lambda client: client.cancel_sweep(sweep_id))
    session.output.answer(sweep, f"Sweep {sweep['id']} is being cancelled; members that run stop within their grace.")


@sweep_app.command("retry")
def retry_command(ctx: typer.Context, sweep_id: SweepId, as_json: JsonFlag = False) -> None:
    """Run the failed members of a sweep again, inside the sweep."""
    session = begin(ctx, as_json=as_json)
    sweep = session.ask(lambda client: client.retry_sweep(sweep_id))
    many = sweep["retried"]
    told = "1 member of it runs" if many == 1 else f"{many} members of it run"
    session.output.answer(sweep, f"Sweep {sweep['id']} goes on: {told} again.")


@sweep_app.command("clone")
def clone_command(ctx: typer.Context, sweep_id: SweepId, sets: Sets = None, as_json: JsonFlag = False) -> None:
    """Submit the spec of a sweep again, as a new sweep; --set changes keys of it, such as sweep.members=81."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        changes: JobSpec = {}
        if sets:
            before = client.sweep(sweep_id)["spec"]
            after = apply_sets(before, sets)
            changes = _changed(before, {key: value for key, value in after.items() if key != "sweep"})
            if inner := _changed(before["sweep"], after["sweep"]):
                changes["sweep"] = inner
        sweep = client.clone_sweep(sweep_id, changes=changes)
    warn_of(session.output, sweep)
    session.output.answer(sweep, submitted_line(sweep))


def _changed(before: JobSpec, after: object) -> JobSpec:
    if not isinstance(after, dict):
        raise UsageError("--set sweep: set its keys, such as sweep.members=81.")
    return {key: value for key, value in after.items() if key not in before or value != before[key]}
