"""Training of a job, for those who may see the job."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import Attempt
from muster.monitoring.models import FailureRate, JobAdvice
from muster.monitoring.store import keep_points
from tests.api.asking import problem_of, require_described
from tests.api.conftest import World

Api = Callable[[User | None], Client]


def path_of(job: Any, part: str = "training") -> str:
    return f"/api/v1/jobs/{job.pk}/{part}"


@pytest.fixture
def attempt(world: World) -> Attempt:
    attempt: Attempt = world.running.attempts.get()
    keep_points({attempt.pk: [("loss", 1.0, 2.0), ("loss", 2.0, math.nan), ("checkpoint_s", None, 60.0)]})
    return attempt


def test_the_metrics_of_a_job_have_what_it_told(attempt: Attempt, world: World, api: Api) -> None:
    answer = api(world.owner).get(path_of(world.running, "metrics"))
    require_described("GET", path_of(world.running, "metrics"), answer)
    told = {series["name"]: series for series in answer.json()["reported"]}
    assert told["loss"] == {
        "name": "loss",
        "from_log": False,
        "steps": [1.0, 2.0],
        "values": [2.0, None],
        "step": 2.0,
        "value": None,
    }


def test_what_there_is_to_say_of_a_training(attempt: Attempt, world: World, api: Api) -> None:
    JobAdvice.objects.create(job=world.running, attempt=attempt, kind="nan", text="not finite", step=2)
    FailureRate.objects.create(pool=world.running.pool, failures=3, node_hours=15_000)
    answer = api(world.owner).get(path_of(world.running))
    require_described("GET", path_of(world.running), answer)
    document = answer.json()
    assert [(one["name"], one["value"]) for one in document["newest"]] == [("checkpoint_s", 60.0), ("loss", None)]
    assert [(one["kind"], one["text"], one["attempt"]) for one in document["advice"]] == [("nan", "not finite", 1)]
    interval = document["checkpoint"]
    assert (interval["cost_s"], interval["measured"], interval["failures"]) == (60.0, "reported", 3)
    assert interval["daly_s"] < interval["young_s"] < interval["mtbf_s"] == 3600 * 5000
    assert document["rules"] == []


def test_a_job_that_told_nothing_has_nothing(world: World, api: Api) -> None:
    answer = api(world.owner).get(path_of(world.running))
    assert answer.json() == {"newest": [], "advice": [], "checkpoint": None, "rules": []}


def test_it_costs_a_few_queries_whatever_there_is(
    attempt: Attempt, world: World, api: Api, django_assert_max_num_queries: Any
) -> None:
    client = api(world.owner)
    with django_assert_max_num_queries(12):
        assert client.get(path_of(world.running)).status_code == 200


def test_who_may_not_see_the_job_finds_nothing(attempt: Attempt, world: World, api: Api) -> None:
    assert problem_of(api(world.stranger).get(path_of(world.running)))["status"] == 404
