"""Health, figures, errors, and the pages around the API."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db import DatabaseError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client
from pytest_django import Settings

from muster.accounts.models import User
from muster.api import limits
from muster.api.fleet import render
from muster.api.service import views as service
from muster.dispatch.models import Cycle
from tests.api.asking import problem_of, require_described, send, submit
from tests.api.conftest import World

Api = Callable[[User | None], Client]


@pytest.fixture
def without_redis(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Redis that does not answer."""
    gone = redis.Redis.from_url("unix:///nowhere/valkey.sock")
    monkeypatch.setattr(service, "client", lambda: gone)
    monkeypatch.setattr(limits, "client", lambda: gone)
    monkeypatch.setattr(limits._Health, "broken_until", 0.0)
    yield
    gone.close()


@contextmanager
def no_postgres() -> Iterator[None]:
    """A Postgres that cannot be reached, for as long as the block runs."""

    def refuse(self: BaseDatabaseWrapper, *args: Any) -> None:
        raise OperationalError("connection to server on socket /secret/place failed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "cursor", refuse)
        # The probe closes a connection that failed; here that would end the transaction of the test.
        patch.setattr(BaseDatabaseWrapper, "close", lambda self: None)
        yield


def test_the_process_is_healthy_whatever_else_is_down(without_redis: None, db: None, client: Client) -> None:
    with no_postgres():
        answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    require_described("GET", "/healthz", answer)


def test_with_both_it_is_ready(db: None, client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "postgres": "up", "redis": "up"}


def test_without_redis_it_is_ready_and_says_that_it_is_degraded(without_redis: None, db: None, client: Client) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "degraded", "postgres": "up", "redis": "down"}
    require_described("GET", "/readyz", answer)


def test_without_postgres_it_is_not_ready(db: None, client: Client) -> None:
    with no_postgres():
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "postgres": "down", "redis": "up"}
    require_described("GET", "/readyz", answer)


def test_jobs_are_taken_without_redis(without_redis: None, world: World, api: Api) -> None:
    assert submit(api(world.owner)).status_code == 201


