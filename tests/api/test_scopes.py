"""Scopes of tokens, and of tokens that are made by tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone
from rest_framework.permissions import SAFE_METHODS
from starlette.routing import Route

from muster.accounts.models import ApiToken, User
from muster.accounts.scopes import Scope
from muster.api.scopes import HasScope, scope_of
from muster.api.streaming.access import Authorised
from muster.api.urls import v1
from muster.asgi import _site as site
from tests.api.asking import openapi, problem_of, require_described, send, submit
from tests.api.conftest import World
from tests.factories import make_job, make_token

JOBS, TOKENS = "/api/v1/jobs", "/api/v1/tokens"
# They read no token: signing in, what says whether the service runs, and the documentation of REST.
OPEN_VIEWS = {"Login", "Alive", "Ready", "SpectacularAPIView", "SpectacularSwaggerSplitView"}
# They are opened by the shell's own token, which opens one shell.
SHELL_PATHS = {"/api/v1/shells/{shell_id}/output", "/api/v1/shells/{shell_id}/input", "/api/v1/shells/{shell_id}:close"}


def with_scopes(user: User, *scopes: Scope) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_token(user, scopes=scopes)}"})


def patterns(resolver: Any = None) -> Iterator[URLPattern]:
    for one in (resolver or get_resolver()).url_patterns:
        if isinstance(one, URLResolver):
            yield from patterns(one)
        else:
            yield one


def unsafe_calls() -> list[Any]:
    """Every method of the API that changes something, with its path and the scope that it needs."""
    calls = []
    for pattern in v1:
        view = pattern.callback.cls(**pattern.callback.view_initkwargs)  # type: ignore[attr-defined]
        path = "/api/v1/" + re.sub("<id:[a-z_]+>", "1", str(pattern.pattern)).replace("<name:name>", "gpu01")
        methods = [method for method in view.allowed_methods if method not in SAFE_METHODS]
        if type(view).__name__ not in OPEN_VIEWS:
            calls += [pytest.param(one, path, scope_of(view, one), id=f"{one} {path}") for one in methods]
    return calls


class TestEveryEndpoint:
    @pytest.mark.parametrize(("method", "path", "scope"), unsafe_calls())
    def test_that_changes_something_is_closed_to_a_token_that_only_reads(
        self, method: str, path: str, scope: Scope | None, world: World
    ) -> None:
        assert scope is not None
        answer = send(with_scopes(world.operator, Scope.READ), method, path, {})
        assert (answer.status_code, problem_of(answer)["type"]) == (403, "about:blank#missing-scope")
        assert f"the scope {scope}," in problem_of(answer)["detail"]

    def test_of_django_asks_for_a_scope(self) -> None:
        views = {view for one in patterns() if (view := getattr(one.callback, "cls", None))}
        without = {view.__name__ for view in views if HasScope not in view.permission_classes}
        assert without <= OPEN_VIEWS
        assert len(views) > 40

    def test_of_the_asynchronous_side_asks_for_a_scope(self) -> None:
        routes = [one for one in site.routes if isinstance(one, Route) and one.path.startswith("/api/")]
        found = {re.sub(":int", "", one.path): one.app for one in routes}
        assert set(found) > SHELL_PATHS
        for path in set(found) - SHELL_PATHS:
            app = found[path]
            assert isinstance(app, Authorised), path
            for operation in openapi()["paths"][path].values():
                assert operation["security"][0] == {"token": [app.scope]}

    def test_of_a_path_without_a_declared_scope_is_closed_to_tokens(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pattern = next(one for one in v1 if str(one.pattern) == "tokens")
        monkeypatch.setitem(pattern.callback.view_initkwargs, "write_scope", None)  # type: ignore[attr-defined]
        answer = send(with_scopes(world.operator, *Scope), "POST", TOKENS, {"name": "new"})
        assert (answer.status_code, problem_of(answer)["type"]) == (403, "about:blank#missing-scope")

    def test_tells_its_scope_in_the_openapi_document(self) -> None:
        paths = openapi()["paths"]
        assert paths[JOBS]["get"]["security"][0] == {"token": ["read"]}
        assert paths[JOBS]["post"]["security"][0] == {"token": ["submit"]}
        assert paths["/api/v1/nodes/{name}"]["patch"]["security"][0] == {"token": ["admin"]}


class TestOfOneToken:
    def test_reads_and_submits_nothing(self, world: World) -> None:
        reader = with_scopes(world.owner, Scope.READ)
        assert reader.get(JOBS).status_code == 200
        refused = submit(reader)
        assert refused.status_code == 403
        require_described("POST", JOBS, refused)
        assert problem_of(refused)["detail"].startswith("this needs a token with the scope submit, and yours has: read")

    def test_submits_and_cancels_own_jobs(self, world: World) -> None:
        client = with_scopes(world.owner, Scope.SUBMIT)
        job = submit(client)
        assert job.status_code == 201
        assert send(client, "POST", f"{JOBS}/{job.json()['id']}:cancel").status_code == 202

    @pytest.mark.parametrize(("method", "act"), [("POST", ":cancel"), ("POST", ":requeue"), ("PATCH", "")])
    def test_a_managers_token_needs_manage_for_a_members_job(self, world: World, method: str, act: str) -> None:
        path, body = f"{JOBS}/{world.waiting.pk}{act}", {"name": "better"} if method == "PATCH" else None
        refused = send(with_scopes(world.manager, Scope.SUBMIT), method, path, body)
        assert (refused.status_code, "manage" in problem_of(refused)["detail"]) == (403, True)
        both = with_scopes(world.manager, Scope.SUBMIT, Scope.MANAGE)
        assert send(both, method, path, body).status_code in {200, 202}

    def test_no_scope_gives_a_role(self, world: World) -> None:
        member = with_scopes(world.peer, *Scope)
        body = {"action": "drain", "reason": "fans"}
        assert send(member, "PATCH", "/api/v1/nodes/gpu01", body).status_code == 403
        assert send(member, "POST", f"{JOBS}/{world.waiting.pk}:cancel").status_code == 403

    def test_a_session_needs_no_scope(self, world: World, client: Client) -> None:
        client.force_login(world.operator)
        body = {"action": "cordon", "reason": "fans"}
        assert send(client, "PATCH", "/api/v1/nodes/gpu01", body).status_code == 200


class TestATokenMadeByAToken:
    @pytest.mark.parametrize(
        ("has", "asks", "field"),
        [
            ({"scopes": ["submit"]}, {"scopes": ["submit", "admin"]}, "scopes"),
            ({"scopes": ["submit"]}, {"scopes": ["manage"]}, "scopes"),
            ({"hours": 1}, {"expires_in": "2h"}, "expires_in"),
            ({"hours": 1}, {"expires_in": "30d"}, "expires_in"),
            ({}, {"survives_password_change": True}, "survives_password_change"),
        ],
    )
    def test_cannot_have_more_than_its_maker(
        self, has: dict[str, Any], asks: dict[str, Any], field: str, world: World
    ) -> None:
        client = with_scopes(world.operator, *(Scope(name) for name in has.get("scopes", Scope)))
        ApiToken.objects.update(expires_at=timezone.now() + timedelta(hours=has.get("hours", 24 * 90)))
        refused = send(client, "POST", TOKENS, {"name": "stronger", **asks})
        require_described("POST", TOKENS, refused)
        assert (refused.status_code, [one["field"] for one in problem_of(refused)["errors"]]) == (422, [field])
        assert not ApiToken.objects.filter(name="stronger").exists()

    def test_ends_no_later_than_its_maker(self, world: World) -> None:
        client = with_scopes(world.owner, *Scope)
        maker = ApiToken.objects.get()
        made = send(client, "POST", TOKENS, {"name": "child"})
        assert made.status_code == 201
        assert ApiToken.objects.get(name="child").expires_at == maker.expires_at

    def test_has_read_and_submit_unless_it_asks_for_others(self, world: World) -> None:
        client = with_scopes(world.owner, *Scope)
        assert send(client, "POST", TOKENS, {"name": "usual"}).json()["scopes"] == ["read", "submit"]
        asked = send(client, "POST", TOKENS, {"name": "wide", "scopes": ["admin", "manage"]})
        assert asked.json()["scopes"] == ["read", "manage", "admin"]
        require_described("GET", TOKENS, client.get(TOKENS))

    @pytest.mark.parametrize("scopes", [[], ["root"], "read", {"read": True}, [["read"]]])
    def test_with_scopes_that_are_none_is_refused(self, scopes: Any, world: World) -> None:
        answer = send(with_scopes(world.owner, *Scope), "POST", TOKENS, {"name": "x", "scopes": scopes})
        assert answer.status_code == 422
        assert problem_of(answer)["errors"][0]["field"].startswith("scopes")


def test_a_job_of_another_tenant_stays_hidden_from_every_scope(world: World) -> None:
    job = make_job(world.other_vc, world.stranger, name="hidden")
    for scopes in ([Scope.SUBMIT], list(Scope)):
        assert send(with_scopes(world.manager, *scopes), "POST", f"{JOBS}/{job.pk}:cancel").status_code == 404
