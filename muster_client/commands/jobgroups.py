"""The commands about job groups: `muster sweep` and `muster array`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from muster_client.calls.sweeps import SWEEP_STATES, SweepState
from muster_client.commands.group import Group
from muster_client.commands.jobs import show_array
from muster_client.commands.options import JsonFlag, Sets
from muster_client.errors import UsageError
from muster_client.follow import warn_of
from muster_client.local.spec import apply_sets, changed_keys
from muster_client.session import Session, begin
from muster_client.show.sweepsheet import by_value, members_table, rungs_table, sweep_sheet, sweeps_table
from muster_client.show.times import utc_now
from muster_client.submission import submitted_line

if TYPE_CHECKING:
    from muster_client.answers.queue import HeldMembers
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


@sweep_app.command("hold")
def hold_command(ctx: typer.Context, sweep_id: SweepId, as_json: JsonFlag = False) -> None:
    """Hold the waiting members of a sweep back until they are released."""
    session = begin(ctx, as_json=as_json)
    _tell_held(session, session.ask(lambda client: client.hold_sweep(sweep_id)), "are held")


@sweep_app.command("release")
def release_command(ctx: typer.Context, sweep_id: SweepId, as_json: JsonFlag = False) -> None:
    """Let the held members of a sweep wait for their turns again."""
    session = begin(ctx, as_json=as_json)
    _tell_held(session, session.ask(lambda client: client.release_sweep(sweep_id)), "wait for their turns")


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
            changes = changed_keys(before, apply_sets(before, sets), inner="sweep")
        sweep = client.clone_sweep(sweep_id, changes=changes)
    warn_of(session.output, sweep)
    session.output.answer(sweep, submitted_line("sweep", sweep))


array_app = typer.Typer(
    cls=Group, help="See, cancel and repeat arrays; `muster submit` submits them.", no_args_is_help=True
)

ArrayId = Annotated[int, typer.Argument(metavar="ARRAY", min=1, help="The number of the array.")]
Indices = Annotated[
    str | None, typer.Option(help="Only the members with these indices, such as 1,3,5-7.", show_default=False)
]


@array_app.command("show")
def array_show_command(
    ctx: typer.Context,
    array_id: ArrayId,
    *,
    state: Annotated[
        str | None,
        typer.Option(help="Members that are waiting, running, succeeded, failed or cancelled.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most this many members.")] = 20,
    as_json: JsonFlag = False,
) -> None:
    """Show one array and its first members; --json has all members."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        show_array(client, session.output, array_id, state=state, limit=limit)


@array_app.command("cancel")
def array_cancel_command(
    ctx: typer.Context, array_id: ArrayId, indices: Indices = None, as_json: JsonFlag = False
) -> None:
    """Stop the members of an array, waiting or running: all, or those with some indices."""
    session = begin(ctx, as_json=as_json)
    array = session.ask(lambda client: client.cancel_array(array_id, indices=indices))
    which = "is being cancelled" if indices is None else f"goes on without {indices}"
    session.output.answer(array, f"Array {array['id']} {which}; members that run stop within their grace.")


@array_app.command("hold")
def array_hold_command(ctx: typer.Context, array_id: ArrayId, as_json: JsonFlag = False) -> None:
    """Hold the waiting members of an array back until they are released."""
    session = begin(ctx, as_json=as_json)
    _tell_held(session, session.ask(lambda client: client.hold_array(array_id)), "are held")


@array_app.command("release")
def array_release_command(ctx: typer.Context, array_id: ArrayId, as_json: JsonFlag = False) -> None:
    """Let the held members of an array wait for their turns again."""
    session = begin(ctx, as_json=as_json)
    _tell_held(session, session.ask(lambda client: client.release_array(array_id)), "wait for their turns")


@array_app.command("retry")
def array_retry_command(
    ctx: typer.Context, array_id: ArrayId, indices: Indices = None, as_json: JsonFlag = False
) -> None:
    """Run the failed members of an array again, inside the array, or those with some indices."""
    session = begin(ctx, as_json=as_json)
    array = session.ask(lambda client: client.retry_array(array_id, indices=indices))
    many = array["retried"]
    told = "1 member of it runs" if many == 1 else f"{many} members of it run"
    session.output.answer(array, f"Array {array['id']} goes on: {told} again.")


@array_app.command("clone")
def array_clone_command(ctx: typer.Context, array_id: ArrayId, sets: Sets = None, as_json: JsonFlag = False) -> None:
    """Submit the spec of an array again, as a new array; --set changes keys of it, such as array.indices=0-99."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        changes: JobSpec = {}
        if sets:
            before = client.array(array_id)["spec"]
            changes = changed_keys(before, apply_sets(before, sets), inner="array")
        array = client.clone_array(array_id, changes=changes)
    warn_of(session.output, array)
    session.output.answer(array, submitted_line("array", array))


def _tell_held(session: Session, answer: HeldMembers, words: str) -> None:
    session.output.answer(answer, f"Members that {words}: {answer['members']}.")
