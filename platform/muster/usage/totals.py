"""Holdings of ended jobs, summed up by days, so that reports need not read each claim again.

A job is counted once, some time after its end, when nothing of it changes any more: in one transaction its rows of
`HeldDay` are written, its day is added to `DayTotal` if it had one attempt, its finish-time fairness is stored, and it
is marked. So a report finds it either in the sums or by its claims, never in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction

from muster.jobs.models import Job
from muster.usage.finish_times import forget_finish_times, store_finish_times
from muster.usage.outcomes import category_sql, failure_sql, outcome_sql, retry_sql
from muster.usage.statement import ENDED, held_sql
from scheduler.model.lifecycle import JOB_TERMINAL

BATCH = 500

_KEY = "day, tenant_id, vc_id, owner_id, gpu_type, klass, state, outcome, failure, category"


@transaction.atomic
def count_ended(*, most: int = BATCH) -> int:
    """Count up to `most` jobs that have ended, the oldest first, and return how many; what others count is left out."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, {"most": most})
        job_ids = [job_id for (job_id,) in cursor.fetchall()]
        if job_ids:
            cursor.execute(_COUNT, {"jobs": job_ids, "from": "-infinity", "to": "infinity"})
            store_finish_times(job_ids)
            Job.objects.filter(pk__in=job_ids).update(counted=True)
    return len(job_ids)


@transaction.atomic
def uncount(job_ids: Sequence[int]) -> int:
    """Take jobs out of the sums again, and return how many were in them: they are counted anew by what they have now.

    For when rows of attempts or claims that have ended were corrected, or are to be deleted.
    """
    counted = Job.objects.select_for_update(no_key=True).filter(pk__in=job_ids, counted=True).order_by("pk")
    found = list(counted.values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(_UNCOUNT, {"jobs": found})
    forget_finish_times(found)
    Job.objects.filter(pk__in=found).update(counted=False)
    return len(found)


def uncount_all() -> int:
    """Empty the sums, in batches, and return how many jobs were in them; until they are counted, claims are read."""
    done, last = 0, 0
    counted = Job.objects.filter(state__in=sorted(JOB_TERMINAL), counted=True).order_by("pk")
    while job_ids := list(counted.filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        done, last = done + uncount(job_ids), job_ids[-1]
    return done


# Nothing holds a GPU for a job that has ended; if something did, it would go on to count as it does now. That is asked
# of one job after the other until there are enough: as EXISTS it would be asked of all that wait, perhaps a million.
_NEXT = (
    f"SELECT job.id FROM jobs_job job WHERE job.state IN ({ENDED}) AND NOT job.counted AND ("
    "SELECT true FROM jobs_attempt attempt JOIN jobs_allocation allocation ON allocation.attempt_id = attempt.id"
    " JOIN jobs_gpuclaim claim ON claim.allocation_id = allocation.id"
    " WHERE attempt.job_id = job.id AND claim.released_at IS NULL LIMIT 1) IS NULL"
    " ORDER BY job.id LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED"
)
# 1. What each attempt of these jobs held, by days and types of GPU.
# 2. Whether it is alone: the first and only one of its job, on one type of GPU, all of which it got at once and kept
#    for some time. Then it has no gaps, and who was there can be told by its first day.
# 3. The sums of those, in the order of their key: of two who add to the same, none waits for the other in a circle.
_COUNT = (
    f"WITH held AS ({{held}}), told AS (SELECT held.*, attempt.number, attempt.job_id,"
    " min(held.claimed_at) OVER ours AS first_claimed_at, max(held.last_claimed_at) OVER ours AS latest_claimed_at,"
    " bool_and(held.lasted) OVER ours AS all_lasted,"
    " min(held.gpu_type) OVER ours = max(held.gpu_type) OVER ours AS one_type,"
    " (SELECT count(*) FROM jobs_attempt one WHERE one.job_id = attempt.job_id) AS attempts"
    " FROM held JOIN jobs_attempt attempt ON attempt.id = held.attempt_id"
    " WINDOW ours AS (PARTITION BY held.attempt_id)),"
    " days AS (INSERT INTO usage_heldday (attempt_id, day, gpu_type, job_id, tenant_id, vc_id, owner_id, klass, state,"
    " outcome, failure, category, retry, slot_us, began, alone)"
    " SELECT attempt.id, (told.bucket AT TIME ZONE 'UTC')::date, told.gpu_type, job.id, job.tenant_id, job.vc_id,"
    f" job.owner_id, job.klass, job.state, {outcome_sql()}, COALESCE({failure_sql()}, ''),"
    f" COALESCE({category_sql()}, ''), {retry_sql()}, told.slot_us,"
    " told.bucket = date_trunc('day', told.first_claimed_at, 'UTC'), told.attempts = 1 AND told.number = 1"
    " AND told.one_type AND told.all_lasted AND told.first_claimed_at = told.latest_claimed_at"
    " FROM told JOIN jobs_attempt attempt ON attempt.id = told.attempt_id JOIN jobs_job job ON job.id = attempt.job_id"
    # Redundant, but without it the planner reads all jobs.
    " WHERE job.id = ANY(%(jobs)s)"
    " RETURNING *)"
    f" INSERT INTO usage_daytotal AS total ({_KEY}, slot_us, attempts, began)"
    f" SELECT {_KEY}, sum(slot_us), count(*), count(*) FILTER (WHERE began) FROM days WHERE alone"
    f" GROUP BY {_KEY} ORDER BY {_KEY}"
    f" ON CONFLICT ({_KEY}) DO UPDATE SET slot_us = total.slot_us + excluded.slot_us,"
    " attempts = total.attempts + excluded.attempts, began = total.began + excluded.began"
).format(
    held=held_sql(
        ("from", "to"),
        "allocation.attempt_id IN (SELECT id FROM jobs_attempt WHERE job_id = ANY(%(jobs)s))",
        bucket="day",
    )
)
_UNCOUNT = (
    "WITH gone AS (DELETE FROM usage_heldday WHERE attempt_id IN"
    " (SELECT id FROM jobs_attempt WHERE job_id = ANY(%(jobs)s)) RETURNING *),"
    f" less AS (SELECT {_KEY}, sum(slot_us) AS slot_us, count(*) AS attempts, count(*) FILTER (WHERE began) AS began"
    f" FROM gone WHERE alone GROUP BY {_KEY} ORDER BY {_KEY})"
    " UPDATE usage_daytotal total SET slot_us = total.slot_us - less.slot_us,"
    " attempts = total.attempts - less.attempts, began = total.began - less.began FROM less"
    f" WHERE {' AND '.join(f'total.{name} = less.{name}' for name in _KEY.split(', '))}"
)
