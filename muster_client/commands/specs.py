"""The commands about the specs of jobs that are there: clone, spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from muster_client.client import Client
from muster_client.commands.options import JobId, JsonFlag, Sets
from muster_client.follow import warn_of
from muster_client.local.spec import apply_sets, spec_text, without_defaults
from muster_client.local.terminal import clean
from muster_client.session import begin

if TYPE_CHECKING:
    from muster_client.answers.jobs import SubmittedJob


def clone_command(ctx: typer.Context, job_id: JobId, sets: Sets = None, as_json: JsonFlag = False) -> None:
    """Submit the spec of a job again, as a new job; --set changes keys of it."""

    def clone(client: Client) -> SubmittedJob:
        if not sets:
            return client.clone(job_id)
        before = client.job(job_id)["spec"]
        after = apply_sets(before, sets)
        changes = {key: value for key, value in after.items() if key not in before or value != before[key]}
        return client.clone(job_id, changes=changes)

    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        job = clone(client)
    warn_of(session.output, job)
    session.output.answer(job, f"Submitted job {job['id']} ({clean(job['name'])}).")


def spec_command(ctx: typer.Context, job_id: JobId, as_json: JsonFlag = False) -> None:
    """Print the spec of a job as YAML without defaults, as `muster submit -` takes it; --json has every key."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        spec = client.job(job_id)["spec"]
        shown = spec if as_json else without_defaults(spec, client.spec_schema())
    if as_json:
        session.output.answer(shown)
    else:
        session.output.text(spec_text(shown))
