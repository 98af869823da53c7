"""Ending a job for a reason that no further try can mend, whatever it does just now."""

from __future__ import annotations

from django.db import transaction

from muster.events.services import record, recorded_together, wake_pool
from muster.jobs.attempts import stop_attempt
from muster.jobs.models import Attempt, Job
from muster.jobs.transitions import forget_reservations, move_job
from scheduler.model.lifecycle import ATTEMPT_LIVE, JOB_TERMINAL, AttemptState, Desired, JobState, Reason


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
