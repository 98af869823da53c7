"""A key that a body should not have is refused, at every endpoint that reads a body."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from muster.accounts.models import ApiToken, User
from muster.arrays.services import submit_array
from muster.sweeps.services import submit_sweep
from muster.tenants.models import Organisation
from tests.api.asking import fields_of, openapi, problem_of, send
from tests.api.conftest import World
from tests.api.test_access import ROLES, SPEC, SWEEP, TABLE
from tests.factories import PASSWORD, make_user

Api = Callable[[User | None], Client]
WITH_BODY = [(method, path, body, statuses) for method, path, body, statuses in TABLE if isinstance(body, dict)]
WITH_BODY.append(("POST", "/jobs/{job}/shells", {}, (401, 422, 422, 422, 422, 404)))
# The bytes of shells and uploads: `tests/db/web/test_shells.py` has the former, and the latter is not an object.
ELSEWHERE = {"/shells/{}/input", "/uploads", "/login"}


def caller_of(statuses: tuple[int, ...]) -> str:
    """A part that gets as far as the body."""
    return next((role for role, status in zip(ROLES, statuses, strict=True) if status not in {401, 403, 404}), "owner")


@pytest.mark.parametrize("call", WITH_BODY, ids=lambda call: f"{call[0]} {call[1]} {call[2]}")
def test_an_unknown_key_is_named(
    call: tuple[str, str, dict[str, Any], tuple[int, ...]], world: World, api: Api
) -> None:
    method, path, body, statuses = call
    sweep, _ = submit_sweep(user=world.owner, data={**SPEC, "vc": "vision-vc", "sweep": SWEEP})
    array, _ = submit_array(user=world.owner, data={**SPEC, "vc": "vision-vc", "array": "0-1"})
    caller = world.user(caller_of(statuses))
    if path.startswith("/organisations/"):
        caller, path = world.operator, f"/organisations/{Organisation.objects.create(name='institute').pk}"
    ids = {"job": world.waiting.pk, "sweep": sweep.pk, "array": array.pk, "vc": world.vc.pk, "tenant": world.vision.pk}
    path = "/api/v1" + path.format(**ids, pool=world.pool.name, token=0, webhook=0)
    answer = send(api(caller), method, path, {**body, "no_such_key": 1})
    assert answer.status_code == 422, answer.content
    assert "no_such_key" in fields_of(answer)


def test_every_endpoint_that_reads_a_body_is_tried() -> None:
    reading = {
        (method.upper(), re.sub(r"\{[^}]+\}", "{}", path.removeprefix("/api/v1")))
        for path, operations in openapi()["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation
    }
    tried = {(method, re.sub(r"\{[^}]+\}|gpu01|squeue|999999999", "{}", path)) for method, path, _, _ in WITH_BODY}
    assert {call for call in reading if call[1] not in ELSEWHERE} <= tried


def test_signing_in_with_an_unknown_key_is_refused(world: World) -> None:
    make_user("ada", password=PASSWORD)
    answer = send(Client(), "POST", "/api/v1/login", {"username": "ada", "password": PASSWORD, "otp": "123456"})
    assert fields_of(answer) == ["otp"]


def test_the_nearest_known_key_is_named(world: World, api: Api) -> None:
    answer = send(api(world.owner), "POST", "/api/v1/tokens", {"name": "x", "scope": ["read"]})
    assert (answer.status_code, fields_of(answer)) == (422, ["scope"])
    assert problem_of(answer)["errors"][0]["message"] == "unknown key; did you mean 'scopes'?"
    assert not ApiToken.objects.filter(name="x").exists()


def test_a_key_inside_a_part_is_named_with_its_path(world: World, api: Api) -> None:
    body = {"jobs": [{"specs": {"command": "true"}}]}
    answer = send(api(world.owner), "POST", "/api/v1/offers/1:accept", body)
    assert fields_of(answer) == ["jobs.0.specs"]


# A stream reads its own parameters; signing in needs no session.
OTHERWISE = {"/api/v1/stream", "/api/v1/login"}


def reading() -> list[tuple[str, list[str]]]:
    """Each path without a variable part that is read by GET, and its query parameters."""
    found = []
    for path, operations in openapi()["paths"].items():
        if path.startswith("/api/v1/") and "get" in operations and "{" not in path and path not in OTHERWISE:
            described = operations["get"].get("parameters", [])
            found.append((path, [one["name"] for one in described if one["in"] == "query"]))
    return found


@pytest.mark.parametrize(("path", "known"), reading(), ids=str)
def test_an_unknown_query_parameter_is_named(path: str, known: list[str], world: World, api: Api) -> None:
    client = api(world.operator)
    answer = client.get(f"{path}?no_such_parameter=1")
    assert (answer.status_code, fields_of(answer)) == (422, ["no_such_parameter"])
    message = problem_of(answer)["errors"][0]["message"]
    assert all(name in message for name in known) or "did you mean" in message


def test_the_nearest_known_parameter_is_named(world: World, api: Api) -> None:
    answer = api(world.owner).get("/api/v1/jobs?states=queued")
    assert problem_of(answer)["errors"][0]["message"] == "unknown parameter; did you mean 'state'?"


def test_probes_may_add_parameters_to_the_health_paths(db: None) -> None:
    assert Client().get("/healthz?verbose=1").status_code == 200
