"""The options that several commands share."""

from __future__ import annotations

import re
from typing import Annotated

import typer
from typer._click.globals import get_current_context

from muster_client.errors import UsageError
from muster_client.session import Session

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


_NUMBER = re.compile(r"#?([0-9]{1,18})(?:_([0-9]{1,9}))?", re.ASCII)


def is_job_number(text: str) -> bool:
    """True for the number of a job, or that of an array with an index."""
    return _NUMBER.fullmatch(text) is not None


def job_number(text: str) -> int:
    """The number of a job, as it is or as the member of an array, whose job the server knows."""
    found = _NUMBER.fullmatch(text)
    if not found or not int(found[1]):
        raise typer.BadParameter("JOB is a number, such as 42, or a member of an array, such as 42_7.")
    if found[2] is None:
        return int(found[1])
    session, array_id, index = get_current_context().ensure_object(Session), int(found[1]), found[2]
    return session.ask(lambda client: client.array_members(array_id, indices=index, limit=1))[0]["job"]


JobId = Annotated[int, typer.Argument(metavar="JOB", parser=job_number, help="The number of the job, or ARRAY_INDEX.")]
JobIds = Annotated[list[int], typer.Argument(metavar="JOB...", parser=job_number, help="The numbers of the jobs.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Print the output and end as the job ends.")]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", help="The same key never makes a second job.", show_default=False)
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the spec; env.LR=0.1 reaches into a mapping."),
]
SpecFile = Annotated[str, typer.Argument(metavar="FILE|-", help="The job spec; - reads standard input.")]
Rank = Annotated[int | None, typer.Option("--rank", min=0, help="Only this rank's output.", show_default=False)]
Attempt = Annotated[
    int | None, typer.Option("--attempt", min=1, help="This attempt, not the latest.", show_default=False)
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="KEY=VALUE", help="With this tag; repeat it for several, of which all must hold."),
]
States = Annotated[
    list[str] | None,
    typer.Option("--state", help="queued, running, succeeded, failed or cancelled; repeat it for any of several."),
]


def tags_for_api(tags: list[str] | None) -> list[str]:
    """Return tags given as KEY=VALUE as the REST API writes them.

    Raises:
        UsageError: a tag has no equals sign.
    """
    for tag in tags or ():
        if "=" not in tag:
            raise UsageError(f"--tag {tag}: write it as KEY=VALUE.")
    return [tag.replace("=", ":", 1) for tag in tags or ()]
