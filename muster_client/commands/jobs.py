"""The commands about jobs that are there: ls, show, why, logs, cancel, requeue, wait."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from muster_client.calls.logs import LogPage, LogTurn
from muster_client.client import Client
from muster_client.commands.options import (
    Attempt,
    JobId,
    JobIds,
    JsonFlag,
    Rank,
    States,
    Tags,
    job_number,
    tags_for_api,
)
from muster_client.errors import EXIT_ERROR, EXIT_NOT_FOUND, ApiError, UsageError
from muster_client.follow import exit_status_of, labels_ranks, show_logs, tell_end, tell_that_it_goes_on
from muster_client.session import begin
from muster_client.show.arraysheet import array_members_table, array_sheet
from muster_client.show.output import Output
from muster_client.show.render import attempts_table, job_sheet, jobs_table, why_sheet
from muster_client.show.times import utc_now
from muster_client.show.trainingsheet import training_lines

if TYPE_CHECKING:
    from muster_client.answers.arrays import Array
    from muster_client.answers.jobs import Job, NotCancelled

T = TypeVar("T")
U = TypeVar("U")
_STATES = {"active": "is being stopped"}


def ls_command(
    ctx: typer.Context,
    *,
    state: States = None,
    vc: Annotated[str | None, typer.Option(help="Of this virtual cluster.", show_default=False)] = None,
    owner: Annotated[str | None, typer.Option(help="Of this user.", show_default=False)] = None,
    tenant: Annotated[str | None, typer.Option(help="Of this tenant.", show_default=False)] = None,
    tag: Tags = None,
    search: Annotated[
        str | None, typer.Option(help="With this text in the name, or this number.", show_default=False)
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    group: Annotated[
        int | None, typer.Option(min=1, help="The members of this sweep or array, one by one.", show_default=False)
    ] = None,
    members: Annotated[
        bool, typer.Option("--members", help="Each member of a group, not one line for all of them.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="At most this many.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on from the `next` of --json.", show_default=False)] = None,
    as_json: JsonFlag = False,
) -> None:
    """List jobs, newest first, with one line for each sweep or array."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        page = client.jobs(
            limit=limit,
            cursor=cursor,
            state=state or (),
            vc=vc,
            owner=owner,
            tenant=tenant,
            tag=tags_for_api(tag),
            search=search,
            mine=mine,
            group=group,
            members=members or group is not None,
        )
    session.output.answer(page, jobs_table(page["results"], utc_now()))
    if page["next"] is not None:
        session.output.note(f"There are more; see them with --limit {limit * 2}.")


def show_command(ctx: typer.Context, job_id: JobId, as_json: JsonFlag = False) -> None:
    """Show one job and its attempts, or one array and its first members."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        job = _either(lambda: client.job(job_id), lambda: client.array(job_id))
        if "first_index" in job:
            show_array(client, session.output, job_id)
            return
        attempts = client.attempts(job_id) if not as_json and job["attempts"] else []
        told = _known(lambda: client.training(job_id)) if attempts else None
        fairness = _known(lambda: client.fairness(job_id)) if job["gpus_total"] and not as_json else None
    training = training_lines(told) if told is not None else []
    now = utc_now()
    said: list[Text | str] = ["", *training] if training else []
    tries = ["", attempts_table(attempts, now)] if attempts else []
    session.output.answer(job, job_sheet(job, now, fairness), *said, *tries)


def show_array(client: Client, output: Output, array_id: int, *, state: str | None = None, limit: int = 20) -> None:
    """Print an array and its first members; as JSON, all of them."""
    array = client.array(array_id)
    if output.as_json:
        output.answer({**array, "results": client.array_members(array_id, state=state)})
        return
    members = client.array_members(array_id, state=state, limit=limit + 1) if limit else []
    table = ["", array_members_table(array, members[:limit])] if members else []
    output.answer(array, array_sheet(array, utc_now()), *table)
    if len(members) > limit:
        output.note(f"There are more members; see them with --limit {limit * 2}, or with --state failed.")


def _known(ask: Callable[[], T]) -> T | None:
    """The server's answer; None if the server does not know the question."""
    try:
        return ask()
    except ApiError as error:
        if error.exit_status != EXIT_NOT_FOUND:
            raise
        return None


