"""The only functions that change the status of a job, an attempt or an allocation.

Each is one conditional UPDATE that names the expected status, and writes the event in the same transaction. No row
changed means that somebody else was faster, and the caller stops quietly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.common.models import DatabaseNow
from muster.events.services import record
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job, Reservation
from scheduler.model.lifecycle import (
    ATTEMPT_TERMINAL,
    JOB_TERMINAL,
    AllocationState,
    AttemptState,
    JobState,
    require_move,
)

_ATTEMPT_TIMES = {
    AttemptState.STARTING: "starting_at",
    AttemptState.RUNNING: "running_at",
    AttemptState.STOPPING: "stopping_at",
    **dict.fromkeys(ATTEMPT_TERMINAL, "ended_at"),
}


def move_job(job: Job, target: JobState, *, actor: str, data: dict[str, Any] | None = None, **fields: Any) -> bool:
    """Move the job from the state its caller saw; False if it is no longer in that state."""
    source = JobState(job.state)
    require_move("job", source, target)
    if not Job.objects.filter(pk=job.pk, state=source).update(state=target, **_with_the_move(target, fields)):
        return False
    _has_moved(job, source, target, actor=actor, data=data or {})
    return True


def move_jobs(
    jobs: Sequence[Job], target: JobState, *, actor: str, data: Mapping[int, dict[str, Any]], **fields: Any
) -> None:
    """Move jobs that the caller has under lock, all from one state, in one statement; `data` is each one's own.

    Nobody can have been faster: if somebody was, this is an error, and nothing of the transaction must stay.
    """
    (source,) = {JobState(job.state) for job in jobs}
    require_move("job", source, target)
    moved = Job.objects.filter(pk__in=[job.pk for job in jobs], state=source).update(
        state=target, **_with_the_move(target, fields)
    )
    if moved != len(jobs):
        raise RuntimeError(f"{len(jobs)} jobs were {source} under lock, and {moved} of them are now {target}")
    for job in jobs:
        _has_moved(job, source, target, actor=actor, data=data[job.pk])


def move_attempt(
    attempt: Attempt, target: AttemptState, *, job: Job, actor: str, data: dict[str, Any] | None = None, **fields: Any
) -> bool:
    """Move the attempt from the state its caller saw; False if it is no longer in that state."""
    source = AttemptState(attempt.state)
    require_move("attempt", source, target)
    fields.setdefault(_ATTEMPT_TIMES[target], DatabaseNow())
    if not Attempt.objects.filter(pk=attempt.pk, state=source).update(state=target, **fields):
        return False
    attempt.state = target
    for name, value in fields.items():
        if not hasattr(value, "resolve_expression"):
            setattr(attempt, name, value)
    record(
        f"attempt.{target}",
        actor=actor,
        tenant_id=job.tenant_id,
        job_id=job.pk,
        data={"attempt": attempt.number, "from": source, "state": target, **(data or {})},
    )
    return True


def move_allocation(allocation: Allocation, target: AllocationState, **fields: Any) -> bool:
    """Move the allocation from the state its caller saw; its attempt's events tell what matters of it."""
    source = AllocationState(allocation.state)
    require_move("allocation", source, target)
    if target is AllocationState.RELEASED:
        fields["released_at"] = DatabaseNow()
    if not Allocation.objects.filter(pk=allocation.pk, state=source).update(state=target, **fields):
        return False
    allocation.state = target
    if target is AllocationState.RELEASED:
        free_claims([allocation.pk])
    return True


def forget_reservations(job_ids: Iterable[int]) -> None:
    """Keep no GPUs for these jobs any longer."""
    Reservation.objects.filter(pk__in=job_ids).delete()


def free_claims(allocation_ids: Iterable[int]) -> None:
    """End the open claims of the allocations."""
    GpuClaim.objects.filter(allocation_id__in=list(allocation_ids), released_at__isnull=True).update(
        released_at=DatabaseNow()
    )


def _with_the_move(target: JobState, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that a job's move sets, with those of its caller."""
    if target in JOB_TERMINAL:
        fields = fields | {"ended_at": DatabaseNow()}
    return fields if target is JobState.QUEUED else fields | {"hold_reason": "", "hold": None}


def _has_moved(job: Job, source: JobState, target: JobState, *, actor: str, data: dict[str, Any]) -> None:
    job.state = target
    record(
        f"job.{target}",
        actor=actor,
        tenant_id=job.tenant_id,
        job_id=job.pk,
        data={"from": source, "state": target, **data},
    )
