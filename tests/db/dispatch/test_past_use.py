"""Past use by virtual clusters, in the snapshot of a pool whose policy shares over time."""

from __future__ import annotations

from datetime import timedelta
from math import log
from typing import Any

import pytest

from muster.common.clock import database_now
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.fleet.models import Pool
from muster.jobs.models import GpuClaim
from tests.db.stories import World, cycle, make_world, submit

pytestmark = pytest.mark.django_db

HOUR_S = 3600.0


def past_gpu_s(world: World, policy: str, **params: Any) -> float:
    Pool.objects.filter(pk=world.pool.pk).update(policy=policy, policy_params=params)
    world.pool.refresh_from_db()
    return pool_snapshot(world.pool, seed=0).vcs[0].past_gpu_s


def test_past_use_decays_with_the_half_life_of_the_policy() -> None:
    world = make_world(gpus=4)
    submit(world, gpus=2)
    cycle(world)
    now = database_now()
    hours = timedelta(hours=1)
    assert GpuClaim.objects.update(claimed_at=now - 2 * hours, released_at=now - hours) == 2
    # Two GPUs for an hour that ended an hour ago: 2 ^ -age from one to two hours integrates to 1/4 ÷ ln 2.
    assert past_gpu_s(world, "fair", half_life_h=1) == pytest.approx(2 * HOUR_S / 4 / log(2), rel=0.01)
    assert past_gpu_s(world, "fair", half_life_h=1000) == pytest.approx(2 * HOUR_S, rel=0.01)
    GpuClaim.objects.update(released_at=None)
    assert past_gpu_s(world, "fair", half_life_h=1000) == pytest.approx(4 * HOUR_S, rel=0.01)


def test_a_policy_that_does_not_ask_is_told_nothing() -> None:
    world = make_world(gpus=4)
    submit(world, gpus=2)
    cycle(world)
    assert past_gpu_s(world, "fair") == past_gpu_s(world, "fifo") == 0.0
