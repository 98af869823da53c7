"""Registries of images, as the command line stores their credentials."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.unit.client.fake_server import FakeServer, Run

STORED = {
    "id": 3,
    "tenant": "vision",
    "registry": "ghcr.io",
    "username": "robot",
    "changed_at": "2026-11-21T00:00:00Z",
    "changed_by": "mary",
}


@pytest.mark.parametrize(
    ("typed", "password"), [("s3cret\n", "s3cret"), ("s3cret", "s3cret"), ('{"a":\n"b"}\n', '{"a":\n"b"}')]
)
def test_a_password_comes_from_standard_input_and_is_printed_nowhere(
    server: FakeServer, run: Run, typed: str, password: str
) -> None:
    server.on("POST /registries", httpx.Response(200, json=STORED))
    result = run("registry", "add", "ghcr.io", "--user", "robot", "--tenant", "vision", stdin=typed)
    assert result.stdout == "Jobs of vision sign in at ghcr.io as robot.\n"
    assert password not in result.stdout + result.stderr
    sent = json.loads(server.sent("POST /registries")[0].content)
    assert sent == {"registry": "ghcr.io", "username": "robot", "password": password, "tenant": "vision"}


def test_without_a_password_nothing_is_sent(server: FakeServer, run: Run) -> None:
    result = run("registry", "add", "ghcr.io", "--user", "robot", stdin="")
    assert result.exit_code == 2
    assert "no password" in result.stderr


def test_registries_are_listed(server: FakeServer, run: Run) -> None:
    server.on("GET /registries", httpx.Response(200, json={"results": [STORED], "next": None}))
    table = run("registry", "ls").stdout
    assert all(word in table for word in ("ghcr.io", "vision", "robot", "mary"))


def test_one_is_removed_by_its_name(server: FakeServer, run: Run) -> None:
    server.on("GET /registries", httpx.Response(200, json={"results": [STORED], "next": None}))
    server.on("DELETE /registries/3", httpx.Response(204))
    assert run("registry", "rm", "GHCR.io").stdout == "vision has no credentials for ghcr.io any more.\n"
    assert len(server.sent("DELETE /registries/3")) == 1


def test_of_several_tenants_one_has_to_be_named(server: FakeServer, run: Run) -> None:
    other = {**STORED, "id": 4, "tenant": "speech"}
    server.on("GET /registries", httpx.Response(200, json={"results": [other, STORED], "next": None}))
    server.on("DELETE /registries/4", httpx.Response(204))
    result = run("registry", "rm", "ghcr.io")
    assert (result.exit_code, "speech, vision" in result.stderr) == (2, True)
    assert run("registry", "rm", "ghcr.io", "--tenant", "speech").exit_code == 0
    assert run("registry", "rm", "docker.io").exit_code == 4
