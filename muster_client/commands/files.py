"""The commands about the files that jobs leave: files, download."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster_client.answers.terms import FINISHED
from muster_client.client import Client
from muster_client.commands.options import Attempt, JobId, JsonFlag
from muster_client.errors import EXIT_NOT_FOUND
from muster_client.local.download import DownloadError, chosen, is_there, places, write
from muster_client.local.terminal import clean
from muster_client.session import begin
from muster_client.show.filesheet import files_notes, files_table
from muster_client.show.output import Output

if TYPE_CHECKING:
    from muster_client.answers.outputs import OutputFile, OutputFilePage


def files_command(ctx: typer.Context, job_id: JobId, attempt: Attempt = None, as_json: JsonFlag = False) -> None:
    """List the files that a job left, and what was not kept and why."""
    session = begin(ctx, as_json=as_json)
    files = session.ask(lambda client: client.files(job_id, attempt=attempt))
    session.output.answer(files, files_table(files["results"]))
    for note in files_notes(files["summary"]):
        session.output.note(note)


def download_command(
    ctx: typer.Context,
    *,
    job_id: JobId,
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATTERN]...", help="Only files whose path fits one, such as '*.csv'."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to; default: job-JOB.")
    ] = None,
    attempt: Attempt = None,
    rank: Annotated[int | None, typer.Option("--rank", min=0, help="Only of this rank.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are other ones.")] = False,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="How long to wait for files on their way.")
    ] = 60.0,
    as_json: JsonFlag = False,
) -> None:
    """Download the files that a job left."""
    session = begin(ctx, as_json=as_json)
    target = folder or Path(f"job-{job_id}")
    with session.client() as client:
        files = _files(client, session.output, job_id, attempt=attempt, timeout_s=timeout_s)
        wanted = chosen(files["results"], patterns or (), rank=rank)
        found = list(zip(wanted, places(wanted, target), strict=True))
        missing = [(file, place) for file, place in found if not is_there(place, file)]
        _require_free([place for _, place in missing], force=force)
        _download(client, session.output, job_id, missing)
    session.output.answer(
        {"results": [{**file, "place": str(place)} for file, place in found]},
        f"{len(found)} files are in {target}{'/' if found else ''}, {len(missing)} of them new.",
    )
    for note in files_notes(files["summary"]):
        session.output.note(note)
    if not found:
        raise typer.Exit(EXIT_NOT_FOUND)


def _files(client: Client, output: Output, job_id: int, *, attempt: int | None, timeout_s: float) -> OutputFilePage:
    """The files of a job, once nothing of one that has ended is on its way any more, or the time is over."""
    waited_s = 0.0
    with output.busy("Waiting for files that are on their way"):
        while True:
            ended = client.job(job_id)["state"] in FINISHED
            files = client.files(job_id, attempt=attempt)
            if not ended or not files["summary"]["pending"] or waited_s >= timeout_s:
                return files
            client.pause()
            waited_s += 1.0


def _require_free(places_: list[Path], *, force: bool) -> None:
    taken = [place for place in places_ if place.is_symlink() or place.exists()]
    folders = [place for place in taken if place.is_dir() and not place.is_symlink()]
    if folders or (taken and not force):
        first = (folders or taken)[0]
        hint = "It is a folder." if folders else "Give --force to replace it."
        raise DownloadError(f"{clean(str(first))} is there already, and is another file. {hint}")


def _download(client: Client, output: Output, job_id: int, files: list[tuple[OutputFile, Path]]) -> None:
    with output.progress("Downloading", sum(file["size"] for file, _ in files)) as progress:

        def counted(parts: Iterator[bytes]) -> Iterator[bytes]:
            for part in parts:
                yield part
                progress.advance(progress.task_ids[0], len(part))

        for file, place in files:
            write(place, file, counted(client.read_file(job_id, file)))
