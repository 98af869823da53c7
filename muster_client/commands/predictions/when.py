"""The command that tells when a job will start: one that is submitted, or one that a spec describes."""

from __future__ import annotations

from typing import Annotated

import typer

from muster_client.commands.options import JsonFlag, Sets, is_job_number, job_number
from muster_client.errors import UsageError
from muster_client.session import begin
from muster_client.show.waits import outlook_answer, outlook_sheet, when_sheet
from muster_client.submission import for_dry_run, read_spec_argument


def when_command(
    ctx: typer.Context,
    subject: Annotated[str, typer.Argument(metavar="FILE|-|JOB", help="A spec, or the number of a job.")],
    sets: Sets = None,
    as_json: JsonFlag = False,
) -> None:
    """Tell when a job will start, or would start if it was submitted now, and how sure that is."""
    session = begin(ctx, as_json=as_json)
    if is_job_number(subject):
        if sets:
            raise UsageError("--set changes a spec; write a file and not the number of a job.")
        when = session.ask(lambda client: client.when(job_number(subject)))
        session.output.answer(when, when_sheet(when))
        return
    spec, base = read_spec_argument(subject, sets)
    result = session.ask(lambda client: client.dry_run(for_dry_run(client, session.output, spec, base)))
    session.output.answer(outlook_answer(result), outlook_sheet(result))
