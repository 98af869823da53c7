"""scancel: ends jobs, by their numbers or by what they have in common."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from django.db.models import QuerySet

from muster.arrays.services import cancel_array
from muster.common.errors import Conflict
from muster.jobs.groups.services import cancel_group
from muster.jobs.models import Job
from muster.jobs.services import cancel_job
from muster.slurm.call import VERSION, Answer, Call, Refused
from muster.slurm.jobids import JobId, job_id, split_ids, with_ids
from muster.slurm.jobs import Named, may_change, named, on_nodes
from muster.slurm.options import Option, Parsed, flag, parse, usage, valued
from muster.slurm.records import known_jobs, known_users, ranges, records_of
from muster.slurm.states import State
from scheduler.model.lifecycle import JobState

OPTIONS: Sequence[Option] = (
    valued("account", "A"),
    flag("batch", "b"),
    flag("ctld"),
    flag("full", "f"),
    flag("help"),
    flag("hurry", "H"),
    flag("interactive", "i"),
    valued("clusters", "M"),
    flag("me"),
    valued("name", "n"),
    valued("jobname"),
    valued("partition", "p"),
    valued("qos", "q"),
    flag("quiet", "Q"),
    valued("reservation", "R"),
    flag("sibling"),
    valued("signal", "s"),
    valued("state", "t"),
    flag("usage"),
    valued("user", "u"),
    flag("verbose", "v"),
    flag("version", "V"),
    valued("wckey"),
    valued("nodelist", "w"),
)
_VARIABLES: Mapping[str, str] = {
    "account": "SCANCEL_ACCOUNT",
    "name": "SCANCEL_NAME",
    "partition": "SCANCEL_PARTITION",
    "qos": "SCANCEL_QOS",
    "state": "SCANCEL_STATE",
    "user": "SCANCEL_USER",
}
_FILTERS = (*_VARIABLES, "jobname", "me", "nodelist", "reservation", "wckey")
_STATES = frozenset({State.PENDING, State.RUNNING, State.SUSPENDED})
_BEGINS = (State.RUNNING, State.CONFIGURING)
DENIED, ALTERED = 210, 228


def scancel(call: Call) -> Answer:
    """Nothing, where all went well."""
    given = parse("scancel", call.arguments, OPTIONS)
    if given.has("version"):
        return Answer(f"{VERSION}\n")
    if given.has("help") or given.has("usage"):
        return Answer(usage("scancel", OPTIONS))
    if given.has("interactive"):
        raise Refused("scancel: error: --interactive is not supported: the server asks nothing")
    values = {name: call.environment[variable] for name, variable in _VARIABLES.items() if variable in call.environment}
    values |= dict(given.options)
    filters = values.keys() & set(_FILTERS)
    ids = _ids(given)
    if not ids and not filters:
        raise Refused("scancel: error: No job identification provided")
    sent = _signal(values["signal"]) if "signal" in values else signal.SIGKILL
    targets = _matching(call, values, ids) if filters else named(call, ids)
    lines: list[str] = []
    code = 0
    for target in targets:
        told, problem, status = _end(call, target, sent)
        verbose = given.has("verbose") and not given.has("quiet")
        lines += [f"scancel: Terminating job {target.id.text}"] if verbose else []
        if problem and (told or verbose):
            lines.append(f"scancel: error: Kill job error on job id {target.id.text}: {problem}")
        code = max(code, status)
    return Answer(stderr="".join(f"{line}\n" for line in lines), exit_code=code)


def _end(call: Call, target: Named, sent: signal.Signals) -> tuple[bool, str, int]:
    """End jobs, or send them a signal: whether an error is told in any case, the error, and the exit code."""
    if not target.jobs:
        return False, "Invalid job id specified", 0
    if not may_change(call, target.jobs):
        return True, "Access/permission denied", DENIED
    if not target.waiting:
        return False, "Job/step already completing or completed", 0
    if sent is not signal.SIGKILL:
        if any(job.state == JobState.QUEUED for job in target.waiting):
            return True, "Job can not be altered now, try again later", ALTERED
        return True, f"The platform sends {sent.name} to no running job; --signal=KILL ends it", 1
    try:
        _cancel(call, target)
    except Conflict:
        return False, "Job/step already completing or completed", 0
    return False, "", 0


def _cancel(call: Call, target: Named) -> None:
    """End the jobs; those of a group together."""
    group = target.jobs[0].group
    if group is not None and target.id.indices is None and target.id.number == group.pk:
        cancel_group(user=call.user, group=group)
    elif group is not None and target.jobs[0].array_index is not None:
        indices = sorted(job.array_index or 0 for job in target.waiting)
        cancel_array(user=call.user, group=group, indices=ranges(indices))
    else:
        for job in target.waiting:
            cancel_job(user=call.user, job=job)


def _ids(given: Parsed) -> list[JobId]:
    found = []
    for text in (part for word in given.words for part in split_ids(word)):
        try:
            found.append(job_id(text))
        except ValueError as error:
            raise Refused(f"scancel: error: Invalid job id {text}") from error
    return found


def _signal(text: str) -> signal.Signals:
    plain = text.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(plain)) if plain.isdecimal() else signal.Signals[f"SIG{plain}"]
    except (KeyError, ValueError) as error:
        raise Refused(f"Unknown job signal: {text}") from error


def _matching(call: Call, values: Mapping[str, str], ids: Sequence[JobId]) -> list[Named]:
    """The jobs that have not ended and match all filters, each for itself."""
    wanted = State.of_word(values["state"]) if "state" in values else None
    if "state" in values and wanted not in _STATES:
        raise Refused(
            f"Invalid job state specified: {values['state']}\nValid job states are PENDING, RUNNING, and SUSPENDED"
        )
    jobs = known_jobs(call.user).filter(ended_at__isnull=True)
    jobs = with_ids(jobs, ids) if ids else jobs
    jobs = _of_user(call, values, jobs)
    if name := values.get("name") or values.get("jobname"):
        jobs = jobs.filter(name=name)
    if "nodelist" in values:
        try:
            jobs = jobs.filter(pk__in=on_nodes(values["nodelist"]))
        except ValueError:
            jobs = jobs.none()
    if "reservation" in values or "wckey" in values:
        jobs = jobs.none()
    return [
        Named(JobId(record.id, record.job.pk), (record.job,))
        for record in records_of(jobs, folded=False)
        if all(getattr(record, word) == values[word] for word in ("partition", "account", "qos") if word in values)
        and (wanted is None or record.state is wanted or (wanted, record.state) == _BEGINS)
    ]


def _of_user(call: Call, values: Mapping[str, str], jobs: QuerySet[Job]) -> QuerySet[Job]:
    """The jobs of the user that is named, or the caller's own."""
    name = values.get("user", call.user.username)
    if "me" not in values and name not in known_users(call.user, [name]):
        raise Refused(f"scancel: error: Invalid user name: {name}")
    return jobs.filter(owner__username=call.user.username if "me" in values else name)
