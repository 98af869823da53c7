"""Reading what jobs reported, what they were told, and how often they should save."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from django.db.models import F

from muster.jobs.models import Attempt, Job
from muster.monitoring.models import FailureRate, JobAdvice, Series
from muster.monitoring.store import CHECKPOINT, TOTAL, curve_of
from scheduler.diagnosis.training import Interval, interval_of
from scheduler.diagnosis.training.advice import LOSSES
from scheduler.diagnosis.training.checkpoints import failures_per_node_hour
from scheduler.diagnosis.training.curve import joined
from scheduler.model.lifecycle import AttemptState

_STOPS_LOOKED_AT = 5


@dataclass(frozen=True, slots=True)
class CheckpointAdvice:
    """The recommended interval between checkpoints, and the figures behind it."""

    interval: Interval
    measured: Literal["reported", "stops"]
    """`reported`: by the job itself; `stops`: by how long it took to go when it was asked to."""
    measurements: int
    failures: int
    node_hours: float
    nodes: int


def series_of(attempt: Attempt) -> list[Series]:
    """Series that an attempt has reported, by name."""
    return list(Series.objects.filter(attempt=attempt).order_by("name"))


def newest_of(job: Job) -> list[Series]:
    """The newest values of the job's latest attempt, without their points."""
    latest = Series.objects.filter(attempt__job=job, attempt__number=F("attempt__job__attempt_count"))
    return list(latest.defer("steps", "values").order_by("name"))


def advice_of(job: Job) -> list[JobAdvice]:
    """Advice to the job's owner, in its order."""
    return list(JobAdvice.objects.filter(job=job).select_related("attempt").order_by("pk"))


def losses_of(job_ids: Iterable[int]) -> Mapping[int, tuple[list[tuple[float, float]], int, float | None]]:
    """Of each job the curve of its loss over its attempts, the odd values at its end, and the last step if known."""
    rows = Series.objects.filter(attempt__job__in=list(job_ids), name__in=[*LOSSES, TOTAL])
    found: dict[int, dict[str, list[Series]]] = {}
    for row in rows.select_related("attempt").order_by("attempt_id"):
        found.setdefault(row.attempt.job_id, {}).setdefault(row.name, []).append(row)
    told: dict[int, tuple[list[tuple[float, float]], int, float | None]] = {}
    for job_id, by_name in found.items():
        name = next((name for name in LOSSES if name in by_name), None)
        if name is None:
            continue
        series = by_name[name]
        total = by_name[TOTAL][-1].last_value if TOTAL in by_name else None
        known = total if total is not None and math.isfinite(total) and total > 0 else None
        told[job_id] = joined(curve_of(one).points() for one in series), series[-1].odd_run, known
    return told


def checkpoint_advice(job: Job) -> CheckpointAdvice | None:
    """The recommended interval between checkpoints; None if the cost of a checkpoint is not known.

    1. The cost is the median of what the job reported of late, or of the times that its last preempted attempts took
       from the signal to the end: a job that saves when it is asked to stop does little else then.
    2. The rate of failures is that of the pool's nodes of late, with a prior that counts where little was seen.
    """
    costs = _reported_costs(job)
    measured: Literal["reported", "stops"] = "reported" if costs else "stops"
    if not costs and job.checkpoints:
        costs = _times_of_stops(job)
    if not costs:
        return None
    rate = FailureRate.objects.filter(pool=job.pool_id).first()
    failures, node_hours = (rate.failures, rate.node_hours) if rate else (0, 0.0)
    interval = interval_of(
        cost_s=median(costs), nodes=job.request.nodes, per_node_hour=failures_per_node_hour(failures, node_hours)
    )
    return CheckpointAdvice(interval, measured, len(costs), failures, node_hours, job.request.nodes)


def _reported_costs(job: Job) -> list[float]:
    rows = Series.objects.filter(attempt__job=job, name=CHECKPOINT).order_by("-attempt_id")[:_STOPS_LOOKED_AT]
    return [value for row in rows for _, value in curve_of(row).points()[-10:] if 0 < value < math.inf]


def _times_of_stops(job: Job) -> list[float]:
    stops = Attempt.objects.filter(
        job=job, state=AttemptState.PREEMPTED, running_at__isnull=False, stopping_at__isnull=False
    ).order_by("-number")[:_STOPS_LOOKED_AT]
    took = [(one.ended_at - one.stopping_at).total_seconds() for one in stops if one.ended_at and one.stopping_at]
    # Who was killed at the end of the grace has saved nothing that one could count on.
    return [seconds for seconds in took if 0 < seconds < job.grace_s]
