"""Telling owners what their losses say, each kind once a job, and stopping a job only if its spec asks for that."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from muster.common.models import DatabaseNow
from muster.events.services import record
from muster.fleet.models import Pool
from muster.jobs.attempt.ending import end_for_good
from muster.jobs.models import Attempt, Job
from muster.monitoring.models import FailureRate, JobAdvice, Series
from muster.monitoring.selectors import losses_of
from scheduler.diagnosis.training import Advice, Kind, advise
from scheduler.diagnosis.training.advice import LOSSES
from scheduler.model.reasons import Reason, reasons_where

MAX_SERIES = 500
COUNTED_FOR = timedelta(days=30)
# Ends that say that a node failed under a job: no job can bring them about by what it does.
_NODE_FAILURES = {*reasons_where(lambda meaning: meaning.is_departure), Reason.GPU_FAILED}
STOPPED_FOR = frozenset({Kind.NAN, Kind.RISING})

_RATES = """
SELECT job.pool_id,
       count(DISTINCT attempt.id) FILTER (WHERE attempt.reason = ANY(%(reasons)s)),
       sum(extract(epoch FROM least(coalesce(attempt.ended_at, %(now)s), %(now)s)
           - greatest(attempt.running_at, %(since)s)) / 3600 * (attempt.request->>'nodes')::int)
FROM jobs_attempt attempt JOIN jobs_job job ON job.id = attempt.job_id
WHERE attempt.running_at IS NOT NULL AND (attempt.ended_at IS NULL OR attempt.ended_at > %(since)s)
GROUP BY job.pool_id
"""


def look_at_losses(*, most: int = MAX_SERIES) -> int:
    """Look at the losses that have changed, and tell what there is to tell; returns how many were looked at."""
    with transaction.atomic():
        fresh = Series.objects.filter(fresh=True).select_for_update(skip_locked=True, no_key=True).order_by("pk")
        rows = list(fresh.values_list("pk", "name", "attempt__job_id", "attempt_id")[:most])
        Series.objects.filter(pk__in=[pk for pk, *_ in rows]).update(fresh=False)
    changed = {job_id: attempt_id for _, name, job_id, attempt_id in rows if name in LOSSES}
    for job_id, (points, odd_run, total) in losses_of(changed).items():
        found = advise(points, odd_run=odd_run, total=total)
        if found:
            _tell(job_id, changed[job_id], found)
    return len(rows)


def count_failures() -> None:
    """Count how often nodes of each pool failed under jobs, and how long they ran any."""
    now = timezone.now()
    with connection.cursor() as cursor:
        reasons = [reason.value for reason in _NODE_FAILURES]
        cursor.execute(_RATES, {"reasons": reasons, "now": now, "since": now - COUNTED_FOR})
        found = {pool_id: (failures, float(hours or 0)) for pool_id, failures, hours in cursor.fetchall()}
    rows = [
        FailureRate(pool_id=pk, failures=found.get(pk, (0, 0.0))[0], node_hours=max(0.0, found.get(pk, (0, 0.0))[1]))
        for pk in Pool.objects.values_list("pk", flat=True)
    ]
    for row in rows:
        row.at = DatabaseNow()
    FailureRate.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["pool"], update_fields=["failures", "node_hours", "at"]
    )


def forget_old_series(*, older_than: timedelta, batch: int = 5_000) -> int:
    """Remove the figures of attempts that have long ended; returns how many."""
    old = Series.objects.filter(at__lt=timezone.now() - older_than).order_by("at").values_list("pk", flat=True)
    return Series.objects.filter(pk__in=list(old[:batch])).delete()[0]


def _tell(job_id: int, attempt_id: int, found: Sequence[Advice]) -> None:
    with transaction.atomic():
        job = Job.objects.select_for_update(no_key=True).get(pk=job_id)
        attempt = Attempt.objects.get(pk=attempt_id)
        for one in found:
            values = {"attempt": attempt, "text": one.text[:300], "step": one.step}
            _, is_new = JobAdvice.objects.get_or_create(job=job, kind=one.kind, defaults=values)
            if not is_new:
                continue
            stops = one.kind in STOPPED_FOR and one.kind.value in job.spec.get("stop_on", ())
            record("job.advice", actor="platform", tenant_id=job.tenant_id, job_id=job_id, data=_told(one, attempt))
            if stops:
                end_for_good(job_id=job_id, reason=Reason.LOSS_DIVERGED, detail=one.text, actor="platform")


def _told(advice: Advice, attempt: Attempt) -> dict[str, Any]:
    return {"attempt": attempt.number, "advice": advice.kind.value, "detail": advice.text, "step": advice.step}
