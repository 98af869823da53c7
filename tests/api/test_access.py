"""Permissions: every path against every part a caller can have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from muster.accounts.models import Session, User
from muster.api.urls import v1
from muster.arrays.services import submit_array
from muster.notices.webhooks import add_webhook
from muster.sweeps.services import submit_sweep
from muster.tenants.roles import Role
from muster.tenants.services import add_member
from tests.api.asking import problem_of, require_described, send
from tests.api.conftest import World

SPEC = {"command": "true", "gpus": 1}
SWEEP = {"method": "grid", "metric": "loss", "params": {"lr": [0.1, 0.01]}}
ROLES = ("anonymous", "owner", "peer", "manager", "operator", "stranger")

# method, path, body, then the status for each of ROLES. {job} is olivia's, in tenant vision; stan is a stranger to it.
TABLE: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("GET", "/me", None, (401, 200, 200, 200, 200, 200)),
    # No user here has a known password.
    ("PATCH", "/me", {"email": "new@example.org", "current": "?"}, (401, 422, 422, 422, 422, 422)),
    ("POST", "/logout", None, (401, 204, 204, 204, 204, 204)),
    ("POST", "/password", {"current": "?", "new": "another-password-2"}, (401, 422, 422, 422, 422, 422)),
    ("GET", "/tokens", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/tokens", {"name": "new"}, (401, 201, 201, 201, 201, 201)),
    ("PATCH", "/tokens/{token}", {"survives_password_change": False}, (401, 200, 404, 404, 404, 404)),
    ("DELETE", "/tokens/{token}", None, (401, 204, 404, 404, 404, 404)),
    ("GET", "/sessions", None, (401, 200, 200, 200, 200, 200)),
    ("DELETE", "/sessions", None, (401, 204, 204, 204, 204, 204)),
    ("DELETE", "/sessions/{session}", None, (401, 204, 404, 404, 404, 404)),
    ("GET", "/me/notifications", None, (401, 200, 200, 200, 200, 200)),
    ("PATCH", "/me/notifications", {"mail": []}, (401, 200, 200, 200, 200, 200)),
    ("GET", "/webhooks", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/webhooks", {"url": "https://new.example.org/"}, (401, 201, 201, 201, 201, 201)),
    ("GET", "/webhooks/{webhook}", None, (401, 200, 404, 404, 404, 404)),
    ("POST", "/webhooks/{webhook}:test", None, (401, 202, 404, 404, 404, 404)),
    ("DELETE", "/webhooks/{webhook}", None, (401, 204, 404, 404, 404, 404)),
    ("GET", "/jobs", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/jobs", SPEC, (401, 201, 201, 201, 422, 201)),
    ("POST", "/jobs", {**SPEC, "vc": "vision-vc"}, (401, 201, 201, 201, 201, 422)),
    ("POST", "/jobs", {**SPEC, "priority": "high"}, (401, 422, 422, 201, 422, 422)),
    ("GET", "/jobs:count", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/jobs:cancel", {"tag": ["project:seg"]}, (401, 202, 202, 202, 202, 202)),
    ("POST", "/jobs:batch", {"jobs": [SPEC]}, (401, 201, 201, 201, 201, 201)),
    ("POST", "/jobs:dry-run", {**SPEC, "vc": "vision-vc"}, (401, 200, 200, 200, 200, 422)),
    ("POST", "/sbatch:translate", {"options": ["--wrap=true", "-Avision"]}, (401, 200, 200, 200, 200, 422)),
    ("POST", "/slurm/sbatch", {"arguments": ["--wrap=true"]}, (401, 200, 200, 200, 200, 200)),
    ("POST", "/slurm/squeue", {"arguments": ["-h"]}, (401, 200, 200, 200, 200, 200)),
    ("GET", "/jobs/{job}", None, (401, 200, 200, 200, 200, 404)),
    ("PATCH", "/jobs/{job}", {"name": "better"}, (401, 200, 403, 200, 200, 404)),
    ("POST", "/jobs/{job}:cancel", None, (401, 202, 403, 202, 202, 404)),
    ("POST", "/jobs/{job}:requeue", None, (401, 202, 403, 202, 202, 404)),
    ("POST", "/jobs/{job}:clone", {}, (401, 201, 201, 201, 201, 404)),
    ("POST", "/jobs/{job}:hold", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/jobs/{job}:release", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/jobs/{job}:bump", None, (401, 403, 403, 200, 200, 404)),
    ("POST", "/jobs/{job}:unbump", None, (401, 403, 403, 200, 200, 404)),
    ("GET", "/jobs/{job}/why", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/when", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/delays", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/fairness", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/attempts", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/dependencies", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/jobs/{job}/events", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/arrays", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/arrays", {**SPEC, "vc": "vision-vc", "array": "0-1"}, (401, 201, 201, 201, 201, 422)),
    ("GET", "/arrays/{array}", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/arrays/{array}/members", None, (401, 200, 200, 200, 200, 404)),
    ("POST", "/arrays/{array}:cancel", {}, (401, 202, 403, 202, 202, 404)),
    ("POST", "/arrays/{array}:retry", {}, (401, 409, 403, 409, 409, 404)),
    ("POST", "/arrays/{array}:hold", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/arrays/{array}:release", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/arrays/{array}:clone", {}, (401, 201, 201, 201, 201, 404)),
    ("GET", "/sweeps", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/sweeps", {**SPEC, "vc": "vision-vc", "sweep": SWEEP}, (401, 201, 201, 201, 201, 422)),
    ("GET", "/sweeps/{sweep}", None, (401, 200, 200, 200, 200, 404)),
    ("GET", "/sweeps/{sweep}/members", None, (401, 200, 200, 200, 200, 404)),
    ("POST", "/sweeps/{sweep}:cancel", None, (401, 202, 403, 202, 202, 404)),
    ("POST", "/sweeps/{sweep}:hold", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/sweeps/{sweep}:release", None, (401, 200, 403, 200, 200, 404)),
    ("POST", "/sweeps/{sweep}:clone", {}, (401, 201, 201, 201, 201, 404)),
    # No user here has a framework, or a tenant with a role.
    ("GET", "/frameworks", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/frameworks", {"role": "research"}, (401, 404, 404, 404, 404, 404)),
    ("DELETE", "/frameworks/999999999", None, (401, 404, 404, 404, 404, 404)),
    ("GET", "/offers?wait=0", None, (401, 404, 404, 404, 404, 404)),
    ("POST", "/offers/999999999:accept", {"jobs": [{"spec": SPEC}]}, (401, 404, 404, 404, 404, 404)),
    ("POST", "/offers/999999999:decline", {}, (401, 404, 404, 404, 404, 404)),
    ("GET", "/vcs", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/vcs", {"name": "new", "tenant": "vision", "pool": "main"}, (401, 403, 403, 403, 201, 403)),
    ("GET", "/vcs/{vc}", None, (401, 200, 200, 200, 200, 404)),
    ("PATCH", "/vcs/{vc}", {"version": 1, "weight": 2}, (401, 403, 403, 200, 200, 404)),
    # Jobs of it run.
    ("DELETE", "/vcs/{vc}", None, (401, 403, 403, 403, 409, 403)),
    ("GET", "/tenants", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/tenants", {"name": "new"}, (401, 403, 403, 403, 201, 403)),
    ("GET", "/tenants/{tenant}", None, (401, 200, 200, 200, 200, 404)),
    ("PATCH", "/tenants/{tenant}", {"version": 1, "caps": []}, (401, 403, 403, 200, 200, 404)),
    ("GET", "/organisations", None, (401, 200, 200, 200, 200, 200)),
    ("POST", "/organisations", {"name": "new"}, (401, 403, 403, 403, 201, 403)),
    ("GET", "/organisations/999999999", None, (401, 404, 404, 404, 404, 404)),
    ("PATCH", "/organisations/999999999", {"version": 1}, (401, 403, 403, 403, 404, 403)),
    ("DELETE", "/organisations/999999999", None, (401, 403, 403, 403, 404, 403)),
    ("GET", "/vcs/{vc}/delays", None, (401, 200, 200, 200, 200, 404)),
    # The pool has another admission, so it has no cells.
    ("GET", "/vcs/{vc}/cells", None, (401, 409, 409, 409, 409, 404)),
    ("PUT", "/vcs/{vc}/cells", {"version": 1, "cells": {}}, (401, 403, 403, 403, 409, 404)),
    ("POST", "/vcs/{vc}/cells:preview", {"cells": {}}, (401, 403, 403, 403, 409, 404)),
    ("GET", "/pools/{pool}/cells", None, (401, 409, 409, 409, 409, 409)),
    ("GET", "/vcs/{vc}/queue", None, (401, 200, 200, 200, 200, 404)),
    # There is no second job: a user who may see the virtual cluster is told so.
    ("POST", "/vcs/{vc}/queue:reorder", {"jobs": [1, 2]}, (401, 422, 422, 422, 422, 404)),
    ("GET", "/pools", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/policies", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/slurm-table", None, (401, 403, 403, 403, 200, 403)),
    ("PUT", "/slurm-table", {"version": 0, "table": {}}, (401, 403, 403, 403, 200, 403)),
    ("GET", "/pools/{pool}/policy", None, (401, 403, 403, 403, 200, 403)),
    ("PUT", "/pools/{pool}/policy", {"policy": "fifo"}, (401, 403, 403, 403, 200, 403)),
    ("GET", "/pools/{pool}/decisions", None, (401, 403, 403, 403, 200, 403)),
    ("GET", "/pools/{pool}/fairness", None, (401, 403, 403, 403, 200, 403)),
    ("GET", "/nodes", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/nodes/gpu01", None, (401, 200, 200, 200, 200, 200)),
    ("PATCH", "/nodes/gpu01", {"action": "drain", "reason": "fans"}, (401, 403, 403, 403, 200, 403)),
    # The node answers, so operators may not declare it gone.
    ("POST", "/nodes/gpu01:declare-gone", {"reason": "burnt"}, (401, 403, 403, 403, 409, 403)),
    ("GET", "/maintenance", None, (401, 200, 200, 200, 200, 200)),
    (
        "POST",
        "/maintenance",
        {"node": "gpu01", "ends_at": "2100-01-01T00:00:00Z", "reason": "fans"},
        (401, 403, 403, 403, 201, 403),
    ),
    ("DELETE", "/maintenance/999999999", None, (401, 403, 403, 403, 404, 403)),
    ("GET", "/registries", None, (401, 200, 200, 200, 200, 200)),
    (
        "POST",
        "/registries",
        {"tenant": "vision", "registry": "ghcr.io", "username": "robot", "password": "secret"},
        (401, 403, 403, 200, 200, 404),
    ),
    ("DELETE", "/registries/999999999", None, (401, 404, 404, 404, 404, 404)),
    ("GET", "/volumes", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/usage", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/predictions/run-times", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/predictions/waits?pool={pool}", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/usage/delays", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/usage/fairness", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/usage/waste", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/usage/least-efficient", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/gpus", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/spec/schema", None, (401, 200, 200, 200, 200, 200)),
    ("GET", "/jobs/999999999", None, (401, 404, 404, 404, 404, 404)),
    ("GET", "/nodes/gpu99", None, (401, 404, 404, 404, 404, 404)),
]
WITHOUT_LOGIN = {"/api/v1/login"}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]} {row[1]} {row[2] or ''}")
def test_each_path_answers_each_caller_as_the_table_says(
    row: tuple[str, str, Any, tuple[int, ...]], world: World, api: Callable[[User | None], Client]
) -> None:
    method, path, body, statuses = row
    # The owner's client makes the token, so that there is one to revoke.
    token = api(world.owner).get("/api/v1/tokens").json()["results"][0]["id"]
    webhook = add_webhook(user=world.owner, url="https://hooks.example.org/")[0].pk
    sweep, _ = submit_sweep(user=world.owner, data={**SPEC, "vc": "vision-vc", "sweep": SWEEP})
    array, _ = submit_array(user=world.owner, data={**SPEC, "vc": "vision-vc", "array": "0-1"})
    Client().force_login(world.owner)
    session = Session.objects.get().pk
    path = "/api/v1" + path.format(
        job=world.waiting.pk,
        sweep=sweep.pk,
        array=array.pk,
        token=token,
        session=session,
        webhook=webhook,
        pool=world.waiting.pool.name,
        vc=world.vc.pk,
        tenant=world.vision.pk,
    )
    answered = {}
    for role in ROLES:
        with transaction.atomic():  # each caller finds the world as it was
            answer = send(api(None if role == "anonymous" else world.user(role)), method, path, body)
            transaction.set_rollback(True)
        require_described(method, path, answer)
        assert answer.status_code < 400 or problem_of(answer)["detail"]
        answered[role] = answer.status_code
    assert answered == dict(zip(ROLES, statuses, strict=True))


def test_the_table_names_every_path_of_the_api() -> None:
    named = {path.split("?")[0].split("{")[0].split("999")[0] for _, path, _, _ in TABLE}
    routes = {f"/{pattern.pattern}".split("<")[0] for pattern in v1}
    assert routes - {"/login"} <= named | {"/nodes/", "/slurm/"}


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/nodes"])
@pytest.mark.parametrize(
    "authorization",
    ["Bearer", "Bearer ", "Bearer wrong", "Bearer mst_" + "x" * 300, "bearer mst_\u00e9", "Bearer \x00", "Token x"],
)
def test_a_wrong_token_is_refused(path: str, authorization: str, world: World, client: Client) -> None:
    answer = client.get(path, headers={"Authorization": authorization})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert problem_of(answer)["type"] == "about:blank#unauthenticated"


def test_a_wrong_token_is_refused_even_with_a_good_session(world: World, client: Client) -> None:
    client.force_login(world.owner)
    assert client.get("/api/v1/me").status_code == 200
    assert client.get("/api/v1/me", headers={"Authorization": "Bearer wrong"}).status_code == 401


@pytest.mark.parametrize(
    "query", ["", "?tenant=vision", "?vc=vision-vc", "?owner=olivia", "?search=waiting", "?tag=project:seg"]
)
def test_no_filter_shows_another_tenants_jobs(query: str, world: World, api: Callable[[User | None], Client]) -> None:
    results = api(world.stranger).get(f"/api/v1/jobs{query}").json()["results"]
    assert {job["tenant"] for job in results} <= {"speech"}


def test_a_job_is_not_found_by_its_number_in_another_tenant(world: World, api: Callable[[User | None], Client]) -> None:
    found = api(world.stranger).get(f"/api/v1/jobs?search={world.waiting.pk}").json()["results"]
    assert found == []


def test_a_manager_of_one_tenant_is_no_manager_of_another(world: World, api: Callable[[User | None], Client]) -> None:
    add_member(tenant=world.speech, user=world.manager, role=Role.MEMBER, actor="test")
    assert send(api(world.manager), "POST", f"/api/v1/jobs/{world.others.pk}:cancel").status_code == 403


def test_a_job_goes_to_a_virtual_cluster_of_the_users_own(world: World, api: Callable[[User | None], Client]) -> None:
    assert send(api(world.stranger), "POST", "/api/v1/jobs", SPEC).json()["vc"] == "speech-vc"


def test_an_inactive_user_is_nobody(world: World, api: Callable[[User | None], Client], client: Client) -> None:
    by_token = api(world.owner)
    client.force_login(world.owner)
    User.objects.filter(pk=world.owner.pk).update(is_active=False)
    assert by_token.get("/api/v1/me").status_code == 401
    assert client.get("/api/v1/me").status_code == 401


def test_every_route_of_the_api_wants_a_login(client: Client, db: None) -> None:
    open_routes = set()
    for route in v1:
        path = "/api/v1/" + re.sub("<id:[a-z_]+>", "1", str(route.pattern)).replace("<name:name>", "gpu01")
        answers = [client.generic(method, path).status_code for method in ("GET", "POST", "PATCH", "DELETE")]
        if not set(answers) <= {401, 405}:
            open_routes.add(path)
    assert open_routes == WITHOUT_LOGIN
