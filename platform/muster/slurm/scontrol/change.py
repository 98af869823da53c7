"""Changes of jobs: hold, release, requeue, update."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from muster.common.errors import MusterError
from muster.jobs.groups.services import rerun_job
from muster.jobs.models import Job
from muster.jobs.queue import hold_jobs, release_jobs
from muster.jobs.services import edit_job, requeue_job
from muster.sbatch import values
from muster.slurm.call import Answer, Call, Refused
from muster.slurm.jobids import JobId, job_id, split_ids
from muster.slurm.jobs import Named, may_change, named
from muster.slurm.records import known_jobs
from scheduler.model.lifecycle import JobState

UNKNOWN, OVER, PENDING = "Invalid job id specified", "Job has already finished", "Job is pending execution"
FOREIGN, DENIED, DISABLED = "Invalid user id", "Access/permission denied", "Requested operation is presently disabled"
_NAMED = re.compile(r"(?:job)?name=(.+)", re.IGNORECASE | re.DOTALL)
_PAIR = re.compile(r"([A-Za-z]+)([-+]?)=(.*)", re.ASCII | re.DOTALL)
_WAITING = frozenset({JobState.QUEUED})


def hold(call: Call, words: Sequence[str]) -> Answer:
    """Nothing, once the jobs are held; those that run are left alone."""
    return _each(call, words, _hold, "slurm_suspend")


def release(call: Call, words: Sequence[str]) -> Answer:
    """Nothing, once the jobs are released."""
    return _each(call, words, _release, "slurm_suspend")


def requeue(call: Call, words: Sequence[str]) -> Answer:
    """Nothing, once the jobs wait again, or stop in order to."""
    return _each(call, words, _requeue)


def requeue_and_hold(call: Call, words: Sequence[str]) -> Answer:
    """Nothing, once the jobs wait again and are held."""
    return _each(call, words, _requeue_and_hold)


def update(call: Call, words: Sequence[str]) -> Answer:
    """Nothing, once the job has the values."""
    pairs = _pairs(words)
    ids = [value for name, value in pairs if "jobid".startswith(name.lower()) and len(name) >= 3]
    if not ids:
        if any(name.lower() in {"nodename", "partitionname", "reservationname"} for name, _ in pairs):
            raise Refused("slurm_update error: Invalid user id")
        raise Refused(
            "No valid entity in update command\n"
            'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
        )
    changes = {}
    for name, value in pairs:
        if value not in ids or not "jobid".startswith(name.lower()):
            key, read = _changed(name, value)
            changes[key] = read
    if not changes:
        raise Refused("No changes specified")

    def edit(call: Call, target: Named) -> str:
        problem = _refused(call, target)
        if not problem:
            for job in target.waiting:
                _edit(call, job, dict(changes))
        return problem

    return _each(call, ids, edit)


def _each(call: Call, words: Sequence[str], act: Callable[[Call, Named], str], caller: str = "") -> Answer:
    """The answer of an act on the jobs of each word: a line for each problem, and one more of the call that failed."""
    lines: list[str] = []
    for target in _targets(call, words):
        try:
            problem = act(call, target)
        except MusterError as error:
            problem = error.detail
        if problem:
            lines.append(f"{problem} for job {target.id.text}\n")
            lines += [f"{caller} error: {problem}\n"] if caller else []
    return Answer(stderr="".join(lines), exit_code=1 if lines else 0)


def _targets(call: Call, words: Sequence[str]) -> list[Named]:
    found: list[Named] = []
    for word in words:
        if name := _NAMED.fullmatch(word):
            mine = known_jobs(call.user).filter(owner=call.user, name=name[1], ended_at__isnull=True)
            found += named(call, [JobId(str(pk), pk) for pk in mine.values_list("pk", flat=True)])
            continue
        for text in split_ids(re.sub(r"(?i)^jobid=", "", word)):
            try:
                found += named(call, [job_id(text)])
            except ValueError:
                found.append(Named(JobId(text, 0), ()))
    return found


def _refused(call: Call, target: Named, foreign: str = FOREIGN) -> str:
    """The reason why the jobs cannot be changed; empty if they can."""
    if not target.jobs:
        return UNKNOWN
    if not may_change(call, target.jobs):
        return foreign
    return "" if target.waiting else OVER


def _hold(call: Call, target: Named) -> str:
    problem = _refused(call, target)
    if not problem:
        hold_jobs([job.pk for job in target.waiting], user=call.user)
    return problem


def _release(call: Call, target: Named) -> str:
    problem = _refused(call, target)
    if not problem:
        release_jobs([job.pk for job in target.waiting], user=call.user)
    return problem


def _requeue(call: Call, target: Named) -> str:
    problem = _refused(call, target, DENIED)
    if problem not in {"", OVER}:
        return problem
    if any(never_again(job) for job in target.jobs):
        return DISABLED
    again = [job for job in target.jobs if job.state not in _WAITING]
    for job in again:
        if job.ended_at is None:
            requeue_job(user=call.user, job=job)
        else:
            rerun_job(user=call.user, job=job)
    return "" if again else PENDING


def _requeue_and_hold(call: Call, target: Named) -> str:
    problem = _requeue(call, target)
    if problem in {"", PENDING} and target.jobs:
        hold_jobs([job.pk for job in target.jobs], user=call.user)
        return ""
    return problem


def never_again(job: Job) -> bool:
    """True for a batch script that was submitted with `--no-requeue`."""
    return "batch" in job.spec and job.spec["retry"].get("max") == 0


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """The names and values of `NAME=VALUE`; a name and its value may also be two words."""
    found: list[tuple[str, str]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        pair = _PAIR.fullmatch(word)
        if pair:
            found.append((pair[1], f"{pair[2]}{pair[3]}"))
        elif rest and word.isalpha():
            found.append((word, rest.pop(0)))
        else:
            raise Refused(f"Invalid input: {word}\nRequest aborted")
    return found


def _changed(name: str, value: str) -> tuple[str, str]:
    """The key of a spec that the name stands for, and its value."""
    lower = name.lower()
    if lower in {"name", "jobname"}:
        return "name", value
    if lower == "comment":
        return "comment", value
    if lower == "timelimit":
        try:
            values.minutes(value.lstrip("+-"))
        except ValueError as error:
            raise Refused("scontrol: error: Invalid TimeLimit value") from error
        return "time", value
    raise Refused(f"Update of this parameter is not supported: {name}={value}\nRequest aborted")


def _edit(call: Call, job: Job, changes: dict[str, str]) -> None:
    if "comment" in changes:
        changes |= {"tags": {**job.tags, "comment": changes.pop("comment")}}  # type: ignore[dict-item]
    if "time" in changes:
        changes["time"] = _time(job, changes["time"])
    edit_job(user=call.user, job=job, changes=dict(changes))


def _time(job: Job, text: str) -> str:
    """The time limit in seconds, as a spec has it; a sign changes the limit that the job has."""
    minutes = values.minutes(text.lstrip("+-"))
    seconds = 0 if minutes is None else minutes * 60
    if text[0] in "+-":
        seconds = round(job.time_limit_s or 0) + (seconds if text[0] == "+" else -seconds)
    return f"{max(seconds, 60)}s"