def _either(first: Callable[[], T], other: Callable[[], U]) -> T | U:
    """The answer to the first question, else to the other one; raises the refusal of the first if both are refused."""
    try:
        return first()
    except ApiError as refusal:
        if refusal.exit_status != EXIT_NOT_FOUND or (found := _known(other)) is None:
            raise
        return found


def why_command(ctx: typer.Context, job_id: JobId, as_json: JsonFlag = False) -> None:
    """Tell why a job waits or ended, and what would help."""
    session = begin(ctx, as_json=as_json)
    why = session.ask(lambda client: client.why(job_id))
    session.output.answer(why, why_sheet(why))


def logs_command(
    ctx: typer.Context,
    *,
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the job writes.")] = False,
    rank: Rank = None,
    attempt: Attempt = None,
    label: Annotated[
        bool | None,
        typer.Option("--label/--no-label", help="Print the rank in front of each line.", show_default="on a terminal"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Print what a job wrote; --json prints one JSON line for each piece."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        labelled = bool(label)
        if label is None and rank is None and session.output.on_terminal:
            labelled = labels_ranks(session.output, client.job(job_id))
        if not follow:
            _print_stored(client, session.output, job_id, attempt=attempt, rank=rank, labelled=labelled)
            return
        try:
            show_logs(client, session.output, job_id, attempt=attempt, rank=rank, labelled=labelled)
        except KeyboardInterrupt:
            tell_that_it_goes_on(session.output, job_id)
            raise


def cancel_command(
    ctx: typer.Context,
    *,
    job_ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="[JOB...]", parser=job_number, help="The numbers of jobs or arrays, or ARRAY_INDEX."),
    ] = None,
    tag: Tags = None,
    state: States = None,
    owner: Annotated[
        str | None, typer.Option(help="Of this user instead of your own, if you may.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Cancel without asking.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Stop jobs or arrays, waiting or running: those with the numbers, or all of yours that match --tag and --state."""
    session = begin(ctx, as_json=as_json)
    if job_ids and (tag or state or owner):
        raise UsageError("Give numbers of jobs, or --tag and --state, not both.")
    if job_ids:
        with session.client() as client:
            _cancel_each(client, session.output, job_ids)
    elif tag or state:
        filters = {"tag": tags_for_api(tag), "state": state or (), "owner": owner, "mine": owner is None}
        with session.client() as client:
            _cancel_all(client, session.output, filters, yes=yes)
    else:
        raise UsageError("Say which jobs: their numbers, or --tag KEY=VALUE or --state STATE.")


def _cancel_each(client: Client, output: Output, job_ids: list[int]) -> None:
    results: list[Job | Array] = []
    errors: list[NotCancelled] = []
    statuses: list[int] = []
    for job_id in dict.fromkeys(job_ids):
        # One job that cannot be stopped must not keep the others running.
        try:
            results.append(_either(partial(client.cancel, job_id), partial(client.cancel_array, job_id)))
        except ApiError as error:
            errors.append({"id": job_id, "problem": error.problem()})
            statuses.append(error.exit_status)
    lines = [f"{_kind(one)} {one['id']} {_STATES.get(one['state'], one['state'])}." for one in results]
    output.answer({"results": results, "errors": errors}, *lines)
    _note_refusals(output, errors)
    if statuses:
        raise typer.Exit(statuses[0])


def _kind(found: Job | Array) -> str:
    return "Array" if "first_index" in found else "Job"


def _cancel_all(client: Client, output: Output, filters: dict[str, Any], *, yes: bool) -> None:
    count = client.count_jobs(**filters)["cancellable"]
    if not count:
        output.answer({"cancelled": [], "refused": []}, "No job that you may cancel matches.")
        return
    if not yes and not typer.confirm(f"Cancel {count} {'job' if count == 1 else 'jobs'}?", err=True):
        output.note("No job was cancelled.")
        raise typer.Exit(EXIT_ERROR)
    result = client.cancel_jobs(**filters)
    done = len(result["cancelled"])
    output.answer(result, f"Cancelled {done} {'job' if done == 1 else 'jobs'}; running jobs stop within their grace.")
    _note_refusals(output, result["refused"])
    if result["refused"]:
        raise typer.Exit(EXIT_ERROR)


def _note_refusals(output: Output, refused: list[NotCancelled]) -> None:
    for item in refused:
        output.note(f"Job {item['id']}: {item['problem']['detail'] or item['problem']['title']}")


def requeue_command(ctx: typer.Context, job_id: JobId, as_json: JsonFlag = False) -> None:
    """Stop a job and put it back into the queue."""
    session = begin(ctx, as_json=as_json)
    job = session.ask(lambda client: client.requeue(job_id))
    session.output.answer(job, f"Job {job['id']} goes back into the queue.")


def wait_command(
    ctx: typer.Context,
    job_ids: JobIds,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Give up then.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Wait until jobs or arrays have finished; end with the exit status of the first that did not succeed."""
    session = begin(ctx, as_json=as_json)
    results: list[Job | Array] = []
    with session.client() as client:
        for job_id in dict.fromkeys(job_ids):
            try:
                job = _wait(client, job_id, timeout_s)
            except KeyboardInterrupt:
                tell_that_it_goes_on(session.output, job_id)
                raise
            if job is None:
                session.output.warn(f"job {job_id} has not finished after {timeout_s:g} s.")
                raise typer.Exit(EXIT_ERROR)
            if "first_index" in job:
                session.output.note(f"Array {job['id']} {job['state']}{': ' if job['reason'] else ''}{job['reason']}.")
            else:
                tell_end(session.output, job)
            results.append(job)
    if as_json:
        session.output.answer({"results": results})
    raise typer.Exit(next((status for job in results if (status := exit_status_of(job))), 0))


def _wait(client: Client, number: int, timeout_s: float | None) -> Job | Array | None:
    """The job or the array with this number once it has finished; None if that took longer than the timeout."""
    is_array = "first_index" in _either(lambda: client.job(number), lambda: client.array(number))
    return (client.wait_for_array if is_array else client.wait)(number, timeout_s=timeout_s)


def _print_stored(
    client: Client, output: Output, job_id: int, *, attempt: int | None, rank: int | None, labelled: bool
) -> None:
    writer = output.log_writer(labelled=labelled)
    texts: defaultdict[int, _RankText] = defaultdict(_RankText)
    page: LogPage | None = None

    def tell(rank: int, found: Iterable[tuple[int, str]]) -> None:
        for offset, text in found:
            attempt = page.attempt if page else None
            output.line({"event": "log", "attempt": attempt, "offset": offset, "rank": rank, "text": text})

    try:
        for page in client.read_logs(job_id, attempt=attempt, rank=rank):
            for turn in page.turns:
                if output.as_json:
                    tell(turn.rank, texts[turn.rank].read(turn))
                else:
                    writer.write(turn.data, rank=turn.rank)
        for of, text in texts.items():
            tell(of, text.finish())
    finally:
        writer.close()


class _RankText:
    """One rank's output as text. A turn may end within a character; its first bytes then go with the next one."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._end = 0

    def read(self, turn: LogTurn) -> Iterator[tuple[int, str]]:
        """Yield the text that the turn completes, with the place of its first byte."""
        if turn.offset != self._end:
            yield from self.finish()
        held = len(self._decoder.getstate()[0])
        self._end = turn.offset + len(turn.data)
        yield turn.offset - held, self._decoder.decode(turn.data)

    def finish(self) -> Iterator[tuple[int, str]]:
        """Yield the character whose last bytes did not come."""
        held = len(self._decoder.getstate()[0])
        if held:
            yield self._end - held, self._decoder.decode(b"", final=True)
