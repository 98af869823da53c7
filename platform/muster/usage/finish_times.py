"""Finish-time fairness of jobs: final values are stored once, those of live jobs are as it stands now.

docs/fairness.md defines the figures; `scheduler.predict.rho` has the formulas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from muster.common.clock import utc_now
from muster.fleet.models import Gpu
from muster.jobs.models import Attempt, Job
from muster.samples.rates import rates_of_jobs
from muster.tenants.models import Quota
from muster.usage.contention import Contention, Stay, contention_of
from muster.usage.models import FinishTime
from scheduler.model.lifecycle import JOB_TERMINAL, NodeAdmin, Stage
from scheduler.model.request import Request
from scheduler.predict.estimate import doubled
from scheduler.predict.rho import MIN_S, in_words, isolated_s, ratio

NO_GPUS = "it uses no GPUs"
NEVER_RAN = "it never ran"
NO_ESTIMATE = "unknown until the job ends: nothing tells how long it will run; give `expected` or `time` in the spec"
NO_CAPACITY = "unknown: the pool has no GPUs"


@dataclass(frozen=True, slots=True)
class Fairness:
    """How much longer a job takes than alone; `sentence` says it, or why it is not known.

    Of a job that has not ended it is as it stands: a waiting job is taken to start now. Times and `contention` are None
    where the figures are None.
    """

    final: bool
    sentence: str
    rho_cluster: float | None = None
    rho_quota: float | None = None
    taken_s: float | None = None
    alone_s: float | None = None
    pool_gpus: int = 0
    quota_gpus: int = 0
    contention: Contention | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """What a job has run, on the GPUs that it asks for, s; and how fast it runs now relative to these."""

    done_s: float = 0.0
    speed: float = 1.0
    runs: bool = False


@dataclass(frozen=True, slots=True)
class _Capacity:
    """The GPUs of a pool, and of the quota of a virtual cluster as far as the pool has them."""

    pool_gpus: int
    quota_gpus: int


def fairness_of(job: Job) -> Fairness:
    """The figures of one job: those that are stored, or as it stands now."""
    if job.state in JOB_TERMINAL:
        row = FinishTime.objects.filter(pk=job.pk).first()
        if row is None and not job.counted:
            row = next(iter(_finish_times([job])), None)
        if row is None:
            return Fairness(True, NEVER_RAN if job.gpus else NO_GPUS)
        return Fairness(
            True,
            _sentence(row.rho_cluster, row.rho_quota, _Capacity(row.pool_gpus, row.quota_gpus)),
            row.rho_cluster,
            row.rho_quota,
            row.taken_s,
            row.alone_s,
            row.pool_gpus,
            row.quota_gpus,
            Contention(row.contention, row.vc_contention),
        )
    if not job.gpus:
        return Fairness(False, NO_GPUS)
    return _as_it_stands(job, utc_now())


def store_finish_times(job_ids: Collection[int]) -> None:
    """Store the figures of these jobs, which have ended, within the caller's transaction."""
    columns = ("vc__pool_id", "vc_id", "tenant_id", "owner_id", "request", "gpus", "checkpoints", "submitted_at")
    jobs = Job.objects.filter(pk__in=job_ids, gpus__gt=0, attempt_count__gt=0).select_related("vc")
    FinishTime.objects.bulk_create(_finish_times(list(jobs.only(*columns, "ended_at"))), ignore_conflicts=True)


def forget_finish_times(job_ids: Collection[int]) -> None:
    """Delete the stored figures of these jobs, within the caller's transaction."""
    FinishTime.objects.filter(pk__in=job_ids).delete()


def _finish_times(jobs: Sequence[Job]) -> list[FinishTime]:
    """The figures of jobs that have ended, without those that never ran."""
    work = _work_of(jobs, utc_now())
    jobs = [job for job in jobs if work[job.pk].done_s >= MIN_S]
    capacities = _capacities(jobs)
    rows = []
    for job, contention in zip(jobs, contention_of([_stay(job, _end(job)) for job in jobs]), strict=True):
        taken_s, alone_s = (_end(job) - job.submitted_at).total_seconds(), work[job.pk].done_s
        capacity = capacities[job.vc_id]
        of_cluster, of_quota = _ratios(job, taken_s, alone_s, capacity, contention)
        rows.append(
            FinishTime(
                job=job,
                tenant_id=job.tenant_id,
                vc_id=job.vc_id,
                owner_id=job.owner_id,
                ended_at=_end(job),
                taken_s=taken_s,
                alone_s=alone_s,
                pool_gpus=capacity.pool_gpus,
                quota_gpus=capacity.quota_gpus,
                contention=contention.of_pool,
                vc_contention=contention.of_vc,
                rho_cluster=of_cluster,
                rho_quota=of_quota,
            )
        )
    return rows


