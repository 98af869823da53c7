"""The command `sbatch`: the script and the words go to the server, with the folder where the nodes do not have it."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from muster_client.client import Client
from muster_client.commands.options import JsonFlag
from muster_client.errors import EXIT_ERROR, ApiError, MusterError, SpecError
from muster_client.local.scripts import Words, exit_code_of, split, variables
from muster_client.local.spec import spec_text
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.output import Output
from muster_client.submission import uploaded_folder

if TYPE_CHECKING:
    from muster_client.answers.forecast import SubmittedScript, TranslatedScript


class Script(TypedDict):
    """A script as it was typed."""

    script: str
    name: str
    options: Sequence[str]
    arguments: Sequence[str]
    folder: str


CONTEXT_SETTINGS = {"sbatch": {"ignore_unknown_options": True, "allow_interspersed_args": False}}


def sbatch_command(
    ctx: typer.Context,
    *,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[OPTION]... [SCRIPT [ARGUMENT]...]",
            help="Options of sbatch, and the script; without a script it comes from standard input.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit a script with #SBATCH directives, in the current folder; --test-only shows the spec that it becomes."""
    session = begin(ctx, as_json=as_json)
    output, typed = session.output, split(words or [])
    script = _script(typed)
    with session.client() as client:
        if typed.has("test-only"):
            found = client.translate_script(**script, environment=variables(session.environ))
            if as_json:
                output.answer(found)
            else:
                output.text(_report(found) + spec_text(found["spec"]))
            return
        answer = submitted(client, output, script, session.environ)
        if as_json:
            output.answer(answer)
        else:
            output.relay(answer)
        if answer["exit_code"] or not answer["wait"]:
            raise typer.Exit(answer["exit_code"])
        raise typer.Exit(max(_exit_codes(client, answer)))


def submitted(client: Client, output: Output, script: Script, environ: Mapping[str, str]) -> SubmittedScript:
    """Submit a script, with the current folder where the nodes do not have it, and return the answer."""
    code, environment = "", variables(environ)
    try:
        if client.translate_script(**script, environment=environment)["folder"] is None:
            code = uploaded_folder(client, output, Path.cwd())
        else:
            environment = _sendable(environ)
    except ApiError as error:
        if error.status != 422:
            raise
        # The submission is refused too, in the words of sbatch and with its exit code.
    return client.submit_script(
        **script, environment=environment, host=socket.gethostname(), zone=time.strftime("%z"), code=code
    )


def _sendable(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without credentials of Muster, and without values that are not UTF-8."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith("MUSTER_") and not any("\udc80" <= one <= "\udcff" for one in name + value)
    }


def _exit_codes(client: Client, answer: SubmittedScript) -> Iterator[int]:
    """Yield the exit codes of the job or of each member of the array, once they are over, as `sbatch --wait` has it."""
    if answer["array"] is None:
        job = client.wait(answer["job"] or 0)
        yield (
            EXIT_ERROR
            if job is None
            else exit_code_of(job["state"], job["exit_code"], job["reason"], job["started_at"])
        )
        return
    client.wait_for_array(answer["array"])
    for one in client.array_members(answer["array"]):
        yield exit_code_of(one["state"], one["exit_code"], one["why"], one["started_at"])


def _script(typed: Words) -> Script:
    """Return what was typed, with the text of the script and the name that its job has by default."""
    text, name = "", "wrap"
    try:
        if not typed.wraps and typed.script is None:
            text, name = sys.stdin.buffer.read().decode(), "sbatch"
        elif typed.script is not None:
            path = Path(typed.script)
            text, name = path.read_bytes().decode(), path.name
    except UnicodeDecodeError as error:
        raise SpecError("The script is not text in UTF-8.") from error
    except OSError as error:
        raise MusterError(f"{typed.script}: {error.strerror}") from error
    return {
        "script": text,
        "name": name,
        "options": typed.options,
        "arguments": typed.arguments,
        "folder": str(Path.cwd()),
    }


def _report(found: TranslatedScript) -> str:
    """Return a comment line for each option, with its line of the script or where else it was given."""
    lines = []
    for one in found["report"]:
        where = one["source"] if one["line"] is None else f"line {one['line']}"
        lines.append(f"{where}: {one['text']} - {one['fate']}: {one['says']}")
    lines += [f"{note}." for note in found["notes"]]
    return "".join(f"# {clean(line)}\n" for line in lines)
