"""Sums by days tell the same as claims do, whatever part of the jobs is in them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange

from muster.fleet.models import Node
from muster.jobs.models import Attempt, GpuClaim, Job
from muster.tenants.roles import Role
from muster.usage.dimensions import SLOTS, By
from muster.usage.models import DayTotal, HeldDay
from muster.usage.periods import Period
from muster.usage.scope import Asked, Scope, scope_of
from muster.usage.selectors import Row, read
from muster.usage.tasks import count
from muster.usage.totals import count_ended, uncount
from scheduler.model.lifecycle import AttemptState, JobClass, JobState
from tests.factories import given, make_job, make_node, make_pool, make_tenant, make_user, make_vc

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 5, 4, tzinfo=UTC)
DAY = timedelta(days=1)
ALL = Scope()
ENDS = {
    JobState.SUCCEEDED: AttemptState.SUCCEEDED,
    JobState.FAILED: AttemptState.FAILED,
    JobState.CANCELLED: AttemptState.CANCELLED,
}
SETS: list[list[By]] = [
    [],
    [By.DAY],
    [By.DAY, By.USER, By.OUTCOME],
    [By.TENANT, By.VC, By.CLASS],
    [By.GPU_TYPE, By.STATE],
    [By.CATEGORY, By.FAILURE, By.OUTCOME],
    [By.OUTCOME, By.RETRY],
]


class World:
    """A seed's jobs: short and long ones, some with several tries, on shared GPUs, of two types, or still running."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        pool = make_pool()
        self.nodes = [make_node(pool, gpus=2, gpu_type="A100"), make_node(pool, gpus=2, gpu_type="V100")]
        tenants = [make_tenant("vision"), make_tenant("speech")]
        self.vcs = [make_vc(tenant, pool, f"of-{tenant.name}") for tenant in tenants]
        self.users = [make_user(name, tenant=tenants[place]) for name, place in (("ada", 0), ("bob", 0), ("cyd", 1))]
        self.manager = make_user("mary", tenant=tenants[0], role=Role.MANAGER)
        for _ in range(40):
            self.job()

    def job(self) -> Job:
        vc = self.chance.choice(self.vcs)
        state = self.chance.choice([*ENDS, *ENDS, JobState.QUEUED])
        klass = self.chance.choice(list(JobClass))
        nodes = self.chance.choice([self.nodes[:1], self.nodes[1:], self.nodes])
        owner, gpus = self.chance.choice(self.users), self.chance.choice([1, 1, 2])
        job = make_job(vc, owner, state=state, klass=klass, gpus=gpus, nodes=len(nodes))
        at = self.moment()
        for number in range(1, self.chance.choice([1, 1, 1, 2, 4]) + 1):
            last = self.moment(at)
            ended = AttemptState.FAILED if number == 1 else AttemptState.PREEMPTED
            if state in ENDS and self.chance.random() < 0.8:
                ended = ENDS[state]
            attempt = ended_attempt(job, number, last, ended)
            for rank, node in enumerate(nodes):
                until = last if rank == 0 else self.moment(last)
                hold(attempt, node, at, until, rank=rank, slots=self.chance.choice([64, 64, 16]))
            at = self.moment(last)

    def moment(self, after: datetime | None = None) -> datetime:
        """Some moment of three weeks, or of up to four days after another: often a midnight, or that one itself."""
        begin, span = (MONDAY, 21 * DAY) if after is None else (after, 4 * DAY)
        at = begin + span * self.chance.random() ** (1 if after is None else 4)
        return self.chance.choice([at, at, at, at.replace(hour=0, minute=0, second=0, microsecond=0), begin])

    def periods(self) -> list[Period]:
        """Whole days and weeks, parts of days at either end and at both, and a few that are drawn."""
        noon = timedelta(hours=12)
        found = [
            Period(MONDAY, MONDAY + 7 * DAY),
            Period(MONDAY + 3 * DAY, MONDAY + 16 * DAY),
            Period(MONDAY + 6 * DAY + noon, MONDAY + 14 * DAY),
            Period(MONDAY + 2 * DAY + noon, MONDAY + 9 * DAY + noon),
            Period(MONDAY + 7 * DAY, MONDAY + 14 * DAY + noon),
            Period(MONDAY + 5 * DAY + noon, MONDAY + 6 * DAY + noon),
            Period(MONDAY + 5 * DAY, MONDAY + 5 * DAY + noon),
            Period(MONDAY + 5 * DAY + noon, MONDAY + 6 * DAY),
            Period(MONDAY + 5 * DAY + noon / 2, MONDAY + 5 * DAY + noon),
            Period(MONDAY - 30 * DAY, MONDAY + 60 * DAY),
        ]
        for _ in range(4):
            start = MONDAY + 20 * DAY * self.chance.random()
            found.append(Period(start, start + 10 * DAY * self.chance.random() + timedelta(microseconds=1)))
        return found


