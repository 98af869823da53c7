"""Grades of jobs: made of the samples of their longest run, once for each end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.backends.postgresql.psycopg_any import NumericRange

from muster.events.services import record
from muster.jobs.models import Allocation, Attempt, GpuClaim, Job
from muster.samples.levels import roll_up
from muster.samples.models import GpuTenSeconds, RankTenSeconds
from muster.usage.dimensions import SLOTS
from muster.usage.efficiency import efficiency_of, graded, least_efficient
from muster.usage.grading import grade_jobs, read_ends
from muster.usage.models import Efficiency
from muster.usage.periods import Period
from muster.usage.scope import Asked, Scope, scope_of
from scheduler.model.lifecycle import Stage
from tests.db.stories import until_settled
from tests.factories import given, make_job, make_node, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ALL = Scope()


@transaction.atomic
def run(
    job: Job, node: Any, *, begin: datetime = NOON, minutes: float = 60, slots: int = SLOTS, stage: Stage = Stage.FULL
) -> Allocation:
    """An attempt of the job with one rank that ran on the node's first GPUs and is over."""
    end = begin + timedelta(minutes=minutes)
    attempt = Attempt.objects.create(
        job=job,
        number=job.attempts.count() + 1,
        state="succeeded",
        stage=stage,
        request=given(job),
        master_addr="x",
        master_port=20_000,
        placed_at=begin,
        running_at=begin,
        ended_at=end,
    )
    allocation = attempt.allocations.create(
        node=node,
        rank=0,
        state="released",
        cpus=job.request.first.cpus,
        memory_mib=1,
        claimed_at=begin,
        released_at=end,
    )
    for gpu in node.gpus.order_by("index")[: job.gpus]:
        span = NumericRange(gpu.pk * SLOTS, gpu.pk * SLOTS + slots, "[)")
        GpuClaim.objects.create(allocation=allocation, gpu=gpu, span=span, claimed_at=begin, released_at=end)
    return allocation


def measure(
    allocation: Allocation, *utilization: float | None, begin: datetime = NOON, count: int = 60, most: float = 20_000.0
) -> None:
    """Store `count` equal readings of each GPU, one a minute, and earlier ones of another job on the same GPUs."""
    claims = list(allocation.claims.order_by("gpu__index"))
    rows = [
        GpuTenSeconds(
            gpu_id=claim.gpu_id,
            allocation_id=holder,
            at=begin + timedelta(minutes=minute),
            samples=6,
            utilization=figure if holder else 100.0,
            utilization_max=100.0,
            memory_used_mib=10.0,
            memory_used_mib_max=most if minute == count - 1 else 10.0,
        )
        for claim, figure in zip(claims, utilization, strict=True)
        for holder, minutes in ((allocation.pk, range(count)), (0, range(-5, 0)))
        for minute in minutes
    ]
    GpuTenSeconds.objects.bulk_create(rows)


@pytest.fixture
def node() -> Any:
    return make_node(gpus=4)


def graded_job(job: Job) -> Efficiency:
    assert grade_jobs([job.pk]) == 1
    return Efficiency.objects.get(pk=job.pk)


@pytest.mark.parametrize("rolled_up", [None, timedelta(minutes=20), timedelta(hours=1.5), timedelta(hours=5)])
def test_a_grade_counts_each_sample_once_however_far_they_are_summed_up(node: Any, rolled_up: timedelta | None) -> None:
    job = make_job(gpus=2, state="succeeded")
    measure(run(job, node, minutes=90), 80.0, 20.0, count=90)
    if rolled_up is not None:
        while roll_up(now=NOON + rolled_up):
            pass
    row = graded_job(job)
    assert (row.grade, row.silence, row.attempt, row.idle_gpus) == ("fair", "", 1, 0)
    assert row.utilization == pytest.approx(50.0)
    assert (row.gpu_s, row.idle_gpu_s) == (pytest.approx(10_800), pytest.approx(5_400))
    assert [(gpu["index"], gpu["utilization"], gpu["memory_used_mib"]) for gpu in row.use["gpus"]] == [
        (0, pytest.approx(80.0, abs=0.01), 20_000.0),
        (1, pytest.approx(20.0, abs=0.01), 20_000.0),
    ]


