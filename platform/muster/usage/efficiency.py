"""The grades of jobs that have ended: of one, of the worst, and the mean of all."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet, Sum

from muster.common.clock import hours, rounded
from muster.jobs.models import Job
from muster.usage.models import Efficiency
from muster.usage.periods import Period
from muster.usage.scope import Scope
from muster_client.answers.usage import Graded
from scheduler.model.lifecycle import JOB_TERMINAL


def efficiency_of(job: Job) -> Efficiency | None:
    """The grade of a job, or why it has none; None while it has not ended, and until it was looked at."""
    if job.state not in JOB_TERMINAL:
        return None
    return Efficiency.objects.filter(pk=job.pk).first()


def graded(period: Period, scope: Scope) -> Graded:
    """The GPU use of the runs that ended in the period."""
    found = _of(period, scope).aggregate(
        jobs=Count("pk"), gpu_s=Sum("gpu_s", default=0.0), idle_gpu_s=Sum("idle_gpu_s", default=0.0)
    )
    gpu_s, idle_gpu_s = found["gpu_s"], found["idle_gpu_s"]
    utilization = 100 * (1 - idle_gpu_s / gpu_s) if gpu_s > 0 else None
    return {
        "jobs": found["jobs"],
        "gpu_hours": hours(gpu_s),
        "idle_gpu_hours": hours(idle_gpu_s),
        "utilization": rounded(utilization, 2),
    }


def least_efficient(period: Period, scope: Scope, *, most: int) -> list[Efficiency]:
    """The runs that left the most GPU time idle, with their jobs."""
    rows = _of(period, scope).filter(idle_gpu_s__gt=0).select_related("job__owner", "job__vc")
    return list(rows.order_by("-idle_gpu_s", "-pk")[:most])


def _of(period: Period, scope: Scope) -> QuerySet[Efficiency]:
    return Efficiency.objects.filter(~Q(grade=""), scope.of_jobs, ended_at__gte=period.start, ended_at__lt=period.end)