def ended_attempt(job: Job, number: int, at: datetime, state: AttemptState) -> Attempt:
    """Another attempt of the job that has ended."""
    return Attempt.objects.create(
        job=job,
        number=number,
        request=given(job),
        state=state,
        master_addr=f"{job.pk}.test",
        master_port=20_000,
        ended_at=at,
    )


def hold(
    attempt: Attempt, node: Node, begin: datetime, end: datetime | None, *, rank: int = 0, slots: int = SLOTS
) -> None:
    """Let the attempt have held the GPUs of its job on a node; without an end one is forgotten."""
    allocation = attempt.allocations.create(
        node=node, rank=rank, state="released", cpus=1, memory_mib=1024, claimed_at=begin, released_at=end or begin
    )
    for gpu in node.gpus.order_by("index")[: attempt.job.gpus]:
        span = NumericRange(gpu.pk * SLOTS, gpu.pk * SLOTS + slots, "[)")
        GpuClaim.objects.create(allocation=allocation, gpu=gpu, span=span, claimed_at=begin, released_at=end)


def shown(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted((str(row.values), round(row.gpu_hours, 9), row.jobs, row.attempts) for row in rows)


def reports(periods: Sequence[Period], scopes: Sequence[Scope] = (ALL,)) -> list[list[tuple[Any, ...]]]:
    """The totals of all periods for operators, and of one for others, in each breakdown."""
    with connection.cursor() as cursor:
        # Postgres looks at tables by itself, but not into this transaction: it would plan by the empty ones of before.
        cursor.execute("ANALYZE")
    weekly = [[], [By.WEEK], [By.WEEK, By.VC, By.GPU_TYPE]]
    asked = [(one, ALL) for one in periods] + [(periods[3], scope) for scope in scopes if scope != ALL]
    return [shown(read(one, scope, sets)) for one, scope in asked for sets in (SETS, weekly)]


@pytest.mark.parametrize("seed", range(2))
def test_sums_tell_what_claims_tell(seed: int) -> None:
    world = World(seed)
    ada, mary = world.users[0], world.manager
    scopes = [
        scope_of(ada, Asked()),
        scope_of(mary, Asked()),
        Scope(None, Asked(user="cyd")),
        Scope(None, Asked(vc="x")),
    ]
    periods = world.periods()
    by_claims = reports(periods, scopes)
    ended = Job.objects.exclude(state=JobState.QUEUED).count()

    assert count_ended(most=ended // 2) == ended // 2
    assert reports(periods, scopes) == by_claims
    assert count_ended(most=ended) == ended - ended // 2
    assert reports(periods, scopes) == by_claims
    # Both kinds of sums have something, and nothing is counted twice.
    assert DayTotal.objects.exists()
    assert HeldDay.objects.filter(alone=False).exists()
    assert count_ended() == 0


def test_whole_days_are_read_from_sums_alone() -> None:
    job = make_job(state=JobState.SUCCEEDED)
    attempt = ended_attempt(job, 1, MONDAY + 3 * DAY, AttemptState.SUCCEEDED)
    hold(attempt, make_node(), MONDAY + DAY / 2, MONDAY + 3 * DAY)
    count()
    assert list(DayTotal.objects.order_by("day").values_list("slot_us", "attempts", "began")) == [
        (SLOTS * 43_200_000_000, 1, 1),
        (SLOTS * 86_400_000_000, 1, 0),
        (SLOTS * 86_400_000_000, 1, 0),
    ]
    # Whatever becomes of the claims, whole days do not look at them.
    GpuClaim.objects.update(released_at=MONDAY + DAY)
    assert shown(read(Period(MONDAY, MONDAY + 3 * DAY), ALL, [[]])) == [("{}", 60.0, 1, 1)]


def test_what_was_corrected_is_counted_anew() -> None:
    world = World(7)
    periods = world.periods()[:4]
    before = reports(periods)
    count()
    job_ids = list(Job.objects.filter(counted=True).order_by("pk").values_list("pk", flat=True)[::2])
    assert uncount(job_ids) == len(job_ids)
    assert reports(periods) == before
    GpuClaim.objects.filter(allocation__attempt__job__in=job_ids).update(released_at=MONDAY + 30 * DAY)
    corrected = reports(periods)
    assert corrected != before
    count()
    assert reports(periods) == corrected
    assert uncount(job_ids) + uncount(job_ids) == len(job_ids)


def test_all_can_be_counted_anew_by_command() -> None:
    world = World(8)
    count()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE usage_daytotal SET slot_us = slot_us + 1")
    call_command("recount_usage")
    assert not HeldDay.objects.exists()
    assert not Job.objects.filter(counted=True).exists()
    periods = world.periods()[:4]
    by_claims = reports(periods)
    count()
    assert reports(periods) == by_claims


def test_a_job_that_goes_on_or_holds_a_gpu_is_not_counted() -> None:
    make_job(state=JobState.QUEUED)
    attempt = ended_attempt(make_job(state=JobState.FAILED), 1, MONDAY, AttemptState.FAILED)
    hold(attempt, make_node(), MONDAY, None)
    assert count_ended() == 0
    GpuClaim.objects.update(released_at=MONDAY + DAY)
    assert count_ended() == 1