def _as_it_stands(job: Job, now: datetime) -> Fairness:
    """The figures if a running job goes on as it does, and a waiting one starts now."""
    if job.expected_s is None:
        return Fairness(False, NO_ESTIMATE)
    work = _work_of([job], now)[job.pk]
    alone_s = max(work.done_s, doubled(job.expected_s, ran_s=work.done_s, limit_s=job.time_limit_s))
    taken_s = (now - job.submitted_at).total_seconds() + (alone_s - work.done_s) / work.speed
    capacity = _capacities([job])[job.vc_id]
    (contention,) = contention_of([_stay(job, now)])
    of_cluster, of_quota = _ratios(job, taken_s, alone_s, capacity, contention)
    told = _sentence(of_cluster, of_quota, capacity)
    if of_cluster is not None:
        told += ", as it stands" if work.runs else ", even if it started now"
    return Fairness(
        False, told, of_cluster, of_quota, taken_s, alone_s, capacity.pool_gpus, capacity.quota_gpus, contention
    )


def _ratios(
    job: Job, taken_s: float, alone_s: float, capacity: _Capacity, contention: Contention
) -> tuple[float | None, float | None]:
    """`rho_cluster` and `rho_quota`."""
    shares = ((capacity.pool_gpus, contention.of_pool), (capacity.quota_gpus, contention.of_vc))
    of_cluster, of_quota = (
        ratio(taken_s, isolated_s(alone_s, job.gpus_total, of_gpus=gpus, contention=applications)) if gpus else None
        for gpus, applications in shares
    )
    return of_cluster, of_quota


def _sentence(of_cluster: float | None, of_quota: float | None, capacity: _Capacity) -> str:
    if of_quota is not None:
        return in_words(of_quota, f"your own {_gpus(capacity.quota_gpus)}")
    if of_cluster is not None:
        return in_words(of_cluster, f"an equal part of the pool's {_gpus(capacity.pool_gpus)}")
    return NO_CAPACITY


def _gpus(number: int) -> str:
    return f"{number:,} GPU" if number == 1 else f"{number:,} GPUs"


def _end(job: Job) -> datetime:
    if job.ended_at is None:
        raise ValueError(f"job {job.pk} has not ended")
    return job.ended_at


def _stay(job: Job, until: datetime) -> Stay:
    return Stay(job.vc.pool_id, job.vc_id, job.submitted_at, until)


def _work_of(jobs: Sequence[Job], now: datetime) -> Mapping[int, _Work]:
    """The work of each job up to now.

    Of a job without checkpoints only the last attempt counts, since each one begins from the start: of a job that waits
    none. Time on another GPU type or size than the first choice counts by the known rates; without these each type is
    as fast, and a size in proportion to its GPUs.
    """
    by_job: defaultdict[int, list[Attempt]] = defaultdict(list)
    attempts = Attempt.objects.filter(job__in=[job.pk for job in jobs], stage=Stage.FULL).order_by("number")
    for attempt in attempts.only("job_id", "number", "placed_at", "ended_at", "request"):
        by_job[attempt.job_id].append(attempt)
    rates = rates_of_jobs([job.pk for job in jobs if len(job.request.choices) > 1 or job.request.elastic is not None])
    found = {}
    for job in jobs:
        known = {(rate.gpu_type, rate.gpus): rate.per_s for rate in rates.get(job.pk, ())}
        done_s, speed, runs = 0.0, 1.0, False
        for attempt in by_job[job.pk]:
            speed, runs = _speed(job.request, attempt.request, known), attempt.ended_at is None
            held_s = max(0.0, ((attempt.ended_at or now) - attempt.placed_at).total_seconds())
            done_s = held_s * speed + (done_s if job.checkpoints else 0.0)
        if job.state not in JOB_TERMINAL and not runs:
            done_s, speed = done_s if job.checkpoints else 0.0, 1.0
        found[job.pk] = _Work(done_s, speed, runs)
    return found


def _speed(asked: Request, given: Request, known: Mapping[tuple[str, int], float]) -> float:
    """The speed on the given GPUs, relative to the first choice."""
    there = known.get((given.first.gpu_type or "", given.gpus_total), 0.0)
    first = known.get((asked.first.gpu_type or "", asked.gpus_total), 0.0)
    if there > 0 and first > 0:
        return there / first
    return given.gpus_total / asked.gpus_total if asked.elastic is not None else 1.0


def _capacities(jobs: Iterable[Job]) -> Mapping[int, _Capacity]:
    """What the virtual clusters of these jobs and their pools have now, by virtual cluster."""
    pools = {job.vc_id: job.vc.pool_id for job in jobs}
    gpus: defaultdict[int, Counter[str]] = defaultdict(Counter)
    present = Gpu.objects.filter(node__pool__in=set(pools.values()), present=True)
    for pool_id, kind in present.exclude(node__admin=NodeAdmin.RETIRED).values_list("node__pool_id", "type"):
        gpus[pool_id][kind] += 1
    quotas: Counter[int] = Counter()
    for vc_id, kind, number in Quota.objects.filter(vc__in=pools).values_list("vc_id", "gpu_type", "gpus"):
        quotas[vc_id] += min(number, gpus[pools[vc_id]][kind])
    return {vc_id: _Capacity(gpus[pool_id].total(), quotas[vc_id]) for vc_id, pool_id in pools.items()}
