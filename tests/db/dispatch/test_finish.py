"""Forecast finish of a waiting job on each GPU type that it accepts, from the platform's records."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from muster.dispatch.explain.finish import finish_by_type
from muster.jobs.models import Job
from muster.samples.rates import refresh_rates
from muster.tenants.models import Quota
from tests.db.stories import World, cycle, make_world, start, submit
from tests.factories import make_node

pytestmark = pytest.mark.django_db

EITHER: dict[str, Any] = {
    "gpus": {"any_of": ["A100:4", "V100:4"]},
    "expected": "5h",
    "throughput": {"A100": 400, "V100": 200},
}


@pytest.fixture
def world() -> World:
    """A node with four A100 and one with four V100."""
    world = make_world(gpus=4)
    make_node(world.pool, "volta01", gpus=4, gpu_type="V100")
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=4)
    return world


def told(job: Job) -> dict[str, tuple[int | None, int | None]]:
    """The start and the finish in hours, by type."""
    found = finish_by_type(job)
    assert found is not None
    hours = [(one.gpu_type, one.starts_in_s, one.finishes_in_s) for one in found.types]
    return {kind: tuple(None if one is None else round(one / 3600) for one in both) for kind, *both in hours}  # type: ignore[misc]


def test_a_slow_type_now_finishes_before_a_fast_one_later(world: World) -> None:
    start(world, gpus="A100:4", expected="9h")
    job = submit(world, **EITHER)
    refresh_rates()
    assert told(job) == {"V100": (0, 10), "A100": (9, 14)}
    found = finish_by_type(job)
    assert found is not None
    assert found.summary == "V100 now probably finishes before A100 in 9 h"  # the rates are only claimed


def test_jobs_that_wait_are_not_counted_and_cost_nothing(world: World) -> None:
    start(world, gpus="A100:4", expected="9h")
    job = submit(world, **EITHER)
    refresh_rates()
    with CaptureQueriesContext(
        connection,
    ) as alone:
        before = told(job)
    for _ in range(5):
        submit(world, **EITHER)
    refresh_rates()
    with CaptureQueriesContext(connection) as among_others:
        assert told(job) == before
    assert len(among_others) <= len(alone) <= 25


def test_only_a_waiting_job_with_a_choice_has_finishes(world: World) -> None:
    assert finish_by_type(submit(world, gpus="A100:1")) is None
    assert finish_by_type(submit(world, gpus=0)) is None
    either = submit(world, **EITHER)
    cycle(world)
    either.refresh_from_db()
    assert finish_by_type(either) is None
    any_type = submit(world, gpus=1)
    assert set(told(any_type)) == {"A100", "V100"}


def test_a_failing_plug_in_leaves_the_rest_of_the_page(world: World) -> None:
    job = submit(world, **EITHER)
    world.pool.placement_params = {"no such parameter": 1}
    world.pool.save()
    job = Job.objects.get(pk=job.pk)
    assert finish_by_type(job) is None
