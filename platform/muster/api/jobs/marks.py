"""What of a running job its owner should know: that its GPUs stand idle, or that it has failed and is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from django.db.models import Q

from muster.common.clock import moment
from muster.jobs.models import Attempt, Job
from muster_client.answers.jobs import Idle, Kept
from scheduler.model.lifecycle import AttemptState, JobState


class Marks(TypedDict):
    """The fields of a job that its running attempt has."""

    idle: Idle | None
    kept: Kept | None


NO_MARKS = Marks(idle=None, kept=None)


def marks_of(jobs: Iterable[Job]) -> dict[int, Marks]:
    """The marks of those of the jobs that have any, by job; one query, none where no job is active."""
    active = [job.pk for job in jobs if job.state == JobState.ACTIVE]
    if not active:
        return {}
    marked = Attempt.objects.filter(job__in=active, state=AttemptState.RUNNING).filter(
        Q(kept_until__isnull=False) | Q(idle_watch__warned_at__isnull=False)
    )
    columns = ("kept_until", "reason", "exit_code", "idle_watch__since", "idle_watch__stop_at")
    return {
        job_id: Marks(
            idle={"since": moment(since), "stop_at": moment(stop_at)} if since else None,
            kept={"until": moment(until), "reason": reason, "exit_code": exit_code} if until else None,
        )
        for job_id, until, reason, exit_code, since, stop_at in marked.values_list("job_id", *columns)
    }
