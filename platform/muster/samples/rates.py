"""Rates of jobs on each GPU type that they accept, for the scheduler.

`scheduler.predict.rates` decides it from the speeds of `muster.samples.speeds` and the claims in specs. The estimates
of live jobs are stored, so that a cycle reads them in one query, and pages show what the scheduler was told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import connection, transaction
from django.db.models import Max

from muster.fleet.models import Gpu
from muster.jobs.models import Job
from muster.samples.models import RateEstimate, RateRefresh, Speed, SpeedAlone
from muster.samples.speeds import stretch_of
from scheduler.model.lifecycle import JobState, Stage
from scheduler.model.request import Request
from scheduler.predict.rates import Ask, Measurement, Rates, Size, Subject

HISTORY_ROWS = 5000  # the newest measurements of each kind that count
LIVE = (JobState.QUEUED, JobState.ACTIVE)
_OF_JOB = ("job__owner", "job__name", "job__tenant", "job__request", "job__spec")


@dataclass(frozen=True, slots=True)
class KnownRate:
    """The rate of a job on `gpus` GPUs of one type, its deviation, and the source of both; `slowdown`: rate on one node
    ÷ rate on several. None: unknown."""

    gpu_type: str
    gpus: int
    per_s: float
    deviation: float | None
    source: str
    slowdown: float | None = None


def refresh_rates() -> int:
    """Estimate the rates of live jobs anew if something was measured or submitted since; returns how many jobs."""
    with transaction.atomic():
        state, _ = RateRefresh.objects.select_for_update().get_or_create(pk=1)
        measured_at = SpeedAlone.objects.aggregate(at=Max("at"))["at"]
        screened_at = Speed.objects.filter(attempt__stage=Stage.SCREENING).aggregate(at=Max("at"))["at"]
        newest_job = Job.objects.aggregate(newest=Max("pk"))["newest"] or 0
        newest = max((at for at in (measured_at, screened_at) if at is not None), default=None)
        if (state.measured_at, state.job_id) == (newest, newest_job):
            return 0
        rows = list(_estimated(Rates([*_measured(), *_screened()])))
        RateEstimate.objects.filter(job__state__in=LIVE).delete()
        RateEstimate.objects.bulk_create(rows, batch_size=2000)
        state.measured_at, state.job_id = newest, newest_job
        state.save()
        return len({row.job_id for row in rows})


def rates_of(job: Job) -> Sequence[KnownRate]:
    """The known rates of the job, by GPU type and number of GPUs."""
    return rates_of_jobs([job.pk]).get(job.pk, [])


def rates_of_jobs(job_ids: Collection[int]) -> Mapping[int, Sequence[KnownRate]]:
    """The known rates of these jobs, by the id of the job."""
    return _read("job.id = ANY(%s)", [list(job_ids)]) if job_ids else {}


def live_rates(pool_id: int) -> Mapping[int, Sequence[KnownRate]]:
    """The known rates of the live jobs of a pool, by the id of the job."""
    return _read("job.pool_id = %s AND job.state = ANY(%s)", [pool_id, [state.value for state in LIVE]])


# What a job was measured at itself comes before what was estimated for it.
_KNOWN = """
SELECT job_id, gpu_type, gpus, per_s, deviation, source, slowdown FROM (
    SELECT alone.job_id, alone.gpu_type, alone.gpus, alone.per_s, NULL::float8 AS deviation, 'measured' AS source,
           NULL::float8 AS slowdown, 0 AS late
    FROM samples_speedalone alone JOIN jobs_job job ON job.id = alone.job_id WHERE {which}
    UNION ALL
    SELECT known.job_id, known.gpu_type, known.gpus, known.per_s, known.deviation, known.source,
           known.slowdown, 1
    FROM samples_rateestimate known JOIN jobs_job job ON job.id = known.job_id WHERE {which}
) told ORDER BY job_id, gpu_type, gpus, late
"""


def _read(which: str, values: list[Any]) -> Mapping[int, Sequence[KnownRate]]:
    found: defaultdict[int, dict[tuple[str, int], KnownRate]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN.format(which=which), values * 2)
        for job_id, *told in cursor.fetchall():
            rate = KnownRate(*told)
            before = found[job_id].setdefault((rate.gpu_type, rate.gpus), rate)
            if before is not rate:  # where both are measured, the deviation is that of the pooled measurements
                deviation = rate.deviation if before.source == rate.source else before.deviation
                found[job_id][rate.gpu_type, rate.gpus] = replace(before, deviation=deviation, slowdown=rate.slowdown)
    return {job_id: list(rates.values()) for job_id, rates in found.items()}


def _measured() -> Iterator[Measurement]:
    """The newest measured speeds of jobs alone on their GPUs."""
    rows = (
        SpeedAlone.objects.order_by("-at")
        .select_related("job")
        .only("gpu_type", "gpus", "per_s", "deviation", *_OF_JOB)
    )
    for row in rows[:HISTORY_ROWS]:
        job = row.job
        subject = Subject((job.owner_id, job.name), job.owner_id, job.tenant_id)
        as_asked = row.gpus == job.request.gpus_on(row.gpu_type)  # a resize says nothing of the claim
        claimed = (job.spec.get("throughput") or {}).get(row.gpu_type) if as_asked else None
        size = Size(row.gpu_type, row.gpus, job.request.nodes > 1)
        yield Measurement(subject, size, row.per_s, row.deviation, claimed=claimed)


def _screened() -> Iterator[Measurement]:
    """The newest speeds of screening runs that were alone on their GPUs."""
    rows = Speed.objects.filter(attempt__stage=Stage.SCREENING, beside=[], since__isnull=False).order_by("-at")
    columns = ("at", "count", "beside", "since", "first", "steps", "readings", "squares")
    names = ("attempt__job__owner_id", "attempt__job__name", "attempt__job__tenant_id")
    held = ("gpu_type", "gpus", "attempt__request")
    for owner_id, name, tenant_id, *row in rows.values_list(*names, *held, *columns)[:HISTORY_ROWS]:
        gpu_type, gpus, request, *stretch = row
        found = stretch_of(*stretch)
        if found is not None and found.per_s is not None:
            subject = Subject((owner_id, name), owner_id, tenant_id)
            size = Size(gpu_type, gpus, request.nodes > 1)
            yield Measurement(subject, size, found.per_s, found.deviation, readings=found.steps, screened=True)


def _estimated(rates: Rates) -> Iterator[RateEstimate]:
    """The rates of all live jobs on the sizes that they accept in their pools."""
    types: defaultdict[int, list[str]] = defaultdict(list)
    for pool_id, gpu_type in Gpu.objects.order_by("type").values_list("node__pool_id", "type").distinct():
        types[pool_id].append(gpu_type)
    jobs = Job.objects.filter(state__in=LIVE, gpus__gt=0).only("owner", "name", "tenant", "pool", "request", "spec")
    for job in jobs.iterator(chunk_size=2000):
        subject = Subject((job.owner_id, job.name), job.owner_id, job.tenant_id)
        sizes = tuple(_sizes_of(job.request, types[job.pool_id]))
        claimed_slowdown = (job.spec.get("locality") or {}).get("slowdown")
        for found in rates.estimate(Ask(subject, sizes, job.spec.get("throughput") or {})).rates:
            yield RateEstimate(
                job=job,
                gpu_type=found.size.gpu_type,
                gpus=found.size.gpus,
                per_s=found.per_s,
                deviation=found.deviation,
                source=found.source.value,
                slowdown=rates.slowdown(subject, found.size.gpu_type, found.size.gpus) or claimed_slowdown,
            )


def _sizes_of(request: Request, gpu_types: Sequence[str]) -> Iterator[Size]:
    """The sizes that a job accepts, with the range of an elastic one; the size that it asks for is its type's first."""
    for choice in request.choices_among(gpu_types):
        for gpus in request.sizes(choice):
            yield Size(choice.gpu_type or "", gpus, request.nodes > 1)
