"""Maintenance over REST: operators plan it and call it off, and all members see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from muster.accounts.models import User
from muster.events.models import AuditEntry
from muster.fleet.models import Node
from tests.api.asking import fields_of, problem_of, require_described, send
from tests.api.conftest import World

Api = Callable[[User | None], Client]
PATH = "/api/v1/maintenance"


def body(**changes: Any) -> dict[str, Any]:
    begins_at = timezone.now() + timedelta(hours=1)
    values = {"node": "gpu01", "begins_at": begins_at.isoformat(), "reason": "new driver", "running_jobs": "move"}
    return {**values, "ends_at": (begins_at + timedelta(hours=1)).isoformat(), **changes}


def test_an_operator_plans_it_everybody_sees_it_and_it_is_called_off(world: World, api: Api) -> None:
    operator, member = api(world.operator), api(world.owner)
    answer = send(operator, "POST", PATH, body())
    require_described("POST", PATH, answer)
    assert answer.status_code == 201
    planned = answer.json()
    assert (planned["node"], planned["pool"], planned["running_jobs"]) == ("gpu01", "main", "move")
    listed = member.get(PATH)
    require_described("GET", PATH, listed)
    assert listed.json()["results"] == [planned]
    node = member.get("/api/v1/nodes/gpu01")
    require_described("GET", "/api/v1/nodes/gpu01", node)
    assert node.json()["maintenance"] == [planned]
    one = f"{PATH}/{planned['id']}"
    assert problem_of(send(member, "DELETE", one))["status"] == 403
    assert fields_of(send(operator, "DELETE", f"{one}?reason=a%00b")) == ["reason"]
    removed = send(operator, "DELETE", f"{one}?reason=it%20came%20late")
    require_described("DELETE", one, removed)
    assert removed.status_code == 204
    assert AuditEntry.objects.get(action="call_off").after == {"why": "it came late"}
    assert member.get(PATH).json()["results"] == []
    assert problem_of(send(operator, "DELETE", one))["status"] == 404


def test_only_operators_plan_it(world: World, api: Api) -> None:
    for user in (world.owner, world.manager):
        assert problem_of(send(api(user), "POST", PATH, body()))["status"] == 403


def test_what_is_wrong_is_named(world: World, api: Api) -> None:
    operator = api(world.operator)
    past = (timezone.now() - timedelta(hours=2)).isoformat()
    assert fields_of(send(operator, "POST", PATH, body(ends_at=past))) == ["ends_at"]
    assert fields_of(send(operator, "POST", PATH, body(begins_at="soon"))) == ["begins_at"]
    assert fields_of(send(operator, "POST", PATH, body(running_jobs="kill"))) == ["running_jobs"]
    assert fields_of(send(operator, "POST", PATH, body(pool="main"))) == ["node"]
    assert problem_of(send(operator, "POST", PATH, body(node="none")))["status"] == 404
    assert send(operator, "POST", PATH, body()).status_code == 201
    assert problem_of(send(operator, "POST", PATH, body(running_jobs="wait")))["status"] == 409


def test_an_operator_moves_jobs_off_a_node_having_read_which(world: World, api: Api) -> None:
    path = "/api/v1/nodes/gpu01"
    named = api(world.operator).get(path)
    require_described("GET", path, named)
    assert named.json()["running_jobs"] == [
        {
            "id": world.running.pk,
            "name": "running",
            "owner": "olivia",
            "tenant": "vision",
            "gpus": 2,
            "nodes": 1,
            "preemptible": True,
        }
    ]
    assert api(world.stranger).get(path).json()["running_jobs"] == []
    answer = send(api(world.operator), "PATCH", path, {"action": "move-off", "reason": "fan"})
    require_described("PATCH", path, answer)
    assert answer.json()["admin"] == "draining"
    assert Node.objects.get(name="gpu01").moves_jobs_off
