"""What is done with a job: cancel, requeue, clone, edit; and its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.jobs.models import Attempt, Job
from scheduler.lifecycle import AttemptState, Desired, JobState
from tests.api.asking import JOBS, fields_of, problem_of, require_described, send, submit
from tests.api.conftest import World
from tests.factories import make_job, make_tenant, make_token, make_user, make_vc

Api = Callable[[User | None], Client]


def test_a_waiting_job_is_cancelled_at_once(world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", f"{JOBS}/{world.waiting.pk}:cancel")
    assert answer.status_code == 202
    assert (answer.json()["state"], answer.json()["desired"]) == ("cancelled", "stop")


def test_a_running_job_is_asked_to_stop_and_cancelling_twice_is_fine(world: World, api: Api) -> None:
    client = api(world.owner)
    first = send(client, "POST", f"{JOBS}/{world.running.pk}:cancel")
    second = send(client, "POST", f"{JOBS}/{world.running.pk}:cancel")
    assert (first.status_code, second.status_code) == (202, 202)
    assert (second.json()["state"], second.json()["desired"]) == ("active", "stop")
    assert Attempt.objects.get().state == AttemptState.STOPPING


def test_a_job_that_has_succeeded_cannot_be_cancelled(world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner, state=JobState.SUCCEEDED)
    answer = send(api(world.owner), "POST", f"{JOBS}/{job.pk}:cancel")
    assert answer.status_code == 409
    require_described("POST", f"{JOBS}/{job.pk}:cancel", answer)


def test_requeueing_a_finished_job_names_the_clone(world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner, state=JobState.FAILED)
    answer = send(api(world.owner), "POST", f"{JOBS}/{job.pk}:requeue")
    assert answer.status_code == 409
    assert ":clone" in problem_of(answer)["detail"]


def test_requeueing_a_running_job_stops_its_attempt(world: World, api: Api) -> None:
    assert send(api(world.owner), "POST", f"{JOBS}/{world.running.pk}:requeue").status_code == 202
    world.running.refresh_from_db()
    assert world.running.desired == Desired.RUN
    assert Attempt.objects.get().outcome == AttemptState.PREEMPTED


def test_a_clone_is_the_callers_own_job(world: World, api: Api) -> None:
    answer = send(api(world.peer), "POST", f"{JOBS}/{world.waiting.pk}:clone")
    assert answer.status_code == 201
    assert answer.json()["owner"] == "pete"
    assert answer.json()["cloned_from"] == world.waiting.pk
    assert answer.json()["spec"]["command"] == world.waiting.spec["command"]


def test_a_colleague_is_told_who_may_act(world: World, api: Api) -> None:
    answer = send(api(world.peer), "POST", f"{JOBS}/{world.waiting.pk}:cancel")
    assert answer.status_code == 403
    assert "olivia" in problem_of(answer)["detail"]
    world.waiting.refresh_from_db()
    assert world.waiting.desired == Desired.RUN


def test_the_name_priority_time_and_tags_can_be_edited(world: World, api: Api) -> None:
    client = api(world.owner)
    path = f"{JOBS}/{submit(client).json()['id']}"
    changes = {"name": "better", "priority": "low", "time": "2h", "tags": {"a": "b"}}
    answer = send(client, "PATCH", path, changes)
    assert answer.status_code == 200, answer.content
    require_described("PATCH", path, answer)
    job = Job.objects.get(pk=answer.json()["id"])
    assert (job.name, job.priority, job.time_limit_s, job.tags) == ("better", 0, 7200, {"a": "b"})
    assert {key: answer.json()["spec"][key] for key in changes} == changes


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gpus": 8}, "gpus"),
        ({"owner": "pete"}, "owner"),
        ({"name": "a\nb"}, "name"),
        ({"name": 7}, "name"),
        ({"priority": "urgent"}, "priority"),
        ({"time": "soon"}, "time"),
        ({"tags": {"a b": "c"}}, "tags"),
        ({"tags": ["a"]}, "tags"),
    ],
)
def test_an_edit_that_cannot_be_is_refused_by_field(
    changes: dict[str, Any], field: str, world: World, api: Api
) -> None:
    answer = send(api(world.owner), "PATCH", f"{JOBS}/{world.waiting.pk}", changes)
    assert answer.status_code == 422
    assert fields_of(answer) == [field]
    world.waiting.refresh_from_db()
    assert world.waiting.name == "waiting"


@pytest.mark.parametrize("body", ["[]", '"x"', "7", "null"])
def test_an_edit_that_is_no_object_is_refused(body: str, world: World, api: Api) -> None:
    answer = send(api(world.owner), "PATCH", f"{JOBS}/{world.waiting.pk}", body)
    assert answer.status_code == 422
    require_described("PATCH", f"{JOBS}/{world.waiting.pk}", answer)


@pytest.mark.parametrize("suffix", ["", ":cancel", "/why", "/attempts", "/events"])
@pytest.mark.parametrize("number", ["0", "999999999", "9" * 18, "9" * 40, "-1", "1.5", "x", "%00"])
def test_a_number_that_is_no_job_is_not_found(number: str, suffix: str, world: World, api: Api) -> None:
    method = "POST" if suffix.startswith(":") else "GET"
    answer = send(api(world.owner), method, f"{JOBS}/{number}{suffix}")
    assert answer.status_code == 404
    assert problem_of(answer)["type"] == "about:blank#not-found"


@pytest.mark.django_db(transaction=True)
def test_events_are_told_in_their_order_and_in_pages() -> None:
    # Events are shown once their transactions are over, so this test really commits.
    tenant = make_tenant()
    make_vc(tenant)
    client = Client(headers={"Authorization": f"Bearer {make_token(make_user('ada', tenant=tenant))}"})
    path = f"{JOBS}/{submit(client).json()['id']}"
    send(client, "PATCH", path, {"name": "better"})
    send(client, "POST", f"{path}:cancel")
    whole = client.get(f"{path}/events")
    require_described("GET", f"{path}/events", whole)
    kinds = [event["kind"] for event in whole.json()["results"]]
    assert kinds[:3] == ["job.submitted", "job.edited", "job.cancel_asked"]
    assert {event["actor"] for event in whole.json()["results"]} == {"ada"}
    first = client.get(f"{path}/events?limit=2").json()
    rest = client.get(f"{path}/events?cursor={first['next']}").json()
    assert [event["kind"] for event in first["results"] + rest["results"]] == kinds
    assert rest["next"] is None


@pytest.mark.parametrize("cursor", ["x", "MQ", "MS0tMg", "%00"])
def test_a_strange_cursor_of_events_is_refused(cursor: str, world: World, api: Api) -> None:
    answer = api(world.owner).get(f"{JOBS}/{world.waiting.pk}/events?cursor={cursor}")
    assert answer.status_code == 422
    assert fields_of(answer) == ["cursor"]
