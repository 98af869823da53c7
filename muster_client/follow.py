"""Watches a job until its end and turns the end into an exit status."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from muster_client.answers.terms import FINISHED
from muster_client.calls.logs import LogEnd, LogEvent, LogState, LogText
from muster_client.client import Client
from muster_client.errors import EXIT_ERROR, EXIT_INTERRUPTED
from muster_client.local.terminal import LogWriter
from muster_client.show.output import Output

if TYPE_CHECKING:
    from muster_client.answers.arrays import Array, SubmittedArray
    from muster_client.answers.jobs import Job, SubmittedJob
    from muster_client.answers.sweeps import SubmittedSweep


def show_logs(
    client: Client,
    output: Output,
    job_id: int,
    *,
    attempt: int | None = None,
    rank: int | None = None,
    labelled: bool = False,
    after: str = "",
) -> str:
    """Print what a job writes until its stream ends; return the id of the last event."""
    writer = output.log_writer(labelled=labelled)
    try:
        for event in client.follow_logs(job_id, attempt=attempt, rank=rank, after=after):
            after = event.id
            _show(event, output, writer)
    finally:
        writer.close()
    return after


def labels_ranks(output: Output, job: Job) -> bool:
    """Return whether the lines of a job are printed with their ranks: those of several ranks on a terminal."""
    return output.on_terminal and not output.as_json and job["nodes"] > 1


def follow_to_the_end(client: Client, output: Output, job: Job, *, labelled: bool | None = None) -> Job:
    """Print what a job writes, over all its attempts, and return it when it has finished."""
    job_id, after = job["id"], ""
    labelled = labels_ranks(output, job) if labelled is None else labelled
    while True:
        after = show_logs(client, output, job_id, labelled=labelled, after=after)
        job = client.job(job_id)
        if job["state"] in FINISHED:
            tell_end(output, job)
            return job
        # The attempt ended, and the job is tried again.
        client.pause()


def tell_end(output: Output, job: Job) -> None:
    """Say how a job ended; of one that failed the class, the line of its log that tells it, and a hint."""
    failure = job["failure"]
    if failure is None:
        detail = f" ({job['reason_detail']})" if job["state"] != "succeeded" and job["reason_detail"] else ""
        output.note(f"Job {job['id']} {job['state']}{detail}.")
        return
    line = failure["line"] or failure["last_words"] or ""
    output.note(f"Job {job['id']} failed ({failure['title']})" + (f": {line}" if line else "."))
    if failure["hint"]:
        output.note(f"  {failure['hint']}")
    output.note(f"  More: muster why {job['id']}")


def warn_of(output: Output, job: SubmittedJob | SubmittedSweep | SubmittedArray) -> None:
    """Tell on standard error what keeps an accepted job or group from starting, and what to know of it."""
    for warning in job["warnings"]:
        output.warn(f"{warning}.")
    for note in job["notes"]:
        output.note(f"note: {note}.")


def exit_status_of(job: Job | Array) -> int:
    """Return the exit status that stands for a finished job or array."""
    if job["state"] == "succeeded":
        return 0
    if job["state"] == "cancelled":
        return EXIT_INTERRUPTED
    # A code of 0 with a failed job means that something else went wrong, such as a lost node.
    code = ("first_index" not in job and job["exit_code"]) or EXIT_ERROR
    return code if 0 < code < 256 else EXIT_ERROR


def tell_that_it_goes_on(output: Output, job_id: int) -> None:
    """Say after Ctrl-C that only the watching has stopped."""
    output.warn(f"job {job_id} goes on. Watch: muster logs -f {job_id}. Stop: muster cancel {job_id}.")


def _show(event: LogEvent, output: Output, writer: LogWriter) -> None:
    if output.as_json:
        kind = {LogText: "log", LogState: "state", LogEnd: "end"}[type(event)]
        output.line({"event": kind, **asdict(event)})
    elif isinstance(event, LogText):
        # A surrogate stands for a byte that is not UTF-8; it becomes that byte again.
        writer.write(_bytes_of(event.text), rank=event.rank)
    elif isinstance(event, LogState) and output.errors.is_terminal:
        attempt = f"attempt {event.attempt} " if event.attempt is not None else ""
        output.note(f"-- {attempt}{event.state}")


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="replace")