def test_without_postgres_a_request_is_to_be_sent_again(
    world: World, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    client = api(world.owner)
    with no_postgres():
        answer = submit(client)
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    require_described("POST", "/api/v1/jobs", answer)
    assert "/secret/place" not in answer.content.decode()
    assert "request_failed" in caplog.text


def test_a_session_without_postgres_is_to_be_sent_again_too(world: World, client: Client) -> None:
    client.force_login(world.owner)
    with no_postgres():
        answer = client.get("/api/v1/me")
    assert answer.status_code == 503
    assert problem_of(answer)["type"] == "about:blank#unavailable"


@pytest.mark.parametrize(
    "error", [RuntimeError("secret sauce"), DatabaseError("secret sauce"), KeyError("secret sauce")]
)
def test_what_breaks_inside_is_logged_and_not_told(
    error: Exception, world: World, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise error

    monkeypatch.setattr(render, "pool_list", broken)
    with caplog.at_level(logging.ERROR):
        answer = api(world.owner).get("/api/v1/pools")
    assert answer.status_code == 500
    assert "secret sauce" not in answer.content.decode()
    assert problem_of(answer)["type"] == "about:blank#internal"
    assert "secret sauce" in caplog.text


@pytest.mark.parametrize(
    "path",
    ["/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v2/jobs", "/agent/v1/nothing", "/api/v1/jobs/"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_that_there_is_not_is_a_problem(method: str, path: str, db: None) -> None:
    answer = send(Client(enforce_csrf_checks=True), method, path)
    assert answer.status_code == 404
    assert problem_of(answer)["type"] == "about:blank#not-found"


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "jobs"), ("PUT", "me"), ("OPTIONS", "jobs"), ("GET", "logout")]
)
def test_a_method_that_a_path_does_not_know_is_a_problem(method: str, path: str, world: World, api: Api) -> None:
    answer = send(api(world.owner), method, f"/api/v1/{path}")
    assert answer.status_code == 405
    assert problem_of(answer)["type"] == "about:blank#method-not-allowed"
    assert answer.headers["Allow"]


def test_an_answer_is_json_whatever_is_accepted(world: World, api: Api) -> None:
    answer = api(world.owner).get("/api/v1/me", headers={"Accept": "text/html"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"


def test_another_host_is_not_answered_for(db: None, client: Client) -> None:
    answer = client.get("/api/v1/me", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert problem_of(answer)["type"] == "about:blank#bad-request"


class TestFigures:
    """/metrics."""

    def test_they_tell_of_jobs_gpus_nodes_and_cycles(self, world: World, client: Client, settings: Settings) -> None:
        settings.METRICS_TOKEN = "sesame"
        for number in range(10):
            Cycle.objects.create(pool=world.pool, trigger="sweep", snapshot_ms=1, decide_ms=number, apply_ms=0)
        text = client.get("/metrics", headers={"Authorization": "Bearer sesame"}).content.decode()
        assert 'muster_jobs{pool="main",state="queued"} 2.0' in text
        assert 'muster_jobs{pool="main",state="active"} 1.0' in text
        assert 'muster_gpus{pool="main",type="A100"} 4.0' in text
        assert 'muster_gpus_claimed{pool="main",type="A100"} 2.0' in text
        assert 'muster_nodes{admin="active",health="ready",pool="main"} 1.0' in text
        assert 'muster_cycle_duration_seconds{pool="main",quantile="0.5"} 0.0055' in text
        assert 'muster_cycle_last_start_timestamp_seconds{pool="main"}' in text

    @pytest.mark.parametrize(
        ("authorization", "token", "status"),
        [
            ("Bearer sesame", "sesame", 200),
            ("Bearer sesam", "sesame", 401),
            ("Basic sesame", "sesame", 401),
            ("", "sesame", 401),
            ("Bearer ", "", 401),
            ("", "", 401),
        ],
    )
    def test_only_the_metrics_token_opens_them_whatever_the_callers_address(
        self, authorization: str, token: str, status: int, world: World, settings: Settings
    ) -> None:
        settings.METRICS_TOKEN = token
        answer = Client(REMOTE_ADDR="127.0.0.1").get("/metrics", headers={"Authorization": authorization})
        assert answer.status_code == status


class TestPages:
    """The built frontend."""

    @pytest.fixture(autouse=True)
    def _built(self, tmp_path: Path, settings: Settings) -> None:
        settings.FRONTEND_DIST = tmp_path
        (tmp_path / "assets").mkdir()
        (tmp_path / "index.html").write_text("<!doctype html><title>Muster</title>")
        (tmp_path / "assets" / "app-1a2b.js").write_text("console.log(1)\n" * 200)
        (tmp_path / "assets" / "font-1a2b.woff2").write_bytes(b"\x00" * 2000)
        (tmp_path / "favicon.svg").write_text("<svg/>")
        (tmp_path.parent / "secret.txt").write_text("hidden")

    @pytest.mark.parametrize(
        "path", ["/", "/jobs", "/jobs/1042", "/cluster/nodes/gpu01", "/index.html", "/administration"]
    )
    def test_every_path_of_the_application_is_its_page(self, path: str, client: Client) -> None:
        answer = client.get(path)
        assert answer.status_code == 200
        assert b"<title>Muster</title>" in answer.content
        assert answer.headers["Cache-Control"] == "no-cache"

    def test_an_asset_is_kept_for_ever_and_packed_for_who_can_unpack(self, client: Client) -> None:
        plain = client.get("/assets/app-1a2b.js")
        packed = client.get("/assets/app-1a2b.js", headers={"Accept-Encoding": "br, gzip"})
        assert "immutable" in plain.headers["Cache-Control"]
        assert plain.headers["Content-Type"].startswith("text/javascript")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.content) == plain.content
        assert len(packed.content) < len(plain.content)
        assert "Accept-Encoding" in plain.headers["Vary"]

    def test_what_is_packed_already_is_not_packed_again(self, client: Client) -> None:
        answer = client.get("/assets/font-1a2b.woff2", headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in answer.headers
        assert len(answer.content) == 2000

    def test_a_file_beside_the_page_is_served(self, client: Client) -> None:
        assert client.get("/favicon.svg").content == b"<svg/>"

    @pytest.mark.parametrize(
        "path", ["/assets/none.js", "/assets/../index.html", "/assets/..%2f..%2fsecret.txt", "/assets/", "/assets/.env"]
    )
    def test_nothing_else_is_served_as_an_asset(self, path: str, client: Client) -> None:
        answer = client.get(path)
        assert answer.status_code == 404
        assert b"hidden" not in answer.content

    @pytest.mark.parametrize("path", ["/..%2fsecret.txt", "/%2e%2e/secret.txt"])
    def test_nothing_outside_the_folder_is_served_as_a_page(self, path: str, client: Client) -> None:
        assert client.get(path).content != b"hidden"

    def test_a_page_cannot_be_posted_to(self, client: Client) -> None:
        assert client.post("/jobs").status_code == 405

    def test_a_new_build_is_served_at_once(self, client: Client, settings: Settings) -> None:
        client.get("/")
        (Path(settings.FRONTEND_DIST) / "index.html").write_text("<!doctype html><title>Next</title>")
        assert b"Next" in client.get("/").content

    def test_without_a_build_it_says_what_to_do(self, client: Client, settings: Settings, tmp_path: Path) -> None:
        settings.FRONTEND_DIST = tmp_path / "nowhere"
        answer = client.get("/jobs")
        assert answer.status_code == 503
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert b"not built" in answer.content
