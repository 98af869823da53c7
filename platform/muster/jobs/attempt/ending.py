"""Ending or pausing a job for a reason of the platform's, whatever it does just now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db import transaction

from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.models import Attempt, Job
from muster.jobs.transitions import forget_reservations, move_job
from scheduler.model.lifecycle import ATTEMPT_LIVE, JOB_TERMINAL, AttemptState, Desired, HoldReason, JobState
from scheduler.model.reasons import Reason


def end_for_good(*, job_id: int, reason: Reason, detail: str, actor: str) -> bool:
    """Let the job fail for this reason, and not be tried again; False if it is over, or its owner stops it already.

    1. A job that waits for another try has failed at once.
    2. A running attempt is stopped, with its grace.
    3. One that stops already gets this reason, unless it is cancelled: it would be queued again for its own.
    """
    with transaction.atomic(), recorded_together():
        job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
        if job.state in JOB_TERMINAL or job.desired == Desired.STOP:
            return False
        if job.state == JobState.QUEUED:
            forget_reservations([job.pk])
            data = {"reason": reason, "detail": detail[:500]}
            move_job(job, JobState.FAILED, actor=actor, data=data, reason=reason, reason_detail=detail[:500])
            wake_pool(job.pool_id)
            return True
        live = Attempt.objects.select_for_update(no_key=True).filter(job=job, state__in=ATTEMPT_LIVE).first()
        if live is None:
            return False
        if live.state != AttemptState.STOPPING:
            stopped = stop_attempt(
                attempt_id=live.pk, outcome=AttemptState.FAILED, reason=reason, detail=detail, actor=actor
            )
            return stopped is not None
        taken_over = Attempt.objects.filter(pk=live.pk, state=AttemptState.STOPPING)
        if live.outcome == AttemptState.CANCELLED:
            return False
        taken_over.update(outcome=AttemptState.FAILED, reason=reason, reason_detail=detail[:500])
        told = {"attempt": live.number, "reason": reason, "instead_of": live.reason, "detail": detail[:500]}
        record("attempt.stop_reason", actor=actor, tenant_id=job.tenant_id, job_id=job.pk, data=told)
        return True


def cancel_for(*, job_id: int, reason: Reason, detail: str, actor: str) -> bool:
    """Cancel the job for this reason; False if it is over or being cancelled. A running attempt gets its grace."""
    with transaction.atomic(), recorded_together():
        job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
        if job.state in JOB_TERMINAL or job.desired == Desired.STOP:
            return False
        Job.objects.filter(pk=job.pk).update(desired=Desired.STOP)
        data = {"reason": reason, "detail": detail[:500]}
        record("job.cancel_asked", actor=actor, tenant_id=job.tenant_id, job_id=job.pk, data=data)
        forget_reservations([job.pk])
        wake_pool(job.pool_id)
        if job.state == JobState.QUEUED:
            move_job(job, JobState.CANCELLED, actor=actor, data=data, reason=reason, reason_detail=detail[:500])
        else:
            _stop_live(job, AttemptState.CANCELLED, reason, detail, actor)
        return True


def pause_job(*, job_id: int, detail: str, actor: str) -> bool:
    """Hold a job of a group back until `resume_jobs`; a running attempt is stopped as by a preemption.

    False if the job is over, being cancelled or paused.
    """
    with transaction.atomic(), recorded_together():
        job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
        if job.state in JOB_TERMINAL or job.desired == Desired.STOP or job.paused:
            return False
        Job.objects.filter(pk=job.pk).update(paused=True)
        data = {"state": job.state, "reason": HoldReason.GROUP, "detail": detail[:500]}
        record("job.paused", actor=actor, tenant_id=job.tenant_id, job_id=job.pk, data=data)
        forget_reservations([job.pk])
        if job.state == JobState.ACTIVE:
            _stop_live(job, AttemptState.PREEMPTED, Reason.PAUSED, detail, actor)
        return True


def resume_jobs(job_ids: Collection[int], *, hold: dict[str, Any], actor: str) -> None:
    """Let these paused jobs go on; until a cycle places them they wait for the reason in `hold`."""
    with transaction.atomic(), recorded_together():
        jobs = list(Job.objects.select_for_update(no_key=True).filter(pk__in=job_ids, paused=True).order_by("pk"))
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(paused=False)
        queued = Job.objects.filter(pk__in=[job.pk for job in jobs], startable=True)
        queued.update(hold_reason=hold["reason"], hold=hold)
        for job in jobs:
            data = {"state": job.state, "reason": hold["reason"]}
            record("job.resumed", actor=actor, tenant_id=job.tenant_id, job_id=job.pk, data=data)
        for pool_id in {job.pool_id for job in jobs}:
            wake_pool(pool_id)


def _stop_live(job: Job, outcome: AttemptState, reason: Reason, detail: str, actor: str) -> None:
    """Stop the live attempt of a locked job; one that stops already gets this outcome if the job is to end."""
    live = Attempt.objects.select_for_update(no_key=True).filter(job=job, state__in=ATTEMPT_LIVE).first()
    if live is None:
        return
    if live.state != AttemptState.STOPPING:
        stop_attempt(attempt_id=live.pk, outcome=outcome, reason=reason, detail=detail, actor=actor)
    elif outcome is AttemptState.CANCELLED:
        stopping = Attempt.objects.filter(pk=live.pk, state=AttemptState.STOPPING)
        stopping.update(outcome=outcome, reason=reason, reason_detail=detail[:500])
