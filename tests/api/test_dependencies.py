"""What waits for what, as a graph around one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from muster.accounts.models import User
from muster.arrays.services import submit_array
from muster.jobs.models import Dependency, Job
from muster.jobs.services import submit_job
from tests.api.asking import JOBS, require_described
from tests.api.conftest import World
from tests.factories import make_job

Api = Callable[[User | None], Client]


def submit(world: World, *after: str) -> Job:
    return submit_job(user=world.owner, data={"command": "true", "vc": "vision-vc", "after": list(after)})[0]


def graph(api: Api, user: User, job: Job) -> Any:
    path = f"{JOBS}/{job.pk}/dependencies"
    answer = api(user).get(path)
    require_described("GET", path, answer)
    return answer.json()


def edges(found: Any) -> Sequence[tuple[int, int, str, str]]:
    return [(edge["source"], edge["target"], edge["kind"], edge["state"]) for edge in found["edges"]]


def test_it_goes_both_ways_and_a_group_is_one_node(world: World, api: Api) -> None:
    first, other = submit(world), submit(world)
    middle = submit(world, f"{first.pk}:ok?{other.pk}:any")
    data = {"command": "true", "vc": "vision-vc", "array": "0-2", "after": [f"{middle.pk}:failed"]}
    array = submit_array(user=world.owner, data=data)[0]
    behind = submit(world, f"{array.pk}:started")
    submit(world)
    found = graph(api, world.owner, middle)
    assert [(node["id"], node["kind"], node["state"], node["waits"]) for node in found["nodes"]] == [
        (first.pk, None, "queued", False),
        (other.pk, None, "queued", False),
        (middle.pk, None, "queued", True),
        (array.pk, "array", "active", True),
        (behind.pk, None, "queued", True),
    ]
    assert edges(found) == [
        (first.pk, middle.pk, "ok", "open"),
        (other.pk, middle.pk, "any", "open"),
        (middle.pk, array.pk, "failed", "open"),
        (array.pk, behind.pk, "started", "open"),
    ]
    member = array.members.get(member=2)
    assert graph(api, world.owner, member)["middle"] == array.pk
    assert edges(graph(api, world.owner, member)) == edges(found)


def test_a_job_without_dependencies_is_alone(world: World, api: Api) -> None:
    found = graph(api, world.owner, world.waiting)
    assert [node["id"] for node in found["nodes"]] == [world.waiting.pk]
    assert (found["edges"], found["whole"]) == ([], True)


def test_what_the_reader_may_not_see_is_left_out(world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner)
    Dependency.objects.create(job=job, clause=0, kind="ok", on_job=world.others)
    assert [node["id"] for node in graph(api, world.owner, job)["nodes"]] == [job.pk]
    assert len(graph(api, world.operator, job)["nodes"]) == 2


def test_the_far_end_of_a_long_chain_is_left_out_and_costs_no_query(world: World, api: Api) -> None:
    jobs = [world.waiting]
    for _ in range(120):
        jobs.append(make_job(world.vc, world.owner))
        Dependency.objects.create(job=jobs[-1], clause=0, kind="ok", on_job=jobs[-2])
    costs = []
    for job in (jobs[0], world.running):
        with CaptureQueriesContext(connection) as caught:
            found = graph(api, world.owner, job)
        costs.append(len(caught))
        assert found["whole"] is (job == world.running)
    assert len(graph(api, world.owner, jobs[0])["nodes"]) == 100
    assert costs[0] == costs[1]
