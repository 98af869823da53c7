"""Acts on a job: cancel, requeue, clone, edit; and its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import User
from muster.accounts.scopes import Scope
from muster.jobs.models import Attempt, Job
from scheduler.model.lifecycle import AttemptState, Desired, JobState
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


CANCEL = f"{JOBS}:cancel"


def states() -> dict[str, tuple[str, str]]:
    """The state and what is wanted, by the names of the jobs."""
    return {job.name: (job.state, job.desired) for job in Job.objects.all()}


def test_all_jobs_that_match_are_cancelled(world: World, api: Api) -> None:
    for number in range(3):
        make_job(world.vc, world.owner, name=f"sweep-{number}", tags={"sweep": "lr"})
    answer = send(api(world.owner), "POST", CANCEL, {"tag": ["sweep:lr"], "state": ["queued", "running"]})
    require_described("POST", CANCEL, answer)
    assert (answer.status_code, len(answer.json()["cancelled"])) == (202, 3)
    assert {name for name, (state, _) in states().items() if state == "cancelled"} == {f"sweep-{n}" for n in range(3)}


@pytest.mark.parametrize(
    ("role", "stopped"),
    [
        ("owner", {"waiting", "running"}),
        ("peer", {"by pete"}),
        ("manager", {"waiting", "running", "by pete"}),
        ("stranger", {"others"}),
        ("operator", {"waiting", "running", "by pete", "others"}),
    ],
)
def test_a_selection_cancels_only_jobs_that_the_caller_may_cancel(
    role: str, stopped: set[str], world: World, api: Api
) -> None:
    make_job(world.vc, world.peer, name="by pete")
    client, selection = api(world.user(role)), {"state": ["queued", "active"]}
    assert client.get(f"{JOBS}:count", selection).json()["cancellable"] == len(stopped)
    assert send(client, "POST", CANCEL, selection).status_code == 202
    assert {name for name, (_, desired) in states().items() if desired == "stop"} == stopped


def test_a_token_without_manage_cancels_only_its_users_own_jobs(world: World) -> None:
    client = Client(headers={"Authorization": f"Bearer {make_token(world.manager, scopes=[Scope.READ, Scope.SUBMIT])}"})
    assert client.get(f"{JOBS}:count").json()["cancellable"] == 0
    assert send(client, "POST", CANCEL, {"ids": [world.waiting.pk]}).json()["cancelled"] == []


def test_an_empty_selection_cancels_nothing(world: World, api: Api) -> None:
    answer = send(api(world.operator), "POST", CANCEL, {})
    assert answer.status_code == 422
    assert "at least one" in problem_of(answer)["detail"]
    assert {desired for _, desired in states().values()} == {"run"}


def test_a_request_cancels_queued_jobs_before_running_ones_and_says_how_many_remain(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.jobs.services.MAX_CANCELLED", 1)
    client, selection = api(world.owner), {"mine": True}
    first, second, third = (send(client, "POST", CANCEL, selection).json() for _ in range(3))
    assert (first["cancelled"], first["remaining"]) == ([world.waiting.pk], 1)
    assert (second["cancelled"], second["remaining"]) == ([world.running.pk], 0)
    assert third["cancelled"] == []


def test_requeueing_a_finished_job_names_the_clone(world: World, api: Api) -> None:
    job = make_job(world.vc, world.owner, state=JobState.FAILED)
    answer = send(api(world.owner), "POST", f"{JOBS}/{job.pk}:requeue")
    assert answer.status_code == 409
    assert "`muster clone" in problem_of(answer)["detail"]


def test_requeueing_a_running_job_stops_its_attempt(world: World, api: Api) -> None:
    assert send(api(world.owner), "POST", f"{JOBS}/{world.running.pk}:requeue").status_code == 202
    world.running.refresh_from_db()
    assert world.running.desired == Desired.RUN
    assert Attempt.objects.get().outcome == AttemptState.PREEMPTED


def test_a_clone_may_change_keys_of_the_spec(world: World, api: Api) -> None:
    client = api(world.owner)
    source = submit(client, {"command": "true", "gpus": 1, "tags": {"a": "b"}, "time": "1h"}).json()
    answer = send(client, "POST", f"{JOBS}/{source['id']}:clone", {"spec": {"gpus": "A100:2", "time": None}})
    require_described("POST", f"{JOBS}/{source['id']}:clone", answer)
    clone = answer.json()
    assert (clone["gpus"], clone["gpu_type"], clone["tags"]) == (2, "A100", {"a": "b"})
    assert (clone["cloned_from"], "time" in clone["spec"]) == (source["id"], False)


def test_a_clone_with_an_unknown_key_of_the_spec_is_refused(world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", f"{JOBS}/{world.waiting.pk}:clone", {"spec": {"gpu": 2}})
    assert (answer.status_code, fields_of(answer)) == (422, ["gpu"])


@pytest.mark.parametrize(("asked", "stored"), [(2, 2), ("2", 2), ("A100:2", "A100:2")])
def test_a_number_of_gpus_is_stored_as_a_number(asked: int | str, stored: int | str, world: World, api: Api) -> None:
    assert submit(api(world.owner), {"command": "true", "gpus": asked}).json()["spec"]["gpus"] == stored


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
