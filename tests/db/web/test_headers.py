"""The security headers of answers, whichever side of the web process gives them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from django.test import Client
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from muster.api.headers import SecurityHeaders

pytestmark = pytest.mark.django_db(transaction=True)

SANDBOXED = "sandbox; default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("method", "path", "policy"),
    [
        ("GET", "/", "default-src 'self'; script-src 'self';"),
        ("GET", "/jobs/1042", "default-src 'self'; script-src 'self';"),
        ("GET", "/admin/login/", "default-src 'self'; script-src 'self' 'unsafe-inline'"),
        ("GET", "/api/v1/docs", "default-src 'self'; script-src 'self';"),
        ("GET", "/healthz", SANDBOXED),
        ("GET", "/api/v1/me", SANDBOXED),
        ("GET", "/api/v1/offers", SANDBOXED),
        ("GET", "/api/v1/jobs/1042/logs", SANDBOXED),
        ("GET", "/api/v1/jobs/1042/files/1", SANDBOXED),
        ("GET", "/api/v1/stream", SANDBOXED),
        ("POST", "/api/v1/uploads", SANDBOXED),
        ("GET", "/api/v1/shells/1/output", SANDBOXED),
        ("POST", "/agent/v1/beat", SANDBOXED),
        ("GET", f"/agent/v1/code/{'0' * 64}", SANDBOXED),
    ],
)
def test_each_answer_has_the_security_headers(method: str, path: str, policy: str, server: str) -> None:
    answer = httpx.request(method, server + path)
    assert answer.headers["content-security-policy"].startswith(policy)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "strict-transport-security" not in answer.headers
    assert (answer.headers.get("cache-control") == "no-store") is path.startswith("/api/")


def test_an_open_stream_has_them_too(http: httpx.Client) -> None:
    with http.stream("GET", "/api/v1/stream?topics=jobs") as answer:
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"].startswith(SANDBOXED)
        assert answer.headers["x-frame-options"] == "DENY"


def test_pages_evaluate_no_strings(server: str) -> None:
    assert "unsafe-eval" not in httpx.get(f"{server}/").headers["content-security-policy"]


async def _answer(_request: Any) -> Response:
    return Response("x", headers={"Content-Security-Policy": "default-src 'self'"})


async def _failure(_request: Any) -> Response:
    raise RuntimeError("a fault")


def ask(url: str) -> httpx.Response:
    site = Starlette(routes=[Route("/api/v1/answer", _answer), Route("/api/v1/failure", _failure)])

    async def one() -> httpx.Response:
        transport = httpx.ASGITransport(SecurityHeaders(site), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport) as http:
            return await http.get(url)

    return asyncio.run(one())


def test_an_answer_over_https_asks_for_https_from_then_on() -> None:
    assert ask("https://muster.test/api/v1/answer").headers["strict-transport-security"] == "max-age=31536000"
    assert "strict-transport-security" not in ask("http://muster.test/api/v1/answer").headers


def test_an_answer_keeps_the_policy_that_it_sets_itself() -> None:
    assert ask("https://muster.test/api/v1/answer").headers["content-security-policy"] == "default-src 'self'"


def test_an_unexpected_failure_has_the_headers_too() -> None:
    answer = ask("https://muster.test/api/v1/failure")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"].startswith(SANDBOXED)


def test_an_answer_to_another_host_names_the_address_and_the_setting(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.PUBLIC_URL = ["muster.test"], "http://muster.test"
    answer = client.get("/", headers={"Host": "gpu.example.org"})
    assert answer.status_code == 400
    assert "http://muster.test" in answer.json()["detail"]
    assert "MUSTER_URL" in answer.json()["detail"]


def test_the_web_process_warns_at_its_start_of_a_published_port_without_an_address(
    settings: Any, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    settings.BIND, settings.PUBLIC_URL = "0.0.0.0", "http://127.0.0.1:8000"
    request.getfixturevalue("server")
    assert "browsers on other machines are answered 400. Set MUSTER_URL" in caplog.text
