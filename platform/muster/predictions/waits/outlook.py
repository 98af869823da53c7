"""Forecasts of the starts of jobs, as the API shows them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from muster.common.clock import database_now
from muster.jobs.models import Attempt, Job
from muster.predictions.forward.lookup import forward_of, forwards_of
from muster.predictions.models import WaitRecord
from muster.predictions.waits.forecasts import Forecasts, predictor_of, read, shown
from muster.predictions.waits.queues import queue_of
from scheduler.model.lifecycle import JobState, Stage
from scheduler.predict.waits.features import features
from scheduler.predict.waits.forecast import WaitForecast

NO_STARTS = "no job of this pool has started yet"
NO_FORECAST = "too few jobs of this pool have started to learn from, and its policy was not run forward lately"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast of a wait, or why there is none; neither where nothing waits."""

    forecast: WaitForecast | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """The forecasts of a job's start, and the start itself; `eligible_at` is None while the job may not start."""

    now: Outlook
    submitted: WaitForecast | None
    eligible_at: datetime | None
    started_at: datetime | None

    def by(self, wait_s: float) -> datetime | None:
        """The start of the job if it waits so long; None while it may not start."""
        return None if self.eligible_at is None else self.eligible_at + timedelta(seconds=wait_s)


def outlook_of(job: Job) -> Outlook:
    """The forecast of the whole wait of a job that waits for its first start."""
    return start_of(job).now


def outlook_of_draft(job: Job) -> Outlook:
    """The same of a job that is not stored."""
    return _outlook(job.vc.pool_id, _present(job))


def start_of(job: Job) -> Start:
    """The start of the job, forecast or real."""
    free = not (job.held or job.paused or job.blocked_by)
    record = WaitRecord.objects.filter(pk=job.pk).first()
    started_at = first_start(job)
    eligible_at = record.eligible_at if record is not None else None
    if eligible_at is None and (free or started_at is not None):
        eligible_at = max(job.submitted_at, job.eligible_at) if started_at is None else started_at
    elif not free and started_at is None:
        eligible_at = None
    submitted = None if record is None else shown(read(record.submitted or record.forecasts))
    waits = job.state == JobState.QUEUED or (job.state == JobState.ACTIVE and job.stage == Stage.SCREENING)
    if not waits or started_at is not None:
        return Start(Outlook(), submitted, eligible_at, started_at)
    if record is None:
        return Start(outlook_of_draft(job), submitted, eligible_at, None)
    waited_s = 0.0 if eligible_at is None else max(0.0, (database_now() - eligible_at).total_seconds())
    predictor = predictor_of(record.pool_id)
    forecasts = predictor.present(read(record.forecasts), forward_of(job), waited_s)
    return Start(_outlook(job.vc.pool_id, forecasts), submitted, eligible_at, None)


def present_waits(pool_id: int, job_ids: Collection[int], now: datetime) -> dict[int, WaitForecast]:
    """The forecasts of the whole waits of waiting jobs of one pool, as they are expected now, by the job's id."""
    jobs = list(Job.objects.filter(pk__in=job_ids, startable=True).defer("spec").select_related("wait"))
    predictor, found = predictor_of(pool_id), {}
    for job, forward in zip(jobs, forwards_of(pool_id, jobs), strict=True):
        record = getattr(job, "wait", None)
        if record is None or record.eligible_at is None:
            continue
        waited_s = max(0.0, (now - record.eligible_at).total_seconds())
        forecast = shown(predictor.present(read(record.forecasts), forward, waited_s))
        if forecast is not None:
            found[job.pk] = forecast
    return found


def first_start(job: Job) -> datetime | None:
    """The time at which the job itself, and not its screening run, first got its GPUs."""
    runs = Attempt.objects.filter(job=job, stage=Stage.FULL).order_by("number")
    return runs.values_list("placed_at", flat=True).first() if job.attempt_count else None


def _present(job: Job) -> Forecasts:
    """The forecasts of a job that is submitted now."""
    predictor = predictor_of(job.vc.pool_id)
    row = None
    if predictor.model is not None:
        queue = queue_of(job.vc.pool_id, database_now())
        row = features(queue.without(job.pk) if job.pk else queue.state, queue.job(job))
    return predictor.forecast(row, forward_of(job))


def _outlook(pool_id: int, forecasts: Forecasts) -> Outlook:
    forecast = shown(forecasts)
    if forecast is not None:
        return Outlook(forecast)
    return Outlook(unknown=why_unknown(pool_id))


def why_unknown(pool_id: int) -> str:
    """The reason why there are no forecasts of the pool's waits yet."""
    started = Attempt.objects.filter(job__vc__pool_id=pool_id, stage=Stage.FULL).exists()
    return NO_FORECAST if started else NO_STARTS
