"""The commands that bring work in: submit, run, dry-run."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster_client.commands.options import Follow, IdempotencyKey, JsonFlag, Sets, SpecFile
from muster_client.errors import EXIT_ERROR, ApiError
from muster_client.local.spec import parse_value
from muster_client.session import Session, begin
from muster_client.show.render import dry_run_sheet
from muster_client.submission import for_dry_run, read_spec_argument, submit

if TYPE_CHECKING:
    from muster_client.answers.service import FieldError, Problem
    from muster_client.answers.terms import JobSpec


# Options end at the first word of the command, so that its own options reach it.
CONTEXT_SETTINGS = {"run": {"allow_interspersed_args": False}}


class Screening(StrEnum):
    """The choice whether a job is first screened on one or two GPUs."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


_OPTIONS = frozenset(
    {
        "name",
        "vc",
        "gpus",
        "elastic",
        "nodes",
        "cpus",
        "memory",
        "image",
        "time",
        "expected",
        "code",
        "screening",
        "begin",
    }
)
_LISTS = {"nodes_in": "--nodes-in", "exclude_nodes": "--exclude-nodes", "after": "--after"}


def submit_command(
    ctx: typer.Context,
    *,
    file: SpecFile,
    follow: Follow = False,
    sets: Sets = None,
    idempotency_key: IdempotencyKey = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit the job that a spec describes; with --follow, end with the job's exit status."""
    session = begin(ctx, as_json=as_json)
    spec, base = read_spec_argument(file, sets)
    with session.client() as client:
        status = submit(client, session.output, spec, base, key=idempotency_key, follow=follow)
    raise typer.Exit(status)


def run_command(
    ctx: typer.Context,
    *,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    gpus: Annotated[
        str | None,
        typer.Option(help="GPUs per node: 4, A100:4, or A100:4,V100:8 in order of preference.", show_default=False),
    ] = None,
    elastic: Annotated[
        str | None,
        typer.Option(
            metavar="MIN-MAX[:gang]",
            help="GPUs between which it may be resized, per node or in all; it must save its work on SIGTERM.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="How many nodes.", show_default=False)] = None,
    cpus: Annotated[int | None, typer.Option(min=1, help="CPUs per node.", show_default=False)] = None,
    memory: Annotated[str | None, typer.Option(help="Memory per node, such as 64GiB.", show_default=False)] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--output", metavar="PATTERN", help="Files to keep, such as 'results/**'; repeat it for more."),
    ] = None,
    nodes_in: Annotated[
        str | None, typer.Option("--nodes-in", metavar="NODE,…", help="Nodes that it may run on.", show_default=False)
    ] = None,
    exclude_nodes: Annotated[
        str | None,
        typer.Option("--exclude-nodes", metavar="NODE,…", help="Nodes that it may not run on.", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of the job.", show_default=False)] = None,
    vc: Annotated[str | None, typer.Option(help="The virtual cluster.", show_default=False)] = None,
    image: Annotated[str | None, typer.Option(help="The image to run it in.", show_default=False)] = None,
    time: Annotated[str | None, typer.Option(help="The time limit, such as 30m or 24h.", show_default=False)] = None,
    expected: Annotated[
        str | None, typer.Option(help="Your estimate of the run time, such as 2h.", show_default=False)
    ] = None,
    code: Annotated[str | None, typer.Option(help="A folder to run it in, such as .", show_default=False)] = None,
    mounts: Annotated[
        list[str] | None,
        typer.Option("--mount", metavar="VOLUME:/PATH[:ro|rw]", help="A volume in its container; repeat it for more."),
    ] = None,
    screening: Annotated[
        Screening | None, typer.Option(help="Whether the job is first screened on a few GPUs.", show_default=False)
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="JOB[:KIND]",
            help="A job to wait for until it is ok (the default), any, failed or started; repeat it for more.",
        ),
    ] = None,
    begin_: Annotated[
        str | None,
        typer.Option(
            "--begin",
            metavar="TIME",
            help="When it may start: 2h from now, or 2026-12-01T08:00+01:00.",
            show_default=False,
        ),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Hold it back until muster release.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Submit nothing: tell when it would start.")] = False,
    follow: Follow = False,
    idempotency_key: IdempotencyKey = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit one command without writing a spec; one quoted argument is read by the shell of the job."""
    session = begin(ctx, as_json=as_json)
    given = {
        "name": name,
        "vc": vc,
        "gpus": _gpus(gpus) if gpus is not None else None,
        **_elastic(elastic),
        "nodes": nodes,
        "cpus": cpus,
        "memory": memory,
        "outputs": outputs or None,
        "nodes_in": _names(nodes_in),
        "exclude_nodes": _names(exclude_nodes),
        "image": image,
        "time": time,
        "expected": expected,
        "code": code,
        "mounts": mounts or None,
        "screening": screening.value if screening else None,
        "after": [part.strip() for text in after for part in text.split(",")] if after else None,
        "begin": begin_,
        "hold": hold or None,
    }
    # Several words are passed on exactly as they came; a single one may hold pipes and variables.
    text = command[0] if len(command) == 1 else shlex.join(command)
    spec: JobSpec = {"command": text, **{key: value for key, value in given.items() if value is not None}}
    if dry_run:
        _tell_outlook(session, spec, Path.cwd())
        return
    with session.client() as client:
        try:
            status = submit(client, session.output, spec, Path.cwd(), key=idempotency_key, follow=follow)
        except ApiError as error:
            # Programs get the problem as the server sent it.
            raise error if as_json else ApiError(_by_option(error.problem(), mounts or [])) from error
    raise typer.Exit(status)


def _gpus(text: str) -> Any:
    """`4`, `A100:4`, or the mapping for a list such as `A100:4,V100:8`."""
    return {"any_of": _names(text)} if "," in text else parse_value(text)


def _elastic(text: str | None) -> dict[str, Any]:
    """The keys of a spec for `1-8` or `1-32:gang`; a job that may be resized saves its work."""
    if text is None:
        return {}
    sizes, _, over = text.partition(":")
    least, _, most = sizes.partition("-")
    if not (least.isdecimal() and most.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not a range of sizes: write 1-8 or 1-32:gang", param_hint="--elastic")
    return {"elastic": {"min": int(least), "max": int(most)} | ({"over": over} if over else {}), "checkpoint": {}}


def _names(text: str | None) -> list[str] | None:
    """The parts of a text that commas separate; None for no text."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _by_option(problem: Problem, mounts: list[str]) -> Problem:
    """The problem, with the command's options in place of the spec's fields: the user wrote no spec."""
    errors: list[FieldError] = []
    detail = problem["detail"]
    for one in problem["errors"]:
        field, _, rest = one["field"].partition(".")
        if field == "mounts":
            option = f"--mount {mounts[int(rest)]}" if rest.isdecimal() and int(rest) < len(mounts) else "--mount"
        elif field == "outputs":
            option = "--output"
        else:
            option = _LISTS.get(field) or (f"--{field}" if field in _OPTIONS else one["field"])
        errors.append({**one, "field": option})
        if detail.startswith(f"{one['field']}: "):
            detail = option + detail.removeprefix(one["field"])
    return {**problem, "detail": detail, "errors": errors}


def dry_run_command(ctx: typer.Context, file: SpecFile, sets: Sets = None, as_json: JsonFlag = False) -> None:
    """Check a spec and tell whether it could run and would start now; stores nothing. Fails if it could never run."""
    session = begin(ctx, as_json=as_json)
    _tell_outlook(session, *read_spec_argument(file, sets))


def _tell_outlook(session: Session, spec: JobSpec, base: Path) -> None:
    """Print the answer to a dry run, and fail if the job could never run."""
    result = session.ask(lambda client: client.dry_run(for_dry_run(client, session.output, spec, base)))
    session.output.answer(result, dry_run_sheet(result))
    if not result["feasible"] or not result["fits_quota"]:
        why = result["hold"]["detail"] if result["hold"] else "it needs more than the pool or the quota has"
        session.output.warn(f"this job could never run as the pool and its quota are: {why}.")
        raise typer.Exit(EXIT_ERROR)
