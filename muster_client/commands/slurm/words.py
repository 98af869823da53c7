"""The commands of Slurm that the server answers wholly: squeue and its like."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag
from muster_client.session import begin

CONTEXT_SETTINGS = {
    name: {"ignore_unknown_options": True, "allow_interspersed_args": False}
    for name in ("squeue", "scancel", "sinfo", "sacct", "scontrol")
}
_PREFIXES = ("SLURM_", "SLURMD_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_")

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[WORD]...", help="Options and words as Slurm's command takes them.", show_default=False),
]


def squeue_command(ctx: typer.Context, *, words: Words = None, as_json: JsonFlag = False) -> None:
    """List waiting and running jobs, as Slurm's squeue does and with its options."""
    _run(ctx, "squeue", [*(["--json"] if as_json else []), *(words or [])])


def scancel_command(ctx: typer.Context, *, words: Words = None, as_json: JsonFlag = False) -> None:
    """End jobs by their numbers, or by name, user, state and the like, as Slurm's scancel does."""
    _run(ctx, "scancel", words or [], as_json=as_json)


def scontrol_command(ctx: typer.Context, *, words: Words = None, as_json: JsonFlag = False) -> None:
    """Show jobs, nodes and partitions in full, and hold, release, requeue and update jobs, as Slurm's scontrol does."""
    _run(ctx, "scontrol", words or [], as_json=as_json)


def sinfo_command(ctx: typer.Context, *, words: Words = None, as_json: JsonFlag = False) -> None:
    """List partitions and the states of their nodes, as Slurm's sinfo does and with its options."""
    _run(ctx, "sinfo", words or [], as_json=as_json)


def sacct_command(ctx: typer.Context, *, words: Words = None, as_json: JsonFlag = False) -> None:
    """List jobs and what became of them, as Slurm's sacct does and with its options."""
    _run(ctx, "sacct", words or [], as_json=as_json)


def _run(ctx: typer.Context, command: str, words: list[str], *, as_json: bool = False) -> None:
    """Print the answer of the command, or with `as_json` all of it as a document, and end with its exit code."""
    session = begin(ctx, as_json=as_json)
    answer = session.ask(
        lambda client: client.slurm(
            command,
            words,
            environment=_environment(session.environ),
            stdin=sys.stdin.read() if "-" in words else "",
            folder=str(Path.cwd()),
        )
    )
    if as_json:
        session.output.answer(answer)
    else:
        session.output.relay(answer)
    raise typer.Exit(answer["exit_code"])


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Slurm's commands read, and the time zone."""
    found = {name: value for name, value in environ.items() if name.startswith(_PREFIXES) or name in {"COLUMNS", "TZ"}}
    return {"TZ": time.strftime("%z"), **found}
