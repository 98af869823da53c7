"""Grades for jobs that have ended: read from the events, each once, and made of the samples of the longest run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery

from muster.events.models import Event
from muster.events.reading import read_new
from muster.jobs.models import Allocation, Attempt, GpuClaim
from muster.notices.wording import Grade
from muster.samples.totals import GpuTotal, Held, RankTotal, gpu_totals, rank_totals
from muster.usage.dimensions import SLOTS
from muster.usage.models import Efficiency, Reader
from scheduler.diagnosis.efficiency import GpuUse, HostUse, Use, judge
from scheduler.model.lifecycle import JOB_TERMINAL, Stage

BATCH = 100
MAX_GPUS_STORED = 64
"""Of a job with more, those that were used least are told one by one."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """The claims of allocations by their ids, and what was measured of both by their keys."""

    claims: Mapping[int, Sequence[GpuClaim]]
    by_gpu: Mapping[tuple[int, ...], GpuTotal]
    by_rank: Mapping[tuple[int, ...], RankTotal]


_ENDS = [f"job.{state.value}" for state in sorted(JOB_TERMINAL)]


def read_ends(*, most: int = BATCH) -> int:
    """Grade the jobs of up to `most` new ends, and return how many there were; 0 if another worker reads."""
    return read_new(Reader, _ENDS, _grade, most=most)


def _grade(ends: Sequence[Event]) -> None:
    grade_jobs({end.job_id for end in ends if end.job_id is not None})


def grades_for_notices(job_ids: Collection[int]) -> Mapping[int, Grade]:
    """The grades for notices of ended jobs, computed now if missing; without those that say nothing."""
    grade_jobs(job_ids)
    ran = Attempt.objects.filter(job=OuterRef("pk"), number=OuterRef("attempt")).values("request")
    rows = Efficiency.objects.filter(job_id__in=job_ids).annotate(request=Subquery(ran[:1]))
    return {
        row.job_id: Grade(
            row.grade, row.utilization, row.request.nodes * row.request.first.gpus, row.idle_gpus, tuple(row.advice)
        )
        for row in rows
        if row.grade or row.advice
    }


def grade_jobs(job_ids: Iterable[int]) -> int:
    """Store the grades of those of these jobs that have none, and return how many. Five queries for all.

    A job that never ran gets none. Rows are stored in the order of the jobs, for two may do this at once.
    """
    runs = _longest_runs(job_ids)
    allocations: dict[int, list[Allocation]] = {run.pk: [] for run in runs}
    for allocation in Allocation.objects.filter(attempt__in=runs).order_by("attempt_id", "rank"):
        allocations[allocation.attempt_id].append(allocation)
    claims = _claims(allocations)
    by_gpu = gpu_totals(
        [
            Held((claim.gpu_id, claim.allocation_id), claim.claimed_at, claim.released_at)
            for mine in claims.values()
            for claim in mine
            if claim.released_at is not None
        ]
    )
    by_rank = rank_totals(
        [
            Held((one.pk,), run.placed_at, run.ended_at)
            for run in runs
            if run.ended_at is not None
            for one in allocations[run.pk]
        ]
    )
    measured = _Measured(claims, by_gpu, by_rank)
    rows = [_graded(run, run.ended_at, allocations[run.pk], measured) for run in runs if run.ended_at is not None]
    Efficiency.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def forget_grades(job_ids: Iterable[int]) -> None:
    """Delete the grades of jobs that are to run again."""
    Efficiency.objects.filter(pk__in=list(job_ids)).delete()


def _longest_runs(job_ids: Iterable[int]) -> Sequence[Attempt]:
    """Of each job the attempt that ran the longest, screening runs aside."""
    ran = Attempt.objects.filter(
        job_id__in=sorted(job_ids),
        job__efficiency__isnull=True,
        stage=Stage.FULL,
        running_at__isnull=False,
        ended_at__isnull=False,
    )
    longest: dict[int, Attempt] = {}
    for attempt in ran.select_related("job").order_by("job_id", "number"):
        best = longest.get(attempt.job_id)
        if best is None or _ran_s(attempt) > _ran_s(best):
            longest[attempt.job_id] = attempt
    return list(longest.values())


def _claims(allocations: Mapping[int, Sequence[Allocation]]) -> dict[int, list[GpuClaim]]:
    ids = [one.pk for mine in allocations.values() for one in mine]
    found: dict[int, list[GpuClaim]] = {allocation_id: [] for allocation_id in ids}
    claims = GpuClaim.objects.filter(allocation_id__in=ids).select_related("gpu")
    for claim in claims.order_by("allocation_id", "gpu__index"):
        found[claim.allocation_id].append(claim)
    return found


def _graded(run: Attempt, ended_at: datetime, ranks: Sequence[Allocation], measured: _Measured) -> Efficiency:
    mine = [(rank, claim) for rank in ranks for claim in measured.claims[rank.pk]]
    gpus = [_gpu_use(rank.rank, claim, measured.by_gpu) for rank, claim in mine]
    gpu_s = sum(_held_s(claim) * _slots(claim) / SLOTS for _, claim in mine)
    use = Use(
        ran_s=_ran_s(run),
        gpus=gpus,
        host=_host_use(run, ranks, measured.by_rank),
        shared=any(_slots(claim) < SLOTS for _, claim in mine),
    )
    verdict = judge(use)
    idle_share = 0.0 if verdict.utilization is None else 1 - verdict.utilization / 100
    return Efficiency(
        job_id=run.job_id,
        attempt=run.number,
        ended_at=ended_at,
        grade=verdict.grade or "",
        silence=verdict.silence or "",
        gpu_s=gpu_s,
        utilization=verdict.utilization,
        idle_gpus=verdict.idle_gpus,
        idle_gpu_s=gpu_s * idle_share,
        use=_stored(use),
        advice=list(verdict.advice),
    )


def _gpu_use(rank: int, claim: GpuClaim, by_gpu: Mapping[tuple[int, ...], GpuTotal]) -> GpuUse:
    total = by_gpu.get((claim.gpu_id, claim.allocation_id), GpuTotal(0, None, None))
    return GpuUse(
        rank=rank,
        index=claim.gpu.index,
        samples=total.samples,
        utilization=total.utilization,
        memory_used_mib=total.memory_used_mib,
        memory_mib=claim.gpu.memory_mib,
    )


def _host_use(run: Attempt, ranks: Sequence[Allocation], by_rank: Mapping[tuple[int, ...], RankTotal]) -> HostUse:
    totals = [total for rank in ranks if (total := by_rank.get((rank.pk,))) is not None]
    return HostUse(
        cpus=run.request.first.cpus,
        cpu_cores=max((one.cpu_cores for one in totals if one.cpu_cores is not None), default=None),
        memory_mib=run.request.first.memory_mib,
        memory_used_mib=max((one.memory_mib for one in totals if one.memory_mib is not None), default=None),
        asked_cpus=run.job.spec.get("cpus") is not None,
        asked_memory=run.job.spec.get("memory") is not None,
    )


def _stored(use: Use) -> dict[str, Any]:
    told = sorted(use.gpus, key=lambda gpu: gpu.utilization or 0.0)[:MAX_GPUS_STORED]
    return {
        "ran_s": use.ran_s,
        "gpus": [
            {
                "rank": gpu.rank,
                "index": gpu.index,
                "utilization": _short(gpu.utilization),
                "memory_used_mib": _short(gpu.memory_used_mib),
                "memory_mib": gpu.memory_mib,
            }
            for gpu in sorted(told, key=lambda gpu: (gpu.rank, gpu.index))
        ],
        "cpus": use.host.cpus,
        "cpu_cores": _short(use.host.cpu_cores),
        "memory_mib": use.host.memory_mib,
        "memory_used_mib": _short(use.host.memory_used_mib),
    }


def _ran_s(run: Attempt) -> float:
    if run.running_at is None or run.ended_at is None:
        return 0.0
    return (run.ended_at - run.running_at).total_seconds()


def _held_s(claim: GpuClaim) -> float:
    if claim.released_at is None:
        return 0.0
    return max((claim.released_at - claim.claimed_at).total_seconds(), 0.0)


def _slots(claim: GpuClaim) -> int:
    return int((claim.span.upper or 0) - (claim.span.lower or 0))


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
