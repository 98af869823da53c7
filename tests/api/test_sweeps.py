"""Sweeps over REST: what is stored, what is refused and how, what is shown, cancelling and cloning."""

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
from muster.jobs.models import Job, JobGroup
from muster.sweeps.models import Trial
from scheduler.model.lifecycle import GroupState, HoldReason, JobState
from tests.api.asking import fields_of, require_described, send
from tests.api.conftest import World
from tests.factories import make_job

Api = Callable[[User | None], Client]

SWEEPS = "/api/v1/sweeps"
GRID = {"method": "grid", "metric": "loss", "params": {"lr": [0.1, 0.01, 0.001], "layers": {"int": [1, 2]}}}
ASHA = {
    "method": "asha",
    "metric": "loss",
    "params": {"lr": {"log": [1e-5, 0.1]}},
    "members": 27,
    "rungs": {"first": 3, "last": 27},
}


def spec(sweep: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return {"name": "lr-search", "command": "train ${lr}", "gpus": 1, "sweep": sweep or GRID} | changes


def submitted(client: Client, **changes: Any) -> dict[str, Any]:
    answer = send(client, "POST", SWEEPS, spec(**changes))
    assert answer.status_code == 201, answer.content
    require_described("POST", SWEEPS, answer)
    found: dict[str, Any] = answer.json()
    return found


def test_a_sweep_is_stored_with_all_its_members(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, sweep=GRID | {"parallel": 2})
    assert found["state"] == "active"
    assert found["params"] == ["lr", "layers"]
    assert found["members"] == {
        "total": 6, "waiting": 6, "running": 0, "paused": 0, "succeeded": 0, "failed": 0, "stopped": 0, "cancelled": 0,
    }  # fmt: skip
    assert found["spec"]["sweep"]["max_failures"] == 3
    jobs = list(Job.objects.filter(group=found["id"]).order_by("member"))
    assert [job.member for job in jobs] == [1, 2, 3, 4, 5, 6]
    assert jobs[1].spec["params"] == {"lr": 0.1, "layers": 2}
    assert "sweep" not in jobs[1].spec
    assert [job.hold_reason for job in jobs] == ["", "", *[HoldReason.GROUP] * 4]
    assert jobs[2].hold["detail"] == f"waits for its turn: sweep {found['id']} runs at most 2 members at once"
    (event,) = Event.objects.filter(tenant_id=world.vision.pk)
    assert (event.kind, event.job_id, event.data["members"]) == ("sweep.submitted", None, 6)


def test_a_member_names_its_sweep_and_its_parameters(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client)
    members = client.get(f"{SWEEPS}/{found['id']}/members").json()["results"]
    one = client.get(f"/api/v1/jobs/{members[0]['job']}").json()
    group = {
        "id": found["id"],
        "kind": "sweep",
        "name": "lr-search",
        "state": "active",
        "member": 1,
        "index": None,
        "members": 6,
    }
    assert one["group"] == group | {"progress": None}
    assert one["params"] == {"lr": 0.1, "layers": 1} == members[0]["params"]
    (event,) = client.get(f"/api/v1/jobs/{members[4]['job']}/events").json()["results"]
    assert (event["kind"], event["actor"]) == ("job.submitted", "olivia")
    assert event["data"] == {"sweep": found["id"], "member": 5}
    listed = client.get("/api/v1/jobs?search=lr-search").json()["results"]
    assert {job["group"]["member"] for job in listed} == {1, 2, 3, 4, 5, 6}
    assert {job["params"]["lr"] for job in listed} == {0.1, 0.01, 0.001}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no sweep", {"name": "x", "command": "x"}, "sweep"),
    ("a sweep that is a list", spec() | {"sweep": [1]}, "sweep"),
    ("no metric", spec({key: GRID[key] for key in ("method", "params")}), "sweep.metric"),
    ("an unknown key", spec(GRID | {"metrik": "loss"}), "sweep.metrik"),
    ("an unknown key of rungs", spec(ASHA | {"rungs": {"first": 1, "last": 9, "keeps": 2}}), "sweep.rungs.keeps"),
    ("an unknown method", spec(GRID | {"method": "bayes"}), "sweep.method"),
    ("no parameters", spec(GRID | {"params": {}}), "sweep.params"),
    ("a million points", spec(GRID | {"params": {"a": {"int": [1, 1000]}, "b": {"int": [1, 1000]}}}), "sweep.params"),
    ("a range in a grid", spec(GRID | {"params": {"lr": {"log": [0.1, 1.0]}}}), "sweep.params.lr"),
    ("a grid with a number of members", spec(GRID | {"members": 3}), "sweep.members"),
    ("a random sweep without it", spec(GRID | {"method": "random"}), "sweep.members"),
    ("too many members", spec(ASHA | {"members": 1001}), "sweep.members"),
    ("asha without rungs", spec({key: ASHA[key] for key in ASHA if key != "rungs"}), "sweep.rungs"),
    ("rungs of a random sweep", spec(ASHA | {"method": "random"}), "sweep.rungs"),
    ("rungs that go down", spec(ASHA | {"rungs": {"first": 9, "last": 3}}), "sweep.rungs.last"),
    ("halving without checkpoints", spec(ASHA | {"method": "halving"}), "checkpoint"),
    ("a parameter that env has", spec(env={"lr": 1}), "sweep.params.lr"),
    ("a parameter of the platform", spec(GRID | {"params": {"RANK": [1]}}), "sweep.params"),
    ("parameters of a job", spec(params={"lr": 1}), "params"),
    ("a screening", spec(screening="always"), "screening"),
    ("a wrong key of the job", spec(nodes=0), "nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_wrong_with_a_sweep_is_named(body: dict[str, Any], field: str, world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", SWEEPS, body)
    assert answer.status_code == 422
    assert field in fields_of(answer)
    assert not JobGroup.objects.exists()
    assert not Job.objects.filter(group__isnull=False).exists()


def test_a_sweep_is_no_job(world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", "/api/v1/jobs", spec())
    assert answer.status_code == 422
    assert "POST /api/v1/sweeps" in answer.json()["detail"]
    assert fields_of(answer) == ["sweep"]


def test_a_dry_run_of_a_sweep_tells_of_its_first_member_and_checks_all_of_it(world: World, api: Api) -> None:
    client = api(world.owner)
    answer = send(client, "POST", "/api/v1/jobs:dry-run", spec())
    require_described("POST", "/api/v1/jobs:dry-run", answer)
    assert answer.json()["spec"]["params"] == {"lr": 0.1, "layers": 1}
    begun = send(client, "POST", "/api/v1/jobs:dry-run", spec({"method": "random", "members": 16}))
    assert {one["field"]: one["message"] for one in begun.json()["errors"]} == {
        "sweep.metric": "write the name of a figure that members report, such as val_loss",
        "sweep.params": "name at least one parameter and its values, such as {lr: [0.1, 0.01]}",
    }
    assert not JobGroup.objects.exists()


@pytest.mark.parametrize(
    ("command", "env", "unused"),
    [
        ("train ${lr} $layers", {}, None),
        ("train $LR", {"LR": "${lr}", "DEPTH": "$layers"}, None),
        ("python -c \"import os; f(os.environ['lr'], os.environ['layers'])\"", {}, None),
        ("train --lr 0.1 $layers_all", {}, "lr and layers"),
        ("train $lr", {}, "layers"),
    ],
)
def test_a_parameter_that_the_command_does_not_use_is_told_before_and_after(
    command: str, env: dict[str, str], unused: str | None, world: World, api: Api
) -> None:
    for path in ("/api/v1/jobs:dry-run", SWEEPS):
        notes = send(api(world.owner), "POST", path, spec(command=command, env=env)).json()["notes"]
        told = [note.partition(":")[0] for note in notes if note.startswith("Neither")]
        assert told == ([] if unused is None else [f"Neither its command nor env uses {unused}"])


def test_a_key_stores_one_sweep(world: World, api: Api) -> None:
    client = api(world.owner)
    first = send(client, "POST", SWEEPS, spec(), Idempotency_Key="one")
    again = send(client, "POST", SWEEPS, spec(), Idempotency_Key="one")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert send(client, "POST", SWEEPS, spec(gpus=2), Idempotency_Key="one").status_code == 409


def test_a_sweep_costs_as_much_as_its_members(world: World, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SUBMIT", Bucket("tiny", per_s=0.1, burst=13))
    client = api(world.owner)
    found = submitted(client)
    assert send(client, "POST", f"{SWEEPS}/{found['id']}:clone", {}).status_code == 201
    assert send(client, "POST", SWEEPS, spec()).status_code == 429


def test_cancelling_ends_all_members_that_wait(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client)
    answer = client.post(f"{SWEEPS}/{found['id']}:cancel")
    require_described("POST", f"{SWEEPS}/{{sweep_id}}:cancel", answer)
    assert answer.json()["state"] == GroupState.CANCELLED
    assert answer.json()["members"]["cancelled"] == 6
    assert set(Job.objects.filter(group=found["id"]).values_list("state", flat=True)) == {JobState.CANCELLED}
    assert client.post(f"{SWEEPS}/{found['id']}:cancel").status_code == 202


def test_a_retry_queues_the_failed_members_and_requeue_one_of_them(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client)
    path, ended = f"{SWEEPS}/{found['id']}:retry", {"state": JobState.FAILED, "hold_reason": "", "ended_at": Now()}
    assert client.post(path).status_code == 409
    Job.objects.filter(group=found["id"], member__lte=3).update(**ended)
    answer = client.post(path)
    require_described("POST", path.replace(str(found["id"]), "{sweep_id}"), answer)
    assert (answer.status_code, answer.json()["retried"], answer.json()["members"]["waiting"]) == (202, 3, 6)
    Job.objects.filter(group=found["id"], member=4).update(**ended)
    one = Job.objects.get(group=found["id"], member=4)
    assert client.post(f"/api/v1/jobs/{one.pk}:requeue").json()["state"] == JobState.QUEUED
    alone = make_job(world.vc, world.owner, state=JobState.FAILED)
    assert "muster clone" in client.post(f"/api/v1/jobs/{alone.pk}:requeue").json()["detail"]
    assert api(world.stranger).post(path).status_code == 404
    assert api(world.peer).post(path).status_code == 403


def test_a_clone_changes_keys_of_the_sweep(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, sweep=ASHA)
    changes = {"spec": {"priority": "low", "sweep": {"members": 9, "goal": "max"}}}
    answer = send(client, "POST", f"{SWEEPS}/{found['id']}:clone", changes)
    assert answer.status_code == 201, answer.content
    require_described("POST", f"{SWEEPS}/{{sweep_id}}:clone", answer)
    clone = answer.json()
    assert (clone["cloned_from"], clone["members"]["total"], clone["goal"]) == (found["id"], 9, "max")
    assert clone["spec"]["priority"] == "low"
    drawn = [Job.objects.get(group=one["id"], member=9).spec["params"] for one in (found, clone)]
    assert drawn[0] == drawn[1]


def test_a_sweep_shows_its_best_member_and_what_it_saved(world: World, api: Api) -> None:
    client = api(world.owner)
    found = submitted(client, sweep=ASHA)
    jobs = list(Job.objects.filter(group=found["id"]).order_by("member"))
    values = [
        (0.5, 27.0, [[1, 0.5], [2, 0.5], [3, 0.5]], False),
        (0.8, 9.0, [[2, 0.8], [3, 0.8]], True),
        (None, 1.0, [], False),
    ]
    for job, (value, step, readings, stopped) in zip(jobs, values, strict=False):
        Trial.objects.create(
            job=job,
            value=value,
            value_step=step,
            score=value,
            step=step,
            readings=readings,
            stopped_at=job.submitted_at if stopped else None,
            saved_gpu_s=7200 if stopped else 0,
        )
    answer = client.get(f"{SWEEPS}/{found['id']}")
    require_described("GET", f"{SWEEPS}/{{sweep_id}}", answer)
    shown = answer.json()
    assert shown["best"] == {"job": jobs[0].pk, "member": 1, "params": jobs[0].params, "value": 0.5, "step": 27}
    assert shown["saved_gpu_hours"] == 2
    assert shown["rungs"] == [
        {"steps": 3, "reached": 2, "kept": 1},
        {"steps": 9, "reached": 1, "kept": 1},
        {"steps": 27, "reached": 1, "kept": 1},
    ]
    answer = client.get(f"{SWEEPS}/{found['id']}/members")
    require_described("GET", f"{SWEEPS}/{{sweep_id}}/members", answer)
    assert [(one["value"], one["rung"]) for one in answer.json()["results"][:3]] == [(0.5, 3), (0.8, 2), (None, 0)]


def test_the_list_shows_sweeps_of_the_own_tenants_by_state_and_page(world: World, api: Api) -> None:
    client = api(world.owner)
    ids = [submitted(client)["id"] for _ in range(3)]
    client.post(f"{SWEEPS}/{ids[0]}:cancel")
    answer = client.get(f"{SWEEPS}?limit=2")
    require_described("GET", SWEEPS, answer)
    assert [one["id"] for one in answer.json()["results"]] == ids[:0:-1]
    following = client.get(f"{SWEEPS}?limit=2&cursor={answer.json()['next']}").json()
    assert ([one["id"] for one in following["results"]], following["next"]) == ([ids[0]], None)
    assert [one["id"] for one in client.get(f"{SWEEPS}?state=cancelled").json()["results"]] == [ids[0]]
    assert api(world.peer).get(f"{SWEEPS}?mine=1").json()["results"] == []
    assert api(world.stranger).get(SWEEPS).json()["results"] == []
    assert api(world.stranger).get(f"{SWEEPS}/{ids[0]}").status_code == 404
