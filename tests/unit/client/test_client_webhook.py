"""Webhooks, as the command line makes and tries them."""

from __future__ import annotations

import json

import httpx

from tests.unit.client.fake_server import FakeServer, Run

HOOK = {
    "id": 3,
    "url": "https://hooks.example.org/muster",
    "state": "working",
    "reason": None,
    "last_result": None,
    "last_try_at": None,
    "last_success_at": None,
    "failing_since": None,
    "created_at": "2026-11-21T00:00:00Z",
}
AT = "2026-11-22T00:00:00Z"
WENT_WELL = {**HOOK, "last_result": "answered 204", "last_try_at": AT, "last_success_at": AT}
FAILED = {**HOOK, "state": "failing", "last_result": "answered 500", "last_try_at": AT}


def test_the_secret_is_all_that_standard_output_has(server: FakeServer, run: Run) -> None:
    server.on("POST /webhooks", httpx.Response(201, json={**HOOK, "secret": "whsec_abc"}))
    result = run("webhook", "add", HOOK["url"])
    assert (result.exit_code, result.stdout) == (0, "whsec_abc\n")
    assert "Webhook 3 is made" in result.stderr
    assert json.loads(server.sent("POST /webhooks")[0].content) == {"url": HOOK["url"]}


def test_webhooks_are_listed_with_what_is_wrong(server: FakeServer, run: Run) -> None:
    disabled = {**FAILED, "id": 4, "state": "disabled", "reason": "for a day no call went well"}
    server.on("GET /webhooks", httpx.Response(200, json={"results": [WENT_WELL, disabled], "next": None}))
    table = run("webhook", "ls").stdout
    assert all(word in table for word in ("hooks.example.org", "answered 204", "disabled", "for a day"))


def test_one_is_removed_by_its_number(server: FakeServer, run: Run) -> None:
    server.on("DELETE /webhooks/3", httpx.Response(204))
    assert run("webhook", "rm", "3").stdout == "Webhook 3 is gone.\n"
    assert run("webhook", "rm", "4").exit_code == 4


def test_a_ping_is_waited_for(server: FakeServer, run: Run) -> None:
    server.on("POST /webhooks/3:test", httpx.Response(202, json=HOOK))
    server.on("GET /webhooks/3", httpx.Response(200, json=HOOK), httpx.Response(200, json=WENT_WELL))
    result = run("webhook", "test", "3")
    assert (result.exit_code, result.stdout) == (0, "Webhook 3: answered 204.\n")
    assert server.slept_s == [1.0]


def test_a_ping_that_failed_is_an_error(server: FakeServer, run: Run) -> None:
    server.on("POST /webhooks/3:test", httpx.Response(202, json=HOOK))
    server.on("GET /webhooks/3", httpx.Response(200, json=FAILED))
    result = run("webhook", "test", "3")
    assert (result.exit_code, result.stdout) == (1, "Webhook 3: answered 500.\n")


def test_a_ping_that_nobody_sends_is_given_up(server: FakeServer, run: Run) -> None:
    server.on("POST /webhooks/3:test", httpx.Response(202, json=HOOK))
    server.on("GET /webhooks/3", httpx.Response(200, json=HOOK))
    result = run("webhook", "test", "3", "--timeout", "5")
    assert (result.exit_code, "not sent within 5 s" in result.stderr) == (1, True)
    assert len(server.slept_s) == 4
