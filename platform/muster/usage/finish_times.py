"""Finish-time fairness of applications: final values are stored once, those of live ones are as it stands now.

An application is a job outside of any group, or a group. docs/operator/fairness.md defines the figures;
`scheduler.predict.rho` has the formulas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import fsum

from django.db.models import Exists, OuterRef, Q

from muster.common.clock import utc_now
from muster.fleet.models import Gpu
from muster.jobs.attempt.estimates import expected_of
from muster.jobs.models import Attempt, Job, JobGroup
from muster.samples.rates import rates_of_jobs
from muster.tenants.models import Quota, VirtualCluster
from muster.usage.contention import Stay, contention_of
from muster.usage.models import Finish, FinishTime, GroupFinishTime
from scheduler.model.lifecycle import JOB_TERMINAL, GroupState, NodeAdmin, Stage
from scheduler.model.request import Request
from scheduler.predict.rho import MIN_S, Load, in_words
from scheduler.predict.runtimes import corrected_at

# A job's row is wide, and a sweep has many.
_COLUMNS = (
    *("vc", "tenant", "owner", "group", "state", "request", "checkpoints", "submitted_at", "ended_at"),
    *("expected_s", "expected_p10_s", "expected_p90_s", "expected_source", "time_limit_s"),
)
GROUPS = 20  # of a batch, with up to 1,000 members each
LIVE_JOBS = 200

NO_GPUS = "it uses no GPUs"
NEVER_RAN = "it never ran"
NO_ESTIMATE = "unknown until it ends: nothing tells how long it will run; give `expected` or `time` in the spec"
NO_CAPACITY = "unknown: the pool has no GPUs"
NO_MEMBER_RAN = "unknown until a member has run"


@dataclass(frozen=True, slots=True)
class Fairness:
    """The slowdown of an application against running alone; `sentence` says it, or why it is not known.

    Of one that has not ended `times` are as it stands: those of a waiting application as if it started now.
    """

    final: bool
    sentence: str
    times: Finish | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """The past and future run time of a job, s on the GPUs that it asks for; and its present rate relative to these."""

    done_s: float = 0.0
    speed: float = 1.0
    ran: bool = False
    runs: bool = False
    left_s: float | None = 0.0  # None: unknown

    @property
    def alone_s(self) -> float:
        """The run time of all of it, s, if that is known."""
        return self.done_s + (self.left_s or 0.0)

    @property
    def ends_in_s(self) -> float:
        """The time to its end on the present GPUs, s, if that is known."""
        return (self.left_s or 0.0) / self.speed


@dataclass(frozen=True, slots=True)
class _Capacity:
    """The GPUs of a pool, and of the quota of a virtual cluster as far as the pool has them."""

    pool_id: int
    pool_gpus: int
    quota_gpus: int


@dataclass(frozen=True, slots=True)
class _Case:
    """An application with the row to complete."""

    row: Finish
    begins: datetime
    ends: datetime
    load: Load


def fairness_of(job: Job) -> Fairness:
    """The figures of one job: those that are stored, or as it stands now."""
    final = job.state in JOB_TERMINAL
    if (group := job.group) is not None:
        return Fairness(final, f"it is a member of {group.kind} {group.pk}, which has the figure of all its members")
    if not job.gpus:
        return Fairness(final, NO_GPUS)
    now = utc_now()
    if not final:
        work = _work_of([job], now)[job.pk]
        if work.left_s is None:
            return Fairness(False, NO_ESTIMATE)
        (row,) = _finish_times([job], {job.pk: work}, now)
        return Fairness(
            False, _sentence(row, _load(row, job), "as it stands" if work.runs else "even if it started now"), row
        )
    stored = FinishTime.objects.filter(pk=job.pk).first()
    if stored is None and not job.counted:
        stored = next(iter(_finish_times([job], _work_of([job], now), now)), None)
    return Fairness(True, NEVER_RAN if stored is None else _sentence(stored, _load(stored, job)), stored)


def fairness_of_group(group: JobGroup) -> Fairness:
    """The figures of a group: those that are stored, or as it stands now."""
    final = group.state != GroupState.ACTIVE
    stored = GroupFinishTime.objects.filter(pk=group.pk).first()
    if stored is not None:
        return Fairness(True, _sentence(stored, _group_load(stored)), stored)
    now = utc_now()
    members = list(Job.objects.filter(group=group, gpus__gt=0).only(*_COLUMNS))
    if not members:
        return Fairness(final, NO_GPUS)
    work = _work_of(members, now)
    if not any(each.ran for each in work.values()):
        return Fairness(final, NEVER_RAN if final else NO_MEMBER_RAN)
    if any(each.left_s is None for each in work.values()):
        return Fairness(False, NO_ESTIMATE)
    row = _group_finish_time(group, members, work, now)
    return Fairness(final, _sentence(row, _group_load(row), "" if final else "as it stands"), row)


def live_finish_times(pool_id: int) -> list[Finish]:
    """The figures of the newest live jobs outside of groups, and groups, of a pool as they stand now, if their run time
    is expected."""
    now, mine = utc_now(), Q(vc__pool=pool_id)
    alone = Job.objects.filter(mine, group=None, gpus__gt=0).exclude(state__in=sorted(JOB_TERMINAL))
    jobs = list(alone.only(*_COLUMNS).order_by("-pk")[:LIVE_JOBS])
    work = _work_of(jobs, now)
    rows: list[Finish] = [*_finish_times([job for job in jobs if work[job.pk].left_s is not None], work, now)]
    for group in JobGroup.objects.filter(mine, state=GroupState.ACTIVE).order_by("-pk")[:GROUPS]:
        found = fairness_of_group(group).times
        rows += [] if found is None else [found]
    return rows


def store_finish_times(job_ids: Collection[int]) -> None:
    """Store the figures of these jobs, which have ended, within the caller's transaction."""
    jobs = list(Job.objects.filter(pk__in=job_ids, gpus__gt=0, attempt_count__gt=0, group=None).only(*_COLUMNS))
    now = utc_now()
    FinishTime.objects.bulk_create(_finish_times(jobs, _work_of(jobs, now), now), ignore_conflicts=True)


