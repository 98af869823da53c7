"""sbatch: a script is translated and submitted, in the folder where it is or with code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.arrays.services import submit_array
from muster.common.clock import utc_now
from muster.common.errors import MusterError
from muster.dispatch.explain.forecast import dry_run
from muster.jobs.models import IdempotencyKey, Job
from muster.jobs.services import submit_job
from muster.jobs.submit.idempotency import check_key, known_key
from muster.sbatch.directives import Refused, failed
from muster.sbatch.environment import store_environment
from muster.sbatch.exports import exported
from muster.sbatch.services import site_of
from muster.sbatch.translate import Submission, Translation, settle, translate
from muster.slurm.call import Answer, Call


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it was submitted: its text, name and arguments, and what is around it."""

    text: str = ""
    name: str = "sbatch"
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    """All variables of the submitter."""
    host: str = ""
    code: str = ""
    """SHA-256 of an uploaded archive; empty: none."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer of sbatch, and the number of the job or the array if one was submitted."""

    answer: Answer
    job: int | None = None
    array: int | None = None
    waits: bool = False
    """True if the command waits for its end."""


def sbatch(call: Call, script: Script, *, inside: int | None = None, key: str | None = None) -> Submitted:
    """Submit the script, once for a key.

    `inside`: the job that calls, whose code the new one gets where it does not run in place.
    """
    sent = {
        "slurm": "sbatch",
        "script": {**asdict(script), "environment": None},
        "arguments": call.arguments,
        "folder": call.folder,
        "job": inside,
    }
    before = known_key(call.user, key, check_key(key, sent)) if key else None
    try:
        if before is not None:
            return _known(before, call, script)
        found = translate(
            _submission(call, script),
            site_of(call.user),
            utc_now().astimezone(call.zone),
        )
        if "test-only" in found.flags:
            return Submitted(_trial(call, found))
        spec = _spec(call, script, found, inside)
        if "array" in spec:
            array, _ = submit_array(
                user=call.user, data=spec, idempotency_key=key, keeps_waiting=found.keeps_waiting, sent=sent
            )
            return Submitted(_told(array.pk, found), array=array.pk, waits="wait" in found.flags)
        job, _ = submit_job(
            user=call.user, data=spec, idempotency_key=key, keeps_waiting=found.keeps_waiting, sent=sent
        )
        return Submitted(_told(job.pk, found), job=job.pk, waits="wait" in found.flags)
    except Refused as refused:
        return Submitted(Answer(stderr=refused.stderr, exit_code=refused.code))
    except MusterError as error:
        return Submitted(Answer(stderr=_refusal(error), exit_code=1))


def _spec(call: Call, script: Script, found: Translation, inside: int | None) -> dict[str, Any]:
    spec = {**found.spec, "env": dict(found.spec["env"])}
    if script.host:
        spec["env"]["SLURM_SUBMIT_HOST"] = script.host
    code: str | None = script.code
    if found.folder is not None:
        environment = exported(script.environment, found.export)
        code = store_environment(user=call.user, environment=environment).pk
    elif not code and inside is not None:
        code = Job.objects.filter(pk=inside, code__private=False).values_list("code_id", flat=True).first()
    return {**spec, "code": {"upload": code}} if code else spec


def _known(before: IdempotencyKey, call: Call, script: Script) -> Submitted:
    """The answer to a request that was sent before."""
    number = before.group_id or before.job_ids[0]
    given, _ = settle(_submission(call, script))
    plain = "" if "quiet" in given else f"Submitted batch job {number}\n"
    answer = Answer(f"{number}\n" if "parsable" in given else plain)
    return Submitted(answer, None if before.group_id else number, before.group_id, "wait" in given)


def _submission(call: Call, script: Script) -> Submission:
    return Submission(script.text, script.name, call.arguments, script.arguments, call.environment, call.folder)


def _told(number: int, found: Translation) -> Answer:
    quiet = "quiet" in found.flags
    notes = [] if quiet else [f"sbatch: {note}\n" for note in found.notes]
    ignored = [one.text for one in found.report if one.fate == "ignored"]
    if ignored and not quiet:
        notes.append(f"sbatch: ignored: {', '.join(ignored)}; muster sbatch --test-only says why\n")
    plain = "" if quiet else f"Submitted batch job {number}\n"
    return Answer(f"{number}\n" if "parsable" in found.flags else plain, "".join(notes))


def _trial(call: Call, found: Translation) -> Answer:
    """The answer to --test-only."""
    outlook = dry_run(user=call.user, data=found.spec)
    if not outlook.feasible or not outlook.fits_quota:
        why = outlook.hold.detail if outlook.hold else "it needs more than the pool or the quota has"
        return Answer(stderr=f"allocation failure: Requested node configuration is not available\n{why}\n", exit_code=1)
    nodes, cpus = found.spec["nodes"], found.spec["cpus"]
    partition = found.spec["env"]["SLURM_JOB_PARTITION"]
    when = f"to start at {call.moment(utc_now())}" if outlook.starts_now else "to start later"
    why = "" if outlook.starts_now or outlook.hold is None else f"sbatch: {outlook.hold.detail}\n"
    text = f"sbatch: Job {when} using {nodes * cpus} processors on {nodes} nodes in partition {partition}\n"
    return Answer(stderr=text + why)


def _refusal(error: MusterError) -> str:
    """The output of sbatch for a job that is refused when it is submitted."""
    awaited = any(one.field.startswith("after") for one in error.errors)
    words = failed("Job dependency problem" if awaited else error.detail)
    return f"sbatch: error: {words}\n" + (f"sbatch: error: {error.detail}\n" if awaited else "")
