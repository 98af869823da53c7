"""Arrays over REST: what is stored, what is refused and how, what is shown, cancelled and run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from muster.accounts.models import User
from muster.api import limits
from muster.api.limits import Bucket
from muster.events.models import Event
from muster.jobs.groups import submit
from muster.jobs.models import Job, JobGroup
from scheduler.model.lifecycle import HoldReason, JobState
from tests.api.asking import fields_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]

ARRAYS = "/api/v1/arrays"


def spec(array: Any, **changes: Any) -> dict[str, Any]:
    return {"name": "fold", "command": "python fold.py ${MUSTER_ARRAY_INDEX}", "array": array} | changes


def submitted(client: Client, array: Any, **changes: Any) -> dict[str, Any]:
    answer = send(client, "POST", ARRAYS, spec(array, **changes))
    assert answer.status_code == 201, answer.content
    require_described("POST", ARRAYS, answer)
    found: dict[str, Any] = answer.json()
    return found


def members(client: Client, array_id: int, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{ARRAYS}/{array_id}/members?{query}")
    require_described("GET", f"{ARRAYS}/{{array_id}}/members", answer)
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def end(array_id: int, state: JobState, *indices: int) -> None:
    jobs = Job.objects.filter(group=array_id, array_index__in=indices)
    jobs.update(state=state, hold_reason="", hold=None, ended_at=Now())


def test_an_array_is_stored_with_all_its_members(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, {"indices": "0-9:3,7", "max_parallel": 2})
    assert (found["state"], found["parallel"], found["first_index"], found["last_index"]) == ("active", 2, 0, 9)
    assert found["members"] == {
        "total": 5, "waiting": 5, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0,
    }  # fmt: skip
    assert found["spec"]["array"] == {"indices": "0-9:3,7", "max_parallel": 2}
    first, second, *others = jobs = list(Job.objects.filter(group=found["id"]).order_by("pk"))
    assert [(job.member, job.array_index) for job in jobs] == [(1, 0), (2, 3), (3, 6), (4, 7), (5, 9)]
    assert [job.hold_reason for job in jobs] == ["", "", *[HoldReason.GROUP] * 3]
    assert others[0].hold["detail"] == f"waits for its turn: array {found['id']} runs at most 2 members at once"
    for name in ("spec", "request", "submitted_at", "expected_s", "retries_used", "tags", "memo"):
        assert getattr(first, name) == getattr(second, name) == getattr(others[-1], name), name
    assert "array" not in first.spec
    (event,) = Event.objects.filter(tenant_id=world.vision.pk)
    assert (event.kind, event.job_id, event.data["members"]) == ("array.submitted", None, 5)


@pytest.mark.parametrize(
    ("array", "indices", "params"),
    [
        ("0-2", [0, 1, 2], [{}, {}, {}]),
        (7, [7], [{}]),
        ("1-9:4, 2,2", [1, 2, 5, 9], [{}] * 4),
        ([{"lr": 0.1, "seed": 1}, {"seed": 2, "lr": 0.2}], [0, 1], [{"lr": 0.1, "seed": 1}, {"lr": 0.2, "seed": 2}]),
        (
            {"params": {"lr": [0.1, 0.2], "seed": "4-6:2"}},
            [0, 1, 2, 3],
            [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (4, 6)],
        ),
    ],
)
def test_indices_and_params_make_members(
    array: Any, indices: list[int], params: list[dict[str, Any]], world: World, api: Api
) -> None:
    client = api(world.owner)
    found = members(client, submitted(client, array, params={"depth": 2})["id"])
    assert [one["index"] for one in found] == indices
    assert [one["params"] for one in found] == [{"depth": 2, **own} for own in params]


def test_a_limit_after_the_indices_is_that_of_slurm(world: World, api: Api) -> None:
    found = submitted(api(world.owner), "0-9%4")
    assert (found["parallel"], found["spec"]["array"]) == (4, {"indices": "0-9", "max_parallel": 4})


def test_arrays_and_jobs_share_their_numbers(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, "1-2")
    ids = list(Job.objects.filter(group=found["id"]).order_by("pk").values_list("pk", flat=True))
    assert found["id"] < ids[0]
    assert not Job.objects.filter(pk=found["id"]).exists()
    again = submitted(client, "1-2")
    assert again["id"] > ids[-1]


def test_a_member_names_its_array_and_its_index(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, "5-6")
    (one,) = members(client, found["id"], "indices=6")
    shown = client.get(f"/api/v1/jobs/{one['job']}").json()["group"]
    assert (shown["kind"], shown["id"], shown["index"], shown["members"]) == ("array", found["id"], 6, 2)
    (event,) = client.get(f"/api/v1/jobs/{one['job']}/events").json()["results"]
    assert (event["kind"], event["data"]) == ("job.submitted", {"array": found["id"], "index": 6})
    (row,) = client.get("/api/v1/jobs?search=fold&members=false").json()["results"]
    assert row["group"]["progress"]["waiting"] == 2


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no array", {"command": "x"}, "array"),
    ("nothing", spec(None), "array"),
    ("an empty text", spec(""), "array"),
    ("a word", spec("all"), "array"),
    ("a step of 0", spec("1-9:0"), "array"),
    ("a range that goes down", spec("5-1"), "array"),
    ("a negative index", spec(-1), "array"),
    ("an index too high", spec("4000001"), "array"),
    ("a million members", spec("1-1000000"), "array"),
    ("a limit of 0", spec("0-9%0"), "array.max_parallel"),
    ("a limit that is none", spec("0-9%x"), "array"),
    ("two limits", spec({"indices": "0-9%2", "max_parallel": 2}), "array.max_parallel"),
    ("max_parallel 0", spec({"indices": "0-9", "max_parallel": 0}), "array.max_parallel"),
    ("bad indices of the long form", spec({"indices": "5-1"}), "array.indices"),
    ("an unknown key", spec({"indeces": "0-9"}), "array.indeces"),
    ("indices and params", spec({"indices": "0-9", "params": [{"a": 1}]}), "array"),
    ("neither", spec({"max_parallel": 2}), "array"),
    ("an empty list", spec([]), "array.params"),
    ("no values by name", spec({"params": {}}), "array.params"),
    ("a parameter without values", spec({"params": {"lr": []}}), "array.params.lr"),
    ("a text that is no range", spec({"params": {"lr": "small"}}), "array.params.lr"),
    ("params of unequal names", spec([{"a": 1}, {"b": 1}]), "array.params.1"),
    ("a list of numbers", spec([1, 2]), "array.params"),
    ("a value that is a list", spec([{"a": 1}, {"a": [1]}]), "array.params.1"),
    ("combinations without end", spec({"params": {"a": "1-1000", "b": "1-1000"}}), "array.params"),
    ("a parameter that env has", spec([{"lr": 1}], env={"lr": 1}), "array.params.lr"),
    ("a parameter that all have", spec([{"lr": 1}], params={"lr": 1}), "array.params.lr"),
    ("a parameter of the platform", spec([{"RANK": 1}]), "array.params.0"),
    ("a sweep too", spec("0-9", sweep={}), "array"),
    ("a screening", spec("0-9", screening="always"), "screening"),
    ("a wrong key of the job", spec("0-9", nodes=0), "nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_wrong_with_an_array_is_named(body: dict[str, Any], field: str, world: World, api: Api) -> None:
    for path in (ARRAYS, "/api/v1/jobs:dry-run") if "array" in body else (ARRAYS,):
        answer = send(api(world.owner), "POST", path, body)
        assert answer.status_code == 422
        assert field in fields_of(answer)
    assert not JobGroup.objects.exists()


def test_an_array_is_no_job_and_a_dry_run_tells_of_its_first_member(world: World, api: Api) -> None:
    client = api(world.owner)
    answer = send(client, "POST", "/api/v1/jobs", spec("0-9"))
    assert (answer.status_code, fields_of(answer)) == (422, ["array"])
    assert "POST /api/v1/arrays" in answer.json()["detail"]
    dry = send(client, "POST", "/api/v1/jobs:dry-run", spec([{"lr": 0.5}, {"lr": 1}]))
    assert dry.json()["spec"]["params"] == {"lr": 0.5}


def test_an_array_whose_specs_would_fill_the_database_is_refused(
    world: World, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "MAX_STORED_BYTES", 100_000)
    answer = send(api(world.owner), "POST", ARRAYS, spec("1-1000", command="true # " + "x" * 1000))
    assert (answer.status_code, fields_of(answer)) == (422, ["array"])
    assert "put what is long into a file" in answer.json()["detail"]
    assert not JobGroup.objects.exists()


def test_a_key_stores_one_array(world: World, api: Api) -> None:
    client = api(world.owner)
    first, again = (send(client, "POST", ARRAYS, spec("0-9"), Idempotency_Key="one") for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert send(client, "POST", ARRAYS, spec("0-8"), Idempotency_Key="one").status_code == 409


def test_ten_members_cost_as_much_as_a_job(world: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBMIT", Bucket("tiny", per_s=0.1, burst=13))
    client = api(world.owner)
    submitted(client, "1-100")
    assert send(client, "POST", ARRAYS, spec("1-100")).status_code == 429


def test_members_are_cancelled_by_their_indices_or_all(world: World, api: Api) -> None:
    client = api(world.owner)
    array_id = submitted(client, "0-5")["id"]
    answer = send(client, "POST", f"{ARRAYS}/{array_id}:cancel", {"indices": "1-2,5"})
    require_described("POST", f"{ARRAYS}/{{array_id}}:cancel", answer)
    assert (answer.json()["state"], answer.json()["members"]["cancelled"]) == ("active", 3)
    assert [one["index"] for one in members(client, array_id, "state=cancelled")] == [1, 2, 5]
    unknown = send(client, "POST", f"{ARRAYS}/{array_id}:cancel", {"indices": "5-7"})
    assert (unknown.status_code, fields_of(unknown)) == (422, ["indices"])
    assert "has no index 6, 7" in unknown.json()["detail"]
    ended = send(client, "POST", f"{ARRAYS}/{array_id}:cancel", {})
    assert (ended.status_code, ended.json()["state"], ended.json()["members"]["cancelled"]) == (202, "cancelled", 6)


def test_a_retry_queues_the_failed_members_or_those_with_some_indices(world: World, api: Api) -> None:
    client = api(world.owner)
    array_id = submitted(client, "0-5")["id"]
    path = f"{ARRAYS}/{array_id}:retry"
    assert send(client, "POST", path, {}).status_code == 409
    end(array_id, JobState.FAILED, 0, 1)
    end(array_id, JobState.CANCELLED, 2)
    answer = send(client, "POST", path, {})
    require_described("POST", f"{ARRAYS}/{{array_id}}:retry", answer)
    assert (answer.status_code, answer.json()["retried"], answer.json()["members"]["cancelled"]) == (202, 2, 1)
    assert send(client, "POST", path, {"indices": "2-3"}).json()["retried"] == 1
    end(array_id, JobState.FAILED, 4)
    (one,) = members(client, array_id, "indices=4")
    assert client.post(f"/api/v1/jobs/{one['job']}:requeue").json()["state"] == JobState.QUEUED


def test_waiting_members_are_held_and_released(world: World, api: Api) -> None:
    client = api(world.owner)
    array_id = submitted(client, "0-3%2")["id"]
    assert client.post(f"{ARRAYS}/{array_id}:hold").json() == {"members": 4}
    assert set(Job.objects.filter(group=array_id).values_list("hold_reason", flat=True)) == {HoldReason.HELD}
    assert client.post(f"{ARRAYS}/{array_id}:release").json() == {"members": 4}
    holds = Job.objects.filter(group=array_id).order_by("member").values_list("hold_reason", flat=True)
    assert list(holds) == ["", "", HoldReason.GROUP, HoldReason.GROUP]


def test_members_of_an_array_that_is_submitted_held_wait_for_their_release(world: World, api: Api) -> None:
    client = api(world.owner)
    array_id = submitted(client, "0-3%2", hold=True)["id"]
    jobs = Job.objects.filter(group=array_id).order_by("member")
    assert {(job.held, job.hold_reason, job.hold["detail"]) for job in jobs} == {(True, "held", "olivia holds it back")}
    assert client.post(f"{ARRAYS}/{array_id}:release").json() == {"members": 4}
    assert [job.hold_reason for job in jobs.all()] == ["", "", HoldReason.GROUP, HoldReason.GROUP]


def test_a_clone_changes_keys_of_the_array(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, "0-9")
    answer = send(
        client, "POST", f"{ARRAYS}/{found['id']}:clone", {"spec": {"priority": "low", "array": {"max_parallel": 3}}}
    )
    require_described("POST", f"{ARRAYS}/{{array_id}}:clone", answer)
    clone = answer.json()
    assert (clone["cloned_from"], clone["parallel"], clone["members"]["total"]) == (found["id"], 3, 10)
    assert clone["spec"]["priority"] == "low"


def test_lists_are_of_the_own_tenants_by_state_and_page(world: World, api: Api) -> None:
    client = api(world.owner)
    ids = [submitted(client, "0-1")["id"] for _ in range(3)]
    send(client, "POST", f"{ARRAYS}/{ids[0]}:cancel", {})
    answer = client.get(f"{ARRAYS}?limit=2")
    require_described("GET", ARRAYS, answer)
    assert [one["id"] for one in answer.json()["results"]] == ids[:0:-1]
    following = client.get(f"{ARRAYS}?limit=2&cursor={answer.json()['next']}").json()
    assert ([one["id"] for one in following["results"]], following["next"]) == ([ids[0]], None)
    assert [one["id"] for one in client.get(f"{ARRAYS}?state=cancelled").json()["results"]] == [ids[0]]
    assert api(world.peer).get(f"{ARRAYS}?mine=1").json()["results"] == []
    assert api(world.stranger).get(ARRAYS).json()["results"] == []
    for act in ("", "/members"):
        assert api(world.stranger).get(f"{ARRAYS}/{ids[0]}{act}").status_code == 404
    for act in (":cancel", ":retry", ":hold"):
        assert send(api(world.stranger), "POST", f"{ARRAYS}/{ids[0]}{act}", {}).status_code == 404
        assert send(api(world.peer), "POST", f"{ARRAYS}/{ids[1]}{act}", {}).status_code == 403
    assert client.get(f"/api/v1/sweeps/{ids[0]}").status_code == 404


def test_members_are_listed_by_page(world: World, api: Api) -> None:
    client = api(world.owner)
    array_id = submitted(client, "10-14")["id"]
    answer = client.get(f"{ARRAYS}/{array_id}/members?limit=3").json()
    assert [one["index"] for one in answer["results"]] == [10, 11, 12]
    following = client.get(f"{ARRAYS}/{array_id}/members?limit=3&cursor={answer['next']}").json()
    assert ([one["index"] for one in following["results"]], following["next"]) == ([13, 14], None)