def store_group_finish_times(*, most: int = GROUPS) -> int:
    """Store the figures of groups that have ended and whose members are counted; returns how many."""
    uncounted = Job.objects.filter(group=OuterRef("pk"), counted=False)
    ended = JobGroup.objects.filter(ended_at__isnull=False, finish_time=None).exclude(Exists(uncounted))
    now, rows = utc_now(), []
    for group in ended.order_by("pk")[:most]:
        members = list(Job.objects.filter(group=group).only(*_COLUMNS))
        rows.append(_group_finish_time(group, members, _work_of(members, now), now))
    GroupFinishTime.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def forget_finish_times(job_ids: Collection[int]) -> None:
    """Delete the stored figures of these jobs and of their groups, within the caller's transaction."""
    FinishTime.objects.filter(pk__in=job_ids).delete()
    GroupFinishTime.objects.filter(group__members__in=job_ids).delete()


def _finish_times(jobs: Sequence[Job], work: Mapping[int, _Work], now: datetime) -> list[FinishTime]:
    """The figures of these jobs, without those that have no work."""
    rows, cases = [], []
    for job in jobs:
        mine = work[job.pk]
        if mine.alone_s >= MIN_S:
            ends = job.ended_at or now
            taken_s = (ends - job.submitted_at).total_seconds() + mine.ends_in_s
            row = FinishTime(job=job, alone_s=mine.alone_s, taken_s=taken_s, ended_at=ends, **_whose(job))
            rows.append(row)
            cases.append(_Case(row, job.submitted_at, ends, _load(row, job)))
    _complete(cases)
    return rows


def _group_finish_time(
    group: JobGroup, members: Sequence[Job], work: Mapping[int, _Work], now: datetime
) -> GroupFinishTime:
    """The figures of one group; what is left is done on the GPUs that it holds now, or asks for if it holds none."""
    ends, gang = group.ended_at or now, max((job.gpus_total for job in members), default=0)
    total_gpu_s = fsum(work[job.pk].alone_s * job.gpus_total for job in members)
    left_gpu_s = fsum((work[job.pk].left_s or 0.0) * job.gpus_total for job in members)
    held = sum(job.gpus_total for job in members if work[job.pk].runs)
    demand, longest_s = (
        gang * min(group.parallel, group.size),
        max((each.alone_s for each in work.values()), default=0.0),
    )
    taken_s = (ends - group.submitted_at).total_seconds()
    if left_gpu_s > 0:
        taken_s += max(left_gpu_s / (held or demand), *(each.ends_in_s for each in work.values()))
    row = GroupFinishTime(
        group=group,
        total_gpu_s=total_gpu_s,
        longest_s=longest_s,
        demand=demand,
        taken_s=taken_s,
        ended_at=ends,
        **_whose(group),
    )
    _complete([_Case(row, group.submitted_at, ends, _group_load(row))])
    return row


