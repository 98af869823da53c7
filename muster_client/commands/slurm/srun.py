"""The command `srun` outside a job: a job for one command, whose output or terminal is here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster_client.answers.terms import FINISHED
from muster_client.client import Client
from muster_client.commands.options import JsonFlag
from muster_client.commands.shell import run_shell
from muster_client.commands.slurm.sbatch import Script, submitted
from muster_client.errors import EXIT_ERROR, ApiError, UsageError
from muster_client.follow import exit_status_of, follow_to_the_end, tell_end
from muster_client.local.scripts import FLAGS, SHORT_FLAGS
from muster_client.session import begin
from muster_client.show.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterator


CONTEXT_SETTINGS = {"srun": {"ignore_unknown_options": True, "allow_interspersed_args": False}}
# What srun says of the tasks, and not of the job: the srun in the job gets it.
_OF_TASKS = frozenset(
    {
        "cpu-bind", "disable-status", "error", "exact", "input", "kill-on-bad-exit", "label", "mem-bind", "mpi",
        "msg-timeout", "multi-prog", "output", "overlap", "preserve-env", "quit-on-interrupt", "task-epilog",
        "task-prolog", "unbuffered", "wait", "whole", "K", "W", "X", "E", "e", "i", "l", "o", "u",
    }
)  # fmt: skip
_FLAGS = (FLAGS - {"wait"}) | {
    "disable-status", "exact", "kill-on-bad-exit", "label", "multi-prog", "overlap", "preserve-env", "pty",
    "quit-on-interrupt", "unbuffered", "whole",
}  # fmt: skip
_SHORT_FLAGS = (SHORT_FLAGS - {"W"}) | frozenset("EKXlu")
_SAVED = ".muster-terminal"
# Saves what a script finds, and waits for the end of the terminal, with which the job is cancelled.
_AWAIT_TERMINAL = f"""#!/bin/sh
umask 077
env -0 >"$MUSTER_WORKDIR/{_SAVED}.new" && mv "$MUSTER_WORKDIR/{_SAVED}.new" "$MUSTER_WORKDIR/{_SAVED}"
exec sleep infinity
"""
# Becomes the command with what the script found; a shell of its own carries a mark and its kind of terminal.
_ENTER = f"""
import os, sys, time
path, command, found = os.path.join(sys.argv[1], "{_SAVED}"), sys.argv[2:], dict(os.environb)
for _ in range(200):
    if os.path.exists(path):
        break
    time.sleep(0.05)
with open(path, "rb") as file:
    saved = dict(entry.split(b"=", 1) for entry in file.read().split(b"\\0") if b"=" in entry)
os.chdir(saved.get(b"PWD", b"."))
own = {{name: value for name, value in found.items() if name == b"TERM" or name not in saved}}
try:
    os.execvpe(command[0], command, {{**saved, **own}})
except OSError as error:
    sys.exit("srun: error: " + command[0] + ": " + error.strerror)
"""


@dataclass(frozen=True, slots=True)
class _Typed:
    """The words by their part: options of the job, options of its tasks, and the command."""

    job: tuple[str, ...]
    tasks: tuple[str, ...]
    command: tuple[str, ...]
    terminal: bool


def srun_command(
    ctx: typer.Context,
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OPTION]... COMMAND [ARGUMENT]...",
            help="Options of srun or sbatch, and the command.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a command as a job, print what it prints, and end with its exit code; --pty opens a terminal in the job.

    Ctrl-C cancels the job.
    """
    session = begin(ctx, as_json=as_json)
    output, typed = session.output, _typed(words or [])
    if not typed.command:
        raise UsageError("srun needs a command: muster srun -n 4 hostname")
    if any(re.match(r"-a|--array\b", word) for word in typed.job):
        raise UsageError("srun runs no arrays: muster sbatch does")
    run = shlex.join(["srun", *typed.tasks, *typed.command])
    script: Script = {
        "script": _AWAIT_TERMINAL if typed.terminal else f"#!/bin/sh\nexec {run}\n",
        "name": Path(typed.command[0]).name,
        "options": ["--no-requeue", "--output=/dev/null", *typed.job],
        "arguments": [],
        "folder": str(Path.cwd()),
    }
    with session.client() as client:
        answer = submitted(client, output, script, session.environ)
        job_id = answer["job"]
        if job_id is None:
            output.relay({**answer, "stderr": re.sub(r"^sbatch: ", "srun: ", answer["stderr"], flags=re.MULTILINE)})
            raise typer.Exit(answer["exit_code"] or EXIT_ERROR)
        output.note(f"srun: job {job_id} queued and waiting for resources")
        with _cancelled_unless_over(client, job_id):
            if typed.terminal:
                code = _on_terminal(client, output, job_id, typed.command)
            else:
                code = exit_status_of(follow_to_the_end(client, output, client.job(job_id), labelled=False))
    raise typer.Exit(code)


def _typed(words: Sequence[str]) -> _Typed:
    job: list[str] = []
    tasks: list[str] = []
    terminal, at = False, 0
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
        if words[at].startswith("--"):
            name, equals, _ = words[at][2:].partition("=")
            parts = [(name, [words[at]])]
            takes_next = not equals and name not in _FLAGS
        else:
            parts, takes_next = _letters(words[at][1:])
        if takes_next:
            parts[-1][1].extend(words[at + 1 : at + 2])
            at += 1
        at += 1
        for name, part in parts:
            if name == "pty":
                terminal = True
            else:
                (tasks if name in _OF_TASKS else job).extend(part)
    command = words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
    return _Typed(tuple(job), tuple(tasks), tuple(command), terminal)


def _letters(cluster: str) -> tuple[list[tuple[str, list[str]]], bool]:
    """Return the options of a word such as `ln4`, and whether the last takes the next word as its value."""
    parts: list[tuple[str, list[str]]] = []
    for place, letter in enumerate(cluster):
        if letter not in _SHORT_FLAGS or (letter == "K" and cluster[place + 1 : place + 2].isdigit()):
            return [*parts, (letter, [f"-{cluster[place:]}"])], place == len(cluster) - 1
        parts.append((letter, [f"-{letter}"]))
    return parts, False


@contextmanager
def _cancelled_unless_over(client: Client, job_id: int) -> Iterator[None]:
    """Cancel the job when the body ends before it, by Ctrl-C too; one that has ended stays as it is."""
    try:
        yield
    finally:
        if client.job(job_id)["state"] not in FINISHED:
            client.cancel(job_id)


def _on_terminal(client: Client, output: Output, job_id: int, command: Sequence[str]) -> int:
    """Return the exit status of the command on this terminal, in the job once that runs."""
    enter = ["/bin/sh", "-c", 'exec "$MUSTER_PYTHON" -IS -c "$0" "$MUSTER_WORKDIR" "$@"', _ENTER, *command]
    while True:
        found = client.job(job_id)
        if found["state"] in FINISHED:
            tell_end(output, found)
            return exit_status_of(found)
        if found["state"] == "active":
            try:
                return run_shell(client, output, job_id, enter)
            except ApiError as error:
                if error.status != 409:  # it is about to start
                    raise
        client.pause()
