"""Job groups in a snapshot: which of their waiting members may start, and what they have done and expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import Count

from muster.jobs.models import Job, JobGroup
from scheduler import model
from scheduler.model.lifecycle import JOB_TERMINAL, JobState

# Members with reserved GPUs come first, those in a pause between two tries last; then the order of their numbers.
_TURNS = """
WITH grp AS (
    SELECT grp.id, grp.parallel - (
        SELECT count(*) FROM jobs_job active WHERE active.group_id = grp.id AND active.state = %(active)s
    ) AS room FROM jobs_jobgroup grp WHERE grp.pool_id = %(pool)s AND grp.state = 'active'
)
SELECT turn.id FROM (
    SELECT job.id, grp.room, row_number() OVER (
        PARTITION BY grp.id
        ORDER BY reservation.job_id IS NULL, job.eligible_at > clock_timestamp(), job.member
    ) AS place
    FROM grp JOIN jobs_job job ON job.group_id = grp.id
    LEFT JOIN jobs_reservation reservation ON reservation.job_id = job.id
    WHERE job.startable
) turn WHERE turn.place <= turn.room
"""
# What is stored in the meantime is of no use to a job that saves no checkpoints.
# Postgres looks thousands of ids up in a hash only where their type is that of the column.
_WORK = """
SELECT group_id,
    coalesce(sum(attained_gpu_s) FILTER (WHERE state = ANY(%(ended)s)), 0),
    CASE WHEN bool_or(later AND expected_s IS NULL) THEN NULL ELSE coalesce(
        sum(greatest(expected_s - CASE WHEN checkpoints THEN ran_s ELSE 0 END, 0) * gpus * nodes) FILTER (WHERE later),
        0) END
FROM (
    SELECT *, state = %(queued)s AND NOT id = ANY(%(seen)s::bigint[]) AS later
    FROM jobs_job WHERE group_id = ANY(%(groups)s)
) member GROUP BY group_id
"""


def members_whose_turn_it_is(pool_id: int) -> list[int]:
    """The waiting members of groups that may start: of each group as many as its budget has room for."""
    with connection.cursor() as cursor:
        cursor.execute(_TURNS, {"pool": pool_id, "active": JobState.ACTIVE.value})
        return [job_id for (job_id,) in cursor.fetchall()]


def groups_of(jobs: Sequence[model.Job]) -> tuple[model.Group, ...]:
    """The groups of the jobs of a snapshot."""
    ids = sorted({job.group_id for job in jobs if job.group_id is not None})
    if not ids:
        return ()
    params: dict[str, Any] = {
        "groups": ids,
        "seen": [job.id for job in jobs if job.group_id is not None],
        "ended": sorted(JOB_TERMINAL),
        "queued": JobState.QUEUED.value,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WORK, params)
        work = {pk: (done, to_come) for pk, done, to_come in cursor.fetchall()}
    rows = JobGroup.objects.filter(pk__in=ids).order_by("pk").values_list("pk", "tenant_id", "submitted_at")
    return tuple(model.Group(pk, tenant_id, at.timestamp(), *work[pk]) for pk, tenant_id, at in rows)


class Budgets:
    """The number of members of groups that may still start; the virtual clusters of the jobs are locked."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        ids = {job.group_id for job in jobs if job.group_id is not None}
        self._room: Counter[int] = Counter()
        self._names: dict[int, str] = {}
        if ids:
            groups = JobGroup.objects.filter(pk__in=ids).values_list("pk", "parallel", "kind")
            self._names = {pk: f"{kind} {pk}" for pk, _, kind in groups}
            self._room.update({pk: parallel for pk, parallel, _ in groups})
            active = Job.objects.filter(group__in=ids, state=JobState.ACTIVE).values("group").order_by("group")
            self._room.subtract(dict(active.annotate(members=Count("pk")).values_list("group", "members")))

    def take(self, job_ids: Iterable[int], jobs: Mapping[int, Job]) -> str | None:
        """Take a place for each of these jobs that starts, or say which has none and take nothing."""
        starts = [job for job in map(jobs.__getitem__, job_ids) if job.state == JobState.QUEUED]
        wanted = Counter(job.group_id for job in starts if job.group_id is not None)
        for group_id, members in wanted.items():
            if members > self._room[group_id]:
                return f"{self._names[group_id]} runs as many members as it may"
        for job in starts:
            if job.paused and job.group_id is not None:
                return f"{self._names[job.group_id]} has paused the job"
        self._room.subtract(wanted)
        return None
