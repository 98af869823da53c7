"""A body that is refused before its end is answered, also to a client that sends all of it before it reads."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

import pytest

from muster.api.uploads import stream as upload_stream
from muster.common import lingering
from tests.db.agent_calls import Agent
from tests.db.stories import World
from tests.factories import make_token

pytestmark = pytest.mark.django_db(transaction=True)

# More than the buffers of a connection hold.
BODY = b"x" * (32 << 20)


def post(server: str, path: str, **headers: str) -> http.client.HTTPResponse:
    """The answer, read once the whole body is written, on a connection that ends with it."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)
    sent = {"Connection": "close", **{name.replace("_", "-"): value for name, value in headers.items()}}
    connection.request("POST", path, body=BODY, headers=sent)
    return connection.getresponse()


def test_an_upload_is_answered(server: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_stream, "MAX_ARCHIVE_BYTES", 1 << 20)
    bearer = f"Bearer {make_token(world.user)}"
    answer = post(server, "/api/v1/uploads", Authorization=bearer, X_Content_SHA256="0" * 64)
    assert (answer.status, b"1 MiB at most" in answer.read()) == (413, True)


@pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
def test_a_spec_is_answered(server: str, world: World, kind: str) -> None:
    bearer = f"Bearer {make_token(world.user)}"
    answer = post(server, "/api/v1/jobs", Authorization=bearer, Content_Type=kind)
    assert (answer.status, b"at most 1 MiB" in answer.read()) == (413, True)


def test_an_agents_call_is_answered(server: str, agent: Agent) -> None:
    bearer = f"Bearer {agent.secret}"
    answer = post(server, "/agent/v1/beat", Authorization=bearer)
    assert (answer.status, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert post(server, "/agent/v1/beat", Authorization="Bearer wrong").status == 401


def test_a_client_that_does_not_go_on_is_not_waited_for(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "LINGER_S", 0.1)
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=30)
    connection.putrequest("POST", "/agent/v1/beat")
    for name, value in (("Connection", "close"), ("Content-Length", "10000000")):
        connection.putheader(name, value)
    connection.endheaders(b"some of it")
    start = time.monotonic()
    answer = connection.getresponse()
    assert (answer.status, answer.read() != b"") == (401, True)
    assert time.monotonic() - start < 10
