"""Finish-time fairness of production's jobs: the definitions of the simulator, final values once, and as it stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.utils import timezone

from muster.fleet.models import Gpu
from muster.jobs.models import Attempt, GpuClaim, Job, JobGroup
from muster.samples.models import SpeedAlone
from muster.tenants.models import VirtualCluster
from muster.usage.contention import Contention, Stay, contention_of
from muster.usage.finish_times import (
    NEVER_RAN,
    NO_ESTIMATE,
    NO_GPUS,
    NO_MEMBER_RAN,
    Fairness,
    fairness_of,
    fairness_of_group,
)
from muster.usage.models import FinishTime, GroupFinishTime
from muster.usage.tasks import count
from muster.usage.totals import uncount
from scheduler.model import SLOTS
from scheduler.model.lifecycle import AllocationState, AttemptState, GroupKind, GroupState, JobState, Stage
from scheduler.model.request import Choice, Request
from scheduler.sim.metrics import rho_cluster_bounded, rho_quota_bounded
from scheduler.sim.result import JobRecord
from tests.factories import given, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


@pytest.fixture
def vc() -> VirtualCluster:
    """A virtual cluster with 8 of the 16 A100 of its pool."""
    pool = make_pool("main")
    for name in ("gpu1", "gpu2"):
        make_node(pool, name, gpus=8)
    return make_vc(make_tenant("vision"), pool, "vision-vc")


def attempt(job: Job, begin: datetime, end: datetime | None, **fields: Any) -> None:
    """An attempt of the job that held its GPUs from `begin` to `end`, or holds them."""
    fields = {"request": given(job), "state": AttemptState.PREEMPTED if end else AttemptState.RUNNING, **fields}
    job.attempt_count += 1
    job.save(update_fields=["attempt_count"])
    made = Attempt.objects.create(
        job=job,
        number=job.attempt_count,
        master_addr=f"{job.pk}.test",
        master_port=20_000,
        placed_at=begin,
        running_at=begin,
        ended_at=end,
        **fields,
    )
    choice = made.request.first
    gpus = list(Gpu.objects.filter(node__pool=job.pool, type=choice.gpu_type or "A100").order_by("pk")[: choice.gpus])
    state = AllocationState.RELEASED if end else AllocationState.ACTIVE
    held: dict[str, Any] = {"claimed_at": begin, "released_at": end}
    allocation = made.allocations.create(
        node=(gpus[0] if gpus else Gpu.objects.earliest("pk")).node, rank=0, state=state, cpus=1, memory_mib=1, **held
    )
    for gpu in gpus:
        span = NumericRange(gpu.pk * SLOTS, (gpu.pk + 1) * SLOTS, "[)")
        GpuClaim.objects.create(allocation=allocation, gpu=gpu, span=span, **held)


def ended(vc: VirtualCluster, submitted: float, started: float, end: float, **fields: Any) -> Job:
    """A job with one attempt that has ended; times in minutes after noon."""
    fields = {"state": JobState.SUCCEEDED, "submitted_at": at(submitted), "ended_at": at(end), **fields}
    job = make_job(vc, **fields)
    attempt(job, at(started), at(end))
    return job


def times(job: Job) -> FinishTime:
    """The figures of the job, which has some."""
    found = fairness_of(job).times
    assert isinstance(found, FinishTime)
    return found


def test_contention_is_the_mean_number_of_applications_of_the_pool_and_of_the_virtual_cluster(
    vc: VirtualCluster,
) -> None:
    other = make_vc(make_tenant("speech"), vc.pool, "speech-vc")
    ended(vc, 0, 0, 60)
    ended(other, 30, 30, 90)
    ended(vc, 45, 45, 50, gpus=0)  # uses no GPUs
    ended(make_vc(pool=make_node().pool), 0, 0, 60)  # in another pool
    make_job(vc, submitted_at=at(40))  # still there
    asked = [(vc, 0, 60), (other, 30, 90), (vc, 40, 45), (vc, 10, 10)]
    stays = [Stay(each.pool_id, each.pk, at(begin), at(end)) for each, begin, end in asked]

    assert contention_of(stays) == [
        Contention(pytest.approx((60 + 30 + 20) / 60), pytest.approx((60 + 20) / 60)),
        Contention(pytest.approx((30 + 60 + 50) / 60), pytest.approx(1.0)),
        Contention(pytest.approx(3.0), pytest.approx(2.0)),
        Contention(),
    ]
    assert contention_of([]) == []


def test_the_final_figures_are_those_of_the_simulator(vc: VirtualCluster) -> None:
    jobs = [ended(vc, 0, 0, 60, gpus=8), ended(vc, 0, 60, 90, gpus=8), ended(vc, 10, 90, 90.5, gpus=4)]
    assert count() == 3

    contentions = ((60 + 60 + 50) / 60, (60 + 90 + 80) / 90, (50 + 80 + 80.5) / 80.5)
    for job, contention, alone in zip(jobs, contentions, (60, 30, 0.5), strict=True):
        record = JobRecord(
            id=job.pk,
            name=job.name,
            vc="vision-vc",
            owner="",
            gpus=job.gpus_total,
            submitted_s=job.submitted_at.timestamp(),
            ended_s=job.ended_at.timestamp() if job.ended_at else None,
            alone_s=alone * 60.0,
            contention=contention,
            vc_contention=contention,
            quota_gpus=8,
        )
        row = FinishTime.objects.get(job=job)
        assert (row.rho_cluster, row.rho_quota) == (
            pytest.approx(rho_cluster_bounded(record, 16)),
            pytest.approx(rho_quota_bounded(record)),
        )
        job.refresh_from_db()
        assert fairness_of(job).times == row


def test_an_ended_job_has_its_figures_before_it_is_counted(vc: VirtualCluster) -> None:
    job = ended(vc, 0, 18, 78)
    before = fairness_of(job)
    assert times(job).rho_quota == pytest.approx(1.3)
    assert before == Fairness(True, "1.3× slower than with your own 8 GPUs", before.times)
    count()
    job.refresh_from_db()
    assert fairness_of(job) == before
    uncount([job.pk])
    assert not FinishTime.objects.exists()


def test_a_job_that_had_its_quota_at_once_has_not_beaten_it(vc: VirtualCluster) -> None:
    for _ in range(2):
        make_job(vc, submitted_at=at(0))
    job = ended(vc, 0, 0, 60, gpus=8)
    assert times(job).rho_quota == pytest.approx(1 / 3)
    assert fairness_of(job).sentence == "as fast as with your own 8 GPUs"
    vc.quotas.update(gpus=4)
    assert fairness_of(job).sentence == "2.0× faster than with your own 4 GPUs"


def test_a_quota_counts_as_far_as_the_pool_has_it(vc: VirtualCluster) -> None:
    vc.quotas.update(gpus=64)
    assert times(ended(vc, 0, 0, 60)).quota_gpus == 16
    vc.quotas.all().delete()
    job = ended(vc, 0, 18, 78)
    assert (times(job).quota_gpus, times(job).rho_quota) == (0, None)
    assert fairness_of(job).sentence == "1.3× slower than with an equal part of the pool's 16 GPUs"


def test_only_the_last_attempt_is_the_work_of_a_job_without_checkpoints(vc: VirtualCluster) -> None:
    for checkpoints, alone_s in ((False, 1200.0), (True, 3000.0)):
        job = ended(vc, 0, 0, 30, checkpoints=checkpoints)
        attempt(job, at(35), at(55))
        assert times(job).alone_s == alone_s


def test_time_on_another_type_counts_by_the_known_rates(vc: VirtualCluster) -> None:
    make_node(vc.pool, "old", gpus=2, gpu_type="V100")
    first, second = Choice("A100", 2, 2, 1024), Choice("V100", 2, 2, 1024)
    request = Request(choices=(first, second))
    job = make_job(vc, request=request, state=JobState.SUCCEEDED, submitted_at=at(0), ended_at=at(60))
    attempt(job, at(0), at(60), request=request.given(second))
    assert times(job).alone_s == 3600.0
    for kind, per_s in (("A100", 4.0), ("V100", 1.0)):
        SpeedAlone.objects.create(job=job, gpu_type=kind, gpus=2, per_s=per_s, at=NOON)
    assert times(job).alone_s == 900.0
    assert times(job).rho_quota == pytest.approx(4.0)


def test_a_running_job_as_it_stands(vc: VirtualCluster) -> None:
    now = timezone.now()
    job = make_job(vc, state=JobState.ACTIVE, submitted_at=now - timedelta(minutes=48), expected_s=3600.0)
    attempt(job, now - timedelta(minutes=30), None)
    assert times(job).alone_s == pytest.approx(3600, abs=0.1)
    assert times(job).rho_quota == pytest.approx(1.3, abs=1e-3)  # 48 minutes, and 30 to go
    found = fairness_of(job)
    assert not found.final
    assert found.sentence == "1.3× slower than with your own 8 GPUs, as it stands"


def test_a_waiting_job_is_taken_to_start_now(vc: VirtualCluster) -> None:
    now = timezone.now()
    job = make_job(vc, submitted_at=now - timedelta(minutes=60), expected_s=3600.0)
    assert times(job).rho_quota == pytest.approx(2.0, abs=1e-3)
    assert fairness_of(job).sentence == "2.0× slower than with your own 8 GPUs, even if it started now"

    screened = make_job(
        vc,
        state=JobState.ACTIVE,
        stage=Stage.SCREENING,
        screening={},
        submitted_at=now - timedelta(minutes=60),
        expected_s=3600.0,
    )
    attempt(screened, now - timedelta(minutes=30), None, stage=Stage.SCREENING)
    assert times(screened).taken_s == pytest.approx(7200.0, abs=1.0)


def test_where_there_is_no_figure_the_sentence_says_why(vc: VirtualCluster) -> None:
    assert fairness_of(make_job(vc)).sentence == NO_ESTIMATE
    assert fairness_of(make_job(vc, gpus=0)).sentence == NO_GPUS
    cancelled = make_job(vc, state=JobState.CANCELLED)
    assert fairness_of(cancelled).sentence == NEVER_RAN
    count()
    cancelled.refresh_from_db()
    assert fairness_of(cancelled).sentence == NEVER_RAN


def make_sweep(vc: VirtualCluster, *, parallel: int, **fields: Any) -> JobGroup:
    """A sweep that was submitted at noon, without members."""
    fields = {"submitted_at": at(0), "size": 4, **fields}
    return JobGroup.objects.create(
        kind=GroupKind.SWEEP,
        tenant_id=vc.tenant_id,
        vc=vc,
        pool=vc.pool,
        owner=make_user(),
        spec={},
        parallel=parallel,
        name="lr-search",
        **fields,
    )


def test_a_sweep_is_one_application_and_its_members_are_none(vc: VirtualCluster) -> None:
    sweep = make_sweep(vc, parallel=2, state=GroupState.SUCCEEDED, ended_at=at(120))
    for number in range(1, 5):
        late = 60 * (number > 2)
        ended(vc, 0, late, late + 60, gpus=2, group=sweep, member=number)
    other = ended(vc, 0, 0, 60)
    count()

    row = GroupFinishTime.objects.get(group=sweep)
    assert (row.total_gpu_s, row.longest_s, row.demand) == (4 * 60 * 60 * 2, 3600.0, 4)
    assert (row.taken_s, row.contention) == (7200.0, pytest.approx(1.5))
    # Its share of the quota is 8 / 1.5 GPUs, of which it asks for 4.
    assert (row.rho_quota, row.rho_cluster) == (pytest.approx(1.0), pytest.approx(1.0))
    assert fairness_of_group(sweep).sentence == "as fast as with your own 8 GPUs"
    assert FinishTime.objects.get().job == other
    assert FinishTime.objects.get().contention == pytest.approx(2.0)
    member = sweep.members.first()
    assert member is not None
    assert (
        fairness_of(member).sentence == f"it is a member of sweep {sweep.pk}, which has the figure of all its members"
    )
    uncount([member.pk])
    assert not GroupFinishTime.objects.exists()


def test_a_live_sweep_has_its_figures_as_it_stands(vc: VirtualCluster) -> None:
    now = timezone.now()
    hour = timedelta(hours=1)
    sweep = make_sweep(vc, parallel=2, submitted_at=now - 2 * hour)
    jobs = [
        make_job(vc, group=sweep, member=number, gpus=4, expected_s=3600.0, submitted_at=now - 2 * hour)
        for number in range(1, 5)
    ]
    assert fairness_of_group(sweep) == Fairness(False, NO_MEMBER_RAN)

    jobs[0].state = JobState.ACTIVE
    jobs[0].save(update_fields=["state"])
    attempt(jobs[0], now - hour / 2, None)
    found = fairness_of_group(sweep)
    assert found.times is not None
    # Three and a half hours of work on the four GPUs that it holds.
    assert found.times.taken_s == pytest.approx(5.5 * 3600, abs=2.0)
    assert found.sentence.endswith("as it stands")

    Job.objects.filter(pk=jobs[3].pk).update(expected_s=None)
    assert fairness_of_group(sweep).sentence == NO_ESTIMATE
