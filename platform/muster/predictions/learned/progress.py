"""Corrects the expected run times of jobs that report their steps and where these end."""

from __future__ import annotations

from muster.common.statements import Statement
from muster.jobs.attempt.estimates import estimates_of, expect
from muster.jobs.models import Job
from muster.monitoring.store import TOTAL
from scheduler.model.lifecycle import AttemptState, JobState, Stage
from scheduler.predict.history import MAX_S
from scheduler.predict.runtimes import RunTime, Source, corrected

MAX_JOBS = 500
MIN_CHANGE = 0.05
"""Of the expected run time; what changes less is not stored."""
REPORTS = f"""
SELECT job.id, max(series.last_step), max(series.last_value) FILTER (WHERE series.name = '{TOTAL}'),
       extract(epoch FROM max(series.at) - min(attempt.placed_at))::float8
FROM jobs_job job
JOIN jobs_attempt attempt ON attempt.job_id = job.id AND attempt.state = '{AttemptState.RUNNING}'
JOIN monitoring_series series ON series.attempt_id = attempt.id
WHERE job.state = '{JobState.ACTIVE}' AND job.stage = '{Stage.FULL}' AND job.expected_source <> '{Source.SWEEP}'
GROUP BY job.id
HAVING bool_or(series.name = '{TOTAL}') AND max(series.at) > clock_timestamp() - interval '2 minutes'
"""
_REPORTS = Statement(f"{REPORTS} ORDER BY job.id LIMIT {MAX_JOBS}")


def follow_progress() -> int:
    """Store what the steps so far say of the run times of running jobs; returns the number of changed jobs."""
    reports = {job_id: report for job_id, *report in _REPORTS.rows()}
    jobs = list(Job.objects.filter(pk__in=reports))
    changed = 0
    for job, prior in zip(jobs, estimates_of(jobs), strict=True):
        step, total, held_s = reports[job.pk]
        ran_s = (job.ran_s if job.checkpoints else 0.0) + held_s
        before = prior or RunTime(1.0, max(1.0, ran_s), MAX_S, Source.HISTORY)
        found = corrected(before, ran_s=ran_s, limit_s=job.time_limit_s, step=step, total=total)
        if found.source is not Source.PROGRESS or not _differs(job.expected_s, found.p50_s):
            continue
        changed += expect(job.pk, found)
    return changed


def _differs(known_s: float | None, found_s: float) -> bool:
    return known_s is None or abs(found_s - known_s) > MIN_CHANGE * known_s
