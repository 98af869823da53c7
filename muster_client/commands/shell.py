"""The command `shell`."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from muster_client.client import Client
from muster_client.commands.options import JobId, JsonFlag
from muster_client.errors import EXIT_NO_SHELL
from muster_client.local.shell import ShellOnTerminal, terminal_size
from muster_client.session import begin
from muster_client.show.output import Output

_TERM = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]{0,63}")


def shell_command(
    ctx: typer.Context,
    *,
    job_id: JobId,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Run this.", show_default=False)
    ] = None,
    rank: Annotated[int, typer.Option("--rank", min=0, help="In this rank of the job.")] = 0,
    no_terminal: Annotated[
        bool, typer.Option("--no-terminal", "-T", help="Pass bytes as they are, as if input were a pipe.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Open a shell in a running job, or run a command in it; `~.` at the start of a line leaves.

    It ends with the exit status of the shell, or with 255 if something else ended it. --json has no terminal and prints
    one JSON line for each piece of output, and one for the end.
    """
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        raise typer.Exit(run_shell(client, session.output, job_id, command or (), rank=rank, raw=no_terminal))


def run_shell(
    client: Client, output: Output, job_id: int, command: Sequence[str], *, rank: int = 0, raw: bool = False
) -> int:
    """Return the exit status of a shell on this terminal; with `raw` it has none, as where input or output is none."""
    terminal = not (raw or output.as_json) and all(one and one.isatty() for one in (sys.stdin, sys.stdout))
    rows, cols = terminal_size() if terminal else (24, 80)
    term = os.environ.get("TERM", "")
    opened = client.open_shell(
        job_id,
        rank=rank,
        command=command,
        terminal=terminal,
        term=term if _TERM.fullmatch(term) else "xterm",
        rows=rows,
        cols=cols,
    )
    with client.shell_calls(opened) as calls:
        end = ShellOnTerminal(calls, terminal=terminal, show=_lines(output) if output.as_json else None).run()
    if output.as_json:
        output.line({"event": "end", **asdict(end)})
    if end.reason == "exited" and end.exit_code is not None:
        return end.exit_code
    output.warn(f"the shell was closed ({end.reason}): {end.detail or 'no more is known'}")
    return EXIT_NO_SHELL


def _lines(output: Output) -> Callable[[bytes], None]:
    """Return a function that prints output as lines; a character that two pieces share goes with the second."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def show(data: bytes) -> None:
        text = decoder.decode(data)
        if text:
            output.line({"event": "output", "text": text})

    return show