def _load(row: FinishTime, job: Job) -> Load:
    return Load(row.alone_s * job.gpus_total, row.alone_s, job.gpus_total)


def _group_load(row: GroupFinishTime) -> Load:
    return Load(row.total_gpu_s, row.longest_s, row.demand)


def _whose(application: Job | JobGroup) -> dict[str, int]:
    return {name: getattr(application, name) for name in ("tenant_id", "vc_id", "owner_id")}


def _complete(cases: Sequence[_Case]) -> None:
    """Set what the rows lack: the GPUs to share, with how many, and both ratios."""
    capacities = _capacities({case.row.vc_id for case in cases})
    stays = [Stay(capacities[case.row.vc_id].pool_id, case.row.vc_id, case.begins, case.ends) for case in cases]
    for case, contention in zip(cases, contention_of(stays), strict=True):
        row, capacity = case.row, capacities[case.row.vc_id]
        row.pool_gpus, row.quota_gpus = capacity.pool_gpus, capacity.quota_gpus
        row.contention, row.vc_contention = contention.of_pool, contention.of_vc
        row.rho_cluster = case.load.rho(row.taken_s, of_gpus=row.pool_gpus, contention=row.contention)
        row.rho_quota = case.load.rho(row.taken_s, of_gpus=row.quota_gpus, contention=row.vc_contention)


def _sentence(row: Finish, load: Load, how: str = "") -> str:
    if row.rho_quota is not None:
        rho, gpus, contention, whose = row.rho_quota, row.quota_gpus, row.vc_contention, "your own"
    elif row.rho_cluster is not None:
        rho, gpus, contention, whose = row.rho_cluster, row.pool_gpus, row.contention, "the pool's"
    else:
        return NEVER_RAN if row.pool_gpus else NO_CAPACITY
    whole = load.rho(row.taken_s, of_gpus=gpus, contention=1.0) or rho
    told = in_words(rho, whole, f"{whose} {_gpus(gpus)}", contention=contention)
    return f"{told}, {how}" if how else told


def _gpus(number: int) -> str:
    return f"{number:,} GPU" if number == 1 else f"{number:,} GPUs"


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
        done_s, speed, runs, ran = 0.0, 1.0, False, bool(by_job[job.pk])
        for attempt in by_job[job.pk]:
            speed, runs = _speed(job.request, attempt.request, known), attempt.ended_at is None
            held_s = max(0.0, ((attempt.ended_at or now) - attempt.placed_at).total_seconds())
            done_s = held_s * speed + (done_s if job.checkpoints else 0.0)
        left_s: float | None = 0.0
        if job.state not in JOB_TERMINAL:
            if not runs:
                done_s, speed = done_s if job.checkpoints else 0.0, 1.0
            left_s = None
            expected = expected_of(job)
            if expected is not None:
                left_s = corrected_at(expected, ran_s=done_s, limit_s=job.time_limit_s).p50_s - done_s
        found[job.pk] = _Work(done_s, speed, ran, runs, left_s)
    return found


def _speed(asked: Request, given: Request, known: Mapping[tuple[str, int], float]) -> float:
    """The speed on the given GPUs, relative to the first choice."""
    there = known.get((given.first.gpu_type or "", given.gpus_total), 0.0)
    first = known.get((asked.first.gpu_type or "", asked.gpus_total), 0.0)
    if there > 0 and first > 0:
        return there / first
    return given.gpus_total / asked.gpus_total if asked.elastic is not None else 1.0


def _capacities(vc_ids: Collection[int]) -> Mapping[int, _Capacity]:
    """The present capacity of these virtual clusters and their pools."""
    pools = dict(VirtualCluster.objects.filter(pk__in=vc_ids).values_list("pk", "pool_id"))
    gpus: defaultdict[int, Counter[str]] = defaultdict(Counter)
    present = Gpu.objects.filter(node__pool__in=set(pools.values()), present=True)
    for pool_id, kind in present.exclude(node__admin=NodeAdmin.RETIRED).values_list("node__pool_id", "type"):
        gpus[pool_id][kind] += 1
    quotas: Counter[int] = Counter()
    for vc_id, kind, number in Quota.objects.filter(vc__in=pools).values_list("vc_id", "gpu_type", "gpus"):
        quotas[vc_id] += min(number, gpus[pools[vc_id]][kind])
    return {vc_id: _Capacity(pool_id, gpus[pool_id].total(), quotas[vc_id]) for vc_id, pool_id in pools.items()}
