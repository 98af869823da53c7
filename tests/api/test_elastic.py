"""Jobs that may be resized: what is stored of their sizes, and which sizes are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.common.clock import utc_now
from muster.jobs.attempt.resizes import FailedResize
from muster.jobs.models import Job
from muster.tenants.models import Quota, Tenant
from scheduler.model.request import ElasticRange, Over
from tests.api.asking import JOBS, problem_of, require_described, send, submit
from tests.api.conftest import World
from tests.factories import make_node

Api = Callable[[User | None], Client]

GOOD: dict[str, Any] = {"command": "x", "gpus": 2, "elastic": {"min": 1, "max": 4}, "checkpoint": {"grace": "20s"}}
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("min above max", {"elastic": {"min": 4, "max": 1}}, "elastic.min", "4 is above max, 1"),
    ("no max", {"elastic": {"min": 1}}, "elastic.max", "it is required"),
    ("a size below one", {"elastic": {"min": 0, "max": 4}}, "elastic.min", "write 1 or more"),
    ("a size that is not a number", {"elastic": {"min": 1, "max": "4"}}, "elastic.max", "write a whole number"),
    ("an infinite size", {"elastic": {"min": 1, "max": 1e30}}, "elastic.max", "write a whole number"),
    ("an unknown key", {"elastic": {"min": 1, "max": 4, "step": 2}}, "elastic.step", "unknown key"),
    ("a range that is no mapping", {"elastic": 4}, "elastic", "write a mapping"),
    ("a unit of sizes that does not exist", {"elastic": {"min": 1, "max": 4, "over": "rack"}}, "elastic.over", "gang"),
    (
        "GPUs in all above the range",
        {"nodes": 3, "elastic": {"min": 1, "max": 4, "over": "gang"}},
        "gpus",
        "6 in all is not between min and max of elastic: write 1 to 4",
    ),
    ("GPUs below the range", {"gpus": 1, "elastic": {"min": 2, "max": 4}}, "gpus", "write 2 to 4"),
    ("GPUs above the range", {"gpus": 4, "elastic": {"min": 1, "max": 2}}, "gpus", "write 1 to 2"),
    ("a choice outside", {"gpus": {"any_of": ["A100:2", "V100:8"]}}, "gpus", "8 is not between"),
    ("no GPUs", {"gpus": 0}, "elastic", "ask for gpus"),
    ("no checkpoint", {"checkpoint": None}, "elastic", "name checkpoint"),
    ("a job that may not be stopped", {"preemptible": False, "time": "1h"}, "elastic", "leave out preemptible"),
    ("shared GPUs", {"share": "pack", "gpu_memory": "1GiB"}, "elastic", "leave out share"),
    ("more than any node has", {"elastic": {"min": 1, "max": 9}}, "elastic.max", "write max: 8"),
    ("more than nodes of its type have", {"gpus": "A100:2", "elastic": {"min": 1, "max": 8}}, "elastic.max", "max: 4"),
    (
        "more than its nodes have in all",
        {"gpus": "V100:2", "elastic": {"min": 1, "max": 18, "over": "gang"}},
        "elastic.max",
        "pool main could never give this job 18 GPUs, equally many on each of its nodes; write max: 16",
    ),
]


@pytest.fixture
def mixed(world: World) -> World:
    """The world with four A100 on a node, and two nodes with eight V100 each."""
    for name in ("volta01", "volta02"):
        make_node(world.pool, name, gpus=8, gpu_type="V100")
    Quota.objects.create(vc=world.vc, gpu_type="V100", gpus=8)
    Tenant.objects.filter(pk=world.vision.pk).update(wait_for_hardware=False)
    return world


@pytest.mark.parametrize(
    ("changes", "field", "told"), [pytest.param(changes, field, told, id=name) for name, changes, field, told in BAD]
)
def test_a_wrong_range_is_refused_by_field(
    changes: dict[str, Any], field: str, told: str, mixed: World, api: Api
) -> None:
    before = Job.objects.count()
    spec = {key: value for key, value in (GOOD | changes).items() if value is not None}
    for path in (JOBS, f"{JOBS}:dry-run"):
        answer = send(api(mixed.owner), "POST", path, spec)
        assert answer.status_code == 422, answer.content
        require_described("POST", path, answer)
        assert [(one["field"], told in one["message"]) for one in problem_of(answer)["errors"]] == [(field, True)]
    assert Job.objects.count() == before


def test_the_range_is_stored_in_the_request_and_shown_in_the_spec(mixed: World, api: Api) -> None:
    answer = submit(api(mixed.owner), GOOD)
    assert answer.status_code == 201, answer.content
    require_described("POST", JOBS, answer)
    assert answer.json()["spec"]["elastic"] == {"min": 1, "max": 4, "over": "node"}
    job = Job.objects.get(pk=answer.json()["id"])
    assert (job.request.elastic, job.gpus, job.checkpoints) == (ElasticRange(1, 4), 2, True)


def test_a_range_over_the_gang_may_exceed_a_node(mixed: World, api: Api) -> None:
    spec = GOOD | {"gpus": "V100:2", "elastic": {"min": 1, "max": 16, "over": "gang"}}
    answer = send(api(mixed.owner), "POST", f"{JOBS}:dry-run", spec)
    assert (answer.status_code, answer.json()["feasible"]) == (200, True), answer.content
    assert answer.json()["spec"]["elastic"] == spec["elastic"]
    job = Job.objects.get(pk=submit(api(mixed.owner), spec).json()["id"])
    assert job.request.elastic == ElasticRange(1, 16, Over.GANG)


def test_a_tenant_that_waits_for_hardware_may_ask_for_larger_sizes(mixed: World, api: Api) -> None:
    Tenant.objects.filter(pk=mixed.vision.pk).update(wait_for_hardware=True)
    answer = submit(api(mixed.owner), GOOD | {"elastic": {"min": 1, "max": 64}})
    assert (answer.status_code, answer.json()["warnings"]) == (201, [])


def test_a_job_tells_of_a_resize_that_did_not_come_back_until_its_pause_is_over(mixed: World, api: Api) -> None:
    client = api(mixed.owner)
    job = submit(client, GOOD).json()
    assert job["failed_resize"] is None
    now = utc_now().timestamp()
    failed = FailedResize(before=1, wanted=2, at=now, because="Exit code 1", until=now + 600, count=1)
    Job.objects.filter(pk=job["id"]).update(failed_resize=failed.stored())
    answer = client.get(f"{JOBS}/{job['id']}")
    require_described("GET", f"{JOBS}/{{id}}", answer)
    told = answer.json()["failed_resize"]
    assert (told["before"], told["wanted"], told["because"]) == (1, 2, "Exit code 1")
    assert told["until"] > told["at"]
    Job.objects.filter(pk=job["id"]).update(failed_resize=replace(failed, until=now).stored())
    assert client.get(f"{JOBS}/{job['id']}").json()["failed_resize"] is None
