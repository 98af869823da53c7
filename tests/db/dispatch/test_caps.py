"""Caps on users where jobs are placed: over pools, under lock, and by the GPU-hours of the month."""

from __future__ import annotations

from datetime import timedelta

import pytest

from muster.common.clock import database_now
from muster.dispatch.apply.apply import apply_plan
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.models import GpuClaim, Job
from muster.sweeps.services import submit_sweep
from muster.tenants.models import Cap
from scheduler.engine.cycle import decide
from scheduler.model.lifecycle import JobState
from tests.db.stories import World, cycle, start, submit
from tests.factories import make_node, make_pool, make_vc

pytestmark = pytest.mark.django_db


@pytest.fixture
def twin(world: World) -> World:
    """A second pool in which the same user has a virtual cluster."""
    pool = make_pool()
    vc = make_vc(world.tenant, pool, quotas={"A100": 1000})
    return World(pool, world.tenant, world.user, vc, [make_node(pool, gpus=4)])


def state(job: Job) -> str:
    job.refresh_from_db()
    return job.state


def test_a_cap_counts_what_the_user_holds_in_another_pool(world: World, twin: World) -> None:
    Cap.objects.create(tenant=world.tenant, gpus=3)
    start(world, gpus=2)
    job = submit(twin, gpus=2)
    cycle(twin)
    job.refresh_from_db()
    assert (job.state, job.hold_reason) == (JobState.QUEUED, "cap")
    assert job.hold["detail"] == f"{world.user.username} holds 2 of at most 3 GPUs; this job needs 2"


def test_of_two_plans_for_two_pools_the_second_is_refused_under_lock(world: World, twin: World) -> None:
    Cap.objects.create(tenant=world.tenant, user=world.user, jobs=1)
    first, second = submit(world), submit(twin)
    snapshots = {one.pool.pk: pool_snapshot(one.pool, seed=0) for one in (world, twin)}
    applied = []
    for one in (world, twin):
        snapshot, config = snapshots[one.pool.pk], config_of(one.pool)
        applied.append(apply_plan(one.pool, snapshot, decide(snapshot, config), config))
    assert [len(one.started) for one in applied] == [1, 0]
    assert applied[1].refusals[0].reason == f"{world.user.username} would run 2 jobs; the cap is 1"
    assert (state(first), state(second)) == (JobState.ACTIVE, JobState.QUEUED)


def test_gpu_hours_of_this_month_count_and_those_before_do_not(world: World) -> None:
    Cap.objects.create(tenant=world.tenant, gpu_hours_month=1)
    attempt = start(world, gpus=2)
    begins = database_now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    claims = GpuClaim.objects.filter(allocation__attempt=attempt)

    def used() -> float:
        (cap,) = pool_snapshot(world.pool, seed=0).caps
        return cap.gpu_s_used

    claims.update(claimed_at=begins - timedelta(hours=5), released_at=begins + timedelta(seconds=1500))
    assert used() == 3000
    claims.update(released_at=begins - timedelta(seconds=1))
    assert used() == 0


def test_members_of_a_sweep_count_like_jobs(world: World) -> None:
    Cap.objects.create(tenant=world.tenant, role="member", jobs=2)
    asked = {"method": "random", "metric": "loss", "params": {"lr": {"log": [1e-5, 0.1]}}, "members": 3, "parallel": 3}
    data = {"command": "true", "gpus": 1, "vc": world.vc.name, "sweep": asked}
    group, _ = submit_sweep(user=world.user, data=data)
    cycle(world)
    jobs = Job.objects.filter(group=group).order_by("member")
    assert [(job.state, job.hold_reason) for job in jobs] == [
        (JobState.ACTIVE, ""),
        (JobState.ACTIVE, ""),
        (JobState.QUEUED, "cap"),
    ]


def test_a_pool_of_tenants_without_caps_has_none(world: World) -> None:
    submit(world)
    assert pool_snapshot(world.pool, seed=0).caps == ()
