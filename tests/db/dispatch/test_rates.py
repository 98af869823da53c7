"""The rates that a pool's snapshot carries: measured, claimed and estimated, and no choice where a job stands still."""

from __future__ import annotations

from typing import Any

import pytest

from muster.common.models import DatabaseNow
from muster.dispatch.models import PolicyState
from muster.dispatch.snapshot.snapshot import pool_snapshot
from muster.jobs.models import Attempt, Job
from muster.samples.models import RateEstimate, SpeedAlone
from muster.samples.rates import rates_of, refresh_rates
from muster.tenants.models import Quota
from tests.db.stories import World, cycle, make_world, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db

EITHER: dict[str, Any] = {"gpus": {"any_of": ["A100:1", "V100:1"]}, "name": "resnet"}


@pytest.fixture
def world() -> World:
    """A node with A100 and one with V100."""
    world = make_world(gpus=4, policy="gavel")
    make_node(world.pool, "volta01", gpus=4, gpu_type="V100")
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=4)
    return world


def measured(job: Job, gpu_type: str, per_s: float, *, gpus: int = 1) -> None:
    SpeedAlone.objects.create(job=job, gpu_type=gpu_type, gpus=gpus, per_s=per_s, at=DatabaseNow())


def told(world: World, job: Job) -> dict[str, tuple[float, str]]:
    """The waiting job's rates in the snapshot: rate and source by GPU type."""
    known = pool_snapshot(world.pool, seed=0).waiting_by_id[job.pk].rates
    return {one.gpu_type: (one.rate.mean, one.rate.source) for one in known}


def test_a_job_alike_and_its_own_claim_give_the_rates(world: World) -> None:
    before, after = submit(world, **EITHER), submit(world, **EITHER, throughput={"V100": 190})
    measured(before, "A100", 410.0)
    assert refresh_rates() == 2
    found = told(world, after)
    assert found["A100"] == (pytest.approx(410.0), "measured")
    assert found["V100"] == (pytest.approx(190.0), "claimed")
    shown = {rate.gpu_type: rate for rate in rates_of(after)}
    assert shown["A100"].deviation == pytest.approx(41.0, rel=0.1)
    assert shown["V100"].source == "claimed"


def test_what_the_job_itself_was_measured_at_is_told_at_once(world: World) -> None:
    job = submit(world, **EITHER, throughput={"A100": 100})
    refresh_rates()
    assert told(world, job)["A100"][1] == "claimed"
    measured(job, "A100", 400.0)
    assert told(world, job)["A100"] == (400.0, "measured")


def test_rates_are_for_as_many_nodes_as_the_job_asks_for(world: World) -> None:
    make_node(world.pool, "a02", gpus=4)
    on_one, on_two = {"gpus": "A100:4", "name": "net"}, {"gpus": "A100:2", "nodes": 2, "name": "net"}
    measured(submit(world, **on_one), "A100", 400.0, gpus=4)
    measured(submit(world, **on_two), "A100", 250.0, gpus=4)
    after = [submit(world, **on_one), submit(world, **on_two)]
    refresh_rates()
    found = [(rate.gpus, rate.per_s, rate.source) for job in after for rate in rates_of(job)]
    assert found == [(4, pytest.approx(400.0), "measured"), (4, pytest.approx(250.0), "measured")]


def test_jobs_measured_on_one_node_and_on_two_tell_how_much_slower_two_are(world: World) -> None:
    make_node(world.pool, "a02", gpus=4)
    on_one, on_two = {"gpus": "A100:4", "name": "net"}, {"gpus": "A100:2", "nodes": 2, "name": "net"}
    first = submit(world, **on_one)
    measured(first, "A100", 400.0, gpus=4)
    refresh_rates()
    assert [rate.slowdown for rate in rates_of(first)] == [None]
    measured(submit(world, **on_two), "A100", 250.0, gpus=4)
    after = submit(world, **on_two)
    refresh_rates()
    assert [rate.slowdown for rate in rates_of(first)] == [pytest.approx(1.6)]  # beside what it was measured at itself
    (known,) = pool_snapshot(world.pool, seed=0).waiting_by_id[after.pk].rates
    assert known.slowdown == pytest.approx(1.6)


