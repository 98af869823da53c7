"""When a job will start, as far as that is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from muster.jobs.models import Attempt, Job
from scheduler.model.lifecycle import JobState, Stage

NO_STARTS = "no job of this pool has started yet"

NO_FORECAST = "too few jobs of this pool have started to learn from"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast of a wait, or why there is none; neither where nothing waits."""

    forecast: None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """The forecasts of a job's start, and the start itself; `eligible_at` is None while the job may not start."""

    now: Outlook
    submitted: None
    eligible_at: datetime | None
    started_at: datetime | None


def outlook_of(job: Job) -> Outlook:
    """The forecast of the whole wait of a job that waits for its first start."""
    waits = job.state == JobState.QUEUED or (job.state == JobState.ACTIVE and job.stage == Stage.SCREENING)
    return outlook_of_draft(job) if waits and first_start(job) is None else Outlook()


def outlook_of_draft(job: Job) -> Outlook:
    """The same of a job that is not stored."""
    started = Attempt.objects.filter(job__vc__pool_id=job.vc.pool_id, stage=Stage.FULL).exists()
    return Outlook(unknown=NO_FORECAST if started else NO_STARTS)


def start_of(job: Job) -> Start:
    """When the job starts or started."""
    free = not (job.held or job.paused or job.blocked_by)
    started_at = first_start(job)
    return Start(outlook_of(job), None, job.eligible_at if free or started_at else None, started_at)


def first_start(job: Job) -> datetime | None:
    """When the job itself, and not its screening run, first got its GPUs."""
    runs = Attempt.objects.filter(job=job, stage=Stage.FULL).order_by("number")
    return runs.values_list("placed_at", flat=True).first() if job.attempt_count else None