def test_what_a_rank_used_of_its_host_is_told(node: Any) -> None:
    job = make_job(gpus=1, state="succeeded", cpus=32, memory_mib=512 * 1024)
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "cpus": 32, "memory": "512GiB"})
    allocation = run(job, node)
    measure(allocation, 90.0)
    at = NOON + timedelta(minutes=5)
    RankTenSeconds.objects.create(
        allocation_id=allocation.pk,
        at=at,
        samples=1,
        cpu_cores=3.0,
        cpu_cores_max=9.0,
        memory_mib=1.0,
        memory_mib_max=20480.0,
    )
    row = graded_job(job)
    assert (row.use["cpus"], row.use["cpu_cores"], row.use["memory_used_mib"]) == (32, 3.0, 20480.0)
    assert row.advice == [
        "It asked for 512 GiB of memory and used 20 GiB at most.",
        "It asked for 32 processors and kept 3.0 of them busy.",
    ]


def test_the_longest_run_speaks_for_the_job_and_screening_runs_do_not(node: Any) -> None:
    job = make_job(gpus=1, state="succeeded")
    measure(run(job, node, minutes=240, stage=Stage.SCREENING), 1.0)
    later = NOON + timedelta(hours=5)
    measure(run(job, node, begin=later), 90.0, begin=later)
    last = NOON + timedelta(hours=7)
    measure(run(job, node, begin=last, minutes=12), 2.0, begin=last, count=12)
    row = graded_job(job)
    assert (row.attempt, row.grade, row.ended_at) == (2, "good", later + timedelta(hours=1))


@pytest.mark.parametrize(
    ("job", "attempt", "figures", "silence"),
    [
        ({"gpus": 0}, {}, (), "no_gpus"),
        ({}, {"slots": SLOTS // 2}, (50.0,), "shared"),
        ({}, {"minutes": 5}, (50.0,), "too_short"),
        ({}, {}, (None,), "not_measured"),
        ({"gpus": 2}, {}, None, "not_measured"),
    ],
)
def test_what_has_no_grade_says_why(job: Any, attempt: Any, figures: Any, silence: str, node: Any) -> None:
    ended = make_job(**{"gpus": 1, "state": "succeeded", **job})
    allocation = run(ended, node, **attempt)
    if figures:
        measure(allocation, *figures)
    row = graded_job(ended)
    assert (row.grade, row.silence, row.utilization, row.idle_gpu_s) == ("", silence, None, 0.0)


def test_a_job_that_never_ran_has_none() -> None:
    assert grade_jobs([make_job(state="cancelled").pk]) == 0


def test_each_end_is_graded_once_from_the_first_look_on(
    node: Any, django_assert_max_num_queries: Any, transactional_db: None
) -> None:
    def ended() -> Job:
        job = make_job(gpus=1, state="succeeded")
        run(job, node)
        record("job.succeeded", actor="platform", tenant_id=job.tenant_id, job_id=job.pk, data={})
        return job

    before = ended()
    until_settled()
    assert read_ends() == 0  # it notes where it stands
    jobs = [ended() for _ in range(3)]
    record("job.active", actor="platform", tenant_id=before.tenant_id, job_id=before.pk, data={})
    until_settled()
    assert read_ends(most=2) == 2
    with django_assert_max_num_queries(16):
        assert read_ends(most=2) == 1
    assert read_ends() == 0
    assert set(Efficiency.objects.values_list("pk", flat=True)) == {job.pk for job in jobs}
    assert efficiency_of(jobs[0]) is not None
    assert efficiency_of(before) is None


def test_the_worst_are_those_that_left_the_most_idle_of_those_that_one_may_see(node: Any) -> None:
    vision = make_tenant("vision")
    ada, bob = make_user("ada", tenant=vision), make_user("bob", tenant=vision)
    vc = make_vc(vision, node.pool)
    for place, (owner, gpus, figure) in enumerate([(ada, 1, 0.0), (bob, 4, 50.0), (ada, 1, 100.0), (bob, 1, None)]):
        begin = NOON + timedelta(hours=2 * place)
        job = make_job(vc, owner, gpus=gpus, state="succeeded", name=f"job {place}")
        measure(run(job, node, begin=begin), *[figure] * gpus, begin=begin)
        grade_jobs([job.pk])
    day = Period(NOON, NOON + timedelta(days=1))
    assert [row.job.name for row in least_efficient(day, ALL, most=10)] == ["job 1", "job 0"]
    assert [row.job.name for row in least_efficient(day, ALL, most=1)] == ["job 1"]
    assert [row.job.name for row in least_efficient(day, scope_of(ada, Asked()), most=10)] == ["job 0"]
    assert least_efficient(day, scope_of(ada, Asked(user="bob")), most=10) == []
    assert least_efficient(Period(NOON - timedelta(days=1), NOON), ALL, most=10) == []
    found = graded(day, ALL)
    assert found == {"jobs": 3, "gpu_hours": 6.0, "idle_gpu_hours": 3.0, "utilization": 50.0}
    assert graded(Period(NOON - timedelta(days=1), NOON), ALL)["utilization"] is None