def test_a_claimed_slowdown_holds_until_it_is_measured(world: World) -> None:
    make_node(world.pool, "a02", gpus=4)
    on_one, on_two = {"gpus": "A100:4", "name": "net"}, {"gpus": "A100:2", "nodes": 2, "name": "net"}
    job = submit(world, **on_two, throughput={"A100": 9}, locality={"within": "any", "slowdown": 2.5})
    refresh_rates()
    (known,) = pool_snapshot(world.pool, seed=0).waiting_by_id[job.pk].rates
    assert known.slowdown == 2.5
    measured(submit(world, **on_one), "A100", 400.0, gpus=4)
    measured(submit(world, **on_two), "A100", 250.0, gpus=4)
    refresh_rates()
    assert [rate.slowdown for rate in rates_of(job)] == [pytest.approx(1.6)]


def test_an_elastic_job_has_a_rate_in_each_size(world: World) -> None:
    elastic = {"gpus": "A100:2", "elastic": {"min": 1, "max": 4}, "checkpoint": {"grace": "20s"}, "name": "net"}
    before, after = submit(world, **elastic), submit(world, **elastic)
    measured(before, "A100", 30.0, gpus=2)
    refresh_rates()
    found = rates_of(after)
    assert [rate.gpus for rate in found] == [1, 2, 3, 4]
    assert [rate.source for rate in found] == ["estimated", "measured", "estimated", "estimated"]
    assert [rate.per_s for rate in found] == sorted(rate.per_s for rate in found)


def test_nothing_is_estimated_while_nothing_is_new(world: World) -> None:
    job = submit(world, **EITHER, throughput={"A100": 100})
    assert refresh_rates() == 1
    assert refresh_rates() == 0
    measured(job, "A100", 400.0)
    assert refresh_rates() == 1


def test_a_type_with_rate_zero_is_no_choice(world: World) -> None:
    job = submit(world, **EITHER)
    RateEstimate.objects.create(job=job, gpu_type="A100", gpus=1, per_s=0.0, deviation=0.0, source="measured")
    waiting = pool_snapshot(world.pool, seed=0).waiting_by_id[job.pk]
    assert [choice.gpu_type for choice in waiting.request.choices] == ["V100"]
    RateEstimate.objects.create(job=job, gpu_type="V100", gpus=1, per_s=0.0, deviation=0.0, source="measured")
    left = pool_snapshot(world.pool, seed=0).waiting_by_id[job.pk]
    assert left.request == job.request  # no type is left: the job fails on one rather than wait for ever


def test_a_job_that_stands_still_where_it_runs_keeps_that_choice_and_has_the_other_one(world: World) -> None:
    job = submit(world, **EITHER)
    cycle(world)
    (run,) = pool_snapshot(world.pool, seed=0).running
    held = run.job.request.first.gpu_type
    RateEstimate.objects.create(job=job, gpu_type=held, gpus=1, per_s=0.0, deviation=0.0, source="measured")
    (run,) = pool_snapshot(world.pool, seed=0).running
    assert [choice.gpu_type for choice in run.job.request.choices] == [held, *({"A100", "V100"} - {held})]


def test_gavel_gives_the_fast_type_to_the_job_that_gains_more(world: World) -> None:
    whole = {"gpus": {"any_of": ["A100:4", "V100:4"]}}
    little = submit(world, **whole, name="little", throughput={"A100": 3, "V100": 2})
    much = submit(world, **whole, name="much", throughput={"A100": 20, "V100": 2})
    refresh_rates()
    cycle(world)
    types = {
        attempt.job_id: attempt.request.first.gpu_type for attempt in Attempt.objects.filter(job__in=[little, much])
    }
    assert types == {little.pk: "V100", much.pk: "A100"}
    ledger = PolicyState.objects.get(pool=world.pool).data
    assert ledger["types"] == ["A100", "V100"]
    assert {int(job_id) for job_id in ledger["accounts"]} == {little.pk, much.pk}
