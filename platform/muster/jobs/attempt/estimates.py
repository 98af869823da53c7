"""The expected run times of jobs: quantiles by the active model, else by rules, from the runs that `history` reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Least

from muster.common.clock import utc_now
from muster.common.statements import Statement
from muster.jobs.attempt.history import history_of, run_time_job
from muster.jobs.models import STEM_SQL, Attempt, Job
from muster.jobs.ports import ports
from muster_client.answers.jobs import RunTimeEstimate
from scheduler.model.lifecycle import ATTEMPT_LIVE, JobState, Stage
from scheduler.predict.runtimes import RunTime, Source, corrected_at

MAX_WAITING = 1000
"""The waiting jobs that are estimated anew after the end of a job alike: those that were submitted first."""
LEARNED_AT = (1, 2, 4, 8)
"""The numbers of ended jobs alike with which the history has become another one."""
SPREAD = 1.5
"""The p90 of what a sweep expects of a member, and the p10, are this factor away."""


def estimate_jobs(jobs: Iterable[Job]) -> None:
    """Set the expected run time of each job that is to be stored, and its source; one query for all of them."""
    jobs = list(jobs)
    for job, found in zip(jobs, estimates_of(jobs), strict=True):
        for name, value in _fields(found).items():
            setattr(job, name, value)


def learn_from(job: Job) -> None:
    """Estimate the waiting jobs alike anew once the end of this one has been committed."""
    owner_id, name = job.owner_id, job.name
    # Not in this transaction, which holds the locks of an attempt by now: jobs are locked before attempts.
    transaction.on_commit(lambda: estimate_waiting(owner_id, name), robust=True)


# Asked after the end of every job, and mostly there are none.
_ALIKE = f"owner_id = %s AND {STEM_SQL.format(name='name')} = {STEM_SQL.format(name='%s::text')}"
_WAITING = Statement(f"""
SELECT ARRAY(SELECT id FROM jobs_job WHERE {_ALIKE} AND ended_at IS NULL AND state = '{JobState.QUEUED}'
             AND expected_source <> ALL (%s) ORDER BY id LIMIT {MAX_WAITING}),
       (SELECT count(*) FROM (
            SELECT FROM jobs_job WHERE {_ALIKE} AND ended_at IS NOT NULL AND ran_s > 0
            LIMIT {max(LEARNED_AT) + 1}) ended)
""")  # noqa: S608 - put together of constants
_KNOWN_BETTER = [Source.SWEEP.value, Source.PROGRESS.value]


def estimate_waiting(owner_id: int, name: str) -> None:
    """Estimate the waiting jobs of this owner and stem anew while the first jobs of them end."""
    ((pks, ended),) = _WAITING.rows(owner_id, name, _KNOWN_BETTER, owner_id, name)
    if not pks or ended not in LEARNED_AT:
        return
    with transaction.atomic():
        alike = Job.objects.filter(pk__in=pks, state=JobState.QUEUED).order_by("pk")
        jobs = list(alike.select_for_update(no_key=True, skip_locked=True))
        by_estimate: defaultdict[RunTime | None, list[int]] = defaultdict(list)
        for job, found in zip(jobs, estimates_of(jobs), strict=True):
            by_estimate[found].append(job.pk)
        for found, those in by_estimate.items():
            Job.objects.filter(pk__in=those).update(**_fields(found))


def estimate_members(job_ids: Iterable[int], expected_s: float) -> None:
    """Set the expected run time of members of a group, as the group knows it better than their history."""
    jobs, limit = Job.objects.filter(pk__in=list(job_ids), ended_at=None), F("time_limit_s")
    jobs.update(
        expected_s=Least(Value(expected_s), limit),
        expected_p10_s=Least(Value(expected_s / SPREAD), limit),
        expected_p90_s=Least(Value(expected_s * SPREAD), limit),
        expected_source=Source.SWEEP,
    )


def expect(job_id: int, found: RunTime) -> bool:
    """Store the corrected run time of a job, unless it has ended or its sweep knows better; returns whether it was."""
    living = Job.objects.filter(pk=job_id, ended_at=None).exclude(expected_source=Source.SWEEP)
    return living.update(**_fields(found)) > 0


def expected_of(job: Job) -> RunTime | None:
    """The stored expected run time of a job."""
    if job.expected_s is None:
        return None
    low, high = job.expected_p10_s, job.expected_p90_s
    return quantiles_of(job.expected_s, low, high, Source(job.expected_source or Source.HISTORY))


def quantiles_of(p50_s: float, p10_s: float | None, p90_s: float | None, source: Source) -> RunTime:
    """The expected run time in these columns, in order; one without an interval is taken to be certain."""
    low = p50_s if p10_s is None else min(p10_s, p50_s)
    high = p50_s if p90_s is None else max(p90_s, p50_s)
    return RunTime(low, p50_s, high, source)


def current_estimate(job: Job) -> RunTimeEstimate | None:
    """The expected run time as it is now, s, and its source: longer where the job has run for long."""
    stored = expected_of(job)
    if stored is None:
        return None
    ran_s = job.ran_s if job.checkpoints else 0.0
    if job.state == JobState.ACTIVE and job.stage == Stage.FULL:
        placed = Attempt.objects.filter(job=job, state__in=ATTEMPT_LIVE).values_list("placed_at", flat=True).first()
        ran_s += max(0.0, (utc_now() - placed).total_seconds()) if placed is not None else 0.0
    elif job.state != JobState.QUEUED:
        ran_s = 0.0
    now = corrected_at(stored, ran_s=ran_s, limit_s=job.time_limit_s)
    return {
        "expected_s": round(now.p50_s, 1),
        "p10_s": round(now.p10_s, 1),
        "p90_s": round(now.p90_s, 1),
        "source": (Source.OUTLIVED if ran_s >= stored.p90_s else now.source).value,
    }


def estimates_of(jobs: Sequence[Job]) -> list[RunTime | None]:
    """The expected run times of jobs as if they were submitted now; one query for all of them."""
    now = utc_now().timestamp()
    known = [run_time_job(job, submitted_at=now) for job in jobs]
    # Members of an array are alike in all that counts.
    different = list(dict.fromkeys(known))
    found = dict(zip(different, ports.run_times(different, history_of(jobs)), strict=True))
    return [found[one] for one in known]


def _fields(found: RunTime | None) -> dict[str, object]:
    """The columns of an expected run time, in tenths of a second."""
    if found is None:
        return {"expected_s": None, "expected_p10_s": None, "expected_p90_s": None, "expected_source": ""}
    return {
        "expected_s": round(found.p50_s, 1),
        "expected_p10_s": round(found.p10_s, 1),
        "expected_p90_s": round(found.p90_s, 1),
        "expected_source": found.source.value,
    }
