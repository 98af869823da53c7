"""Maintenance, as operators plan it from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tests.unit.client.fake_server import FakeServer, Run

ROW = {
    "id": 7,
    "pool": "main",
    "node": "gpu07",
    "begins_at": "2026-12-01T08:00:00Z",
    "ends_at": "2026-12-01T12:00:00Z",
    "running_jobs": "move",
    "reason": "new driver",
    "begun_at": None,
    "created_by": "oscar",
}


def sent(server: FakeServer) -> dict[str, str]:
    body: dict[str, str] = json.loads(server.sent("POST /maintenance")[-1].content)
    return body


@pytest.mark.parametrize("end", [("--for", "4h"), ("--ends", "2026-12-01T13:00+01:00")])
def test_a_time_is_planned_and_told_in_utc(server: FakeServer, run: Run, end: tuple[str, str]) -> None:
    server.on("POST /maintenance", httpx.Response(201, json=ROW))
    words = ("--node", "gpu07", "--begins", "2026-12-01T08:00Z", *end, "--move", "--reason", "new driver")
    result = run("maintenance", "plan", *words)
    assert result.stdout == (
        "Maintenance 7 of node gpu07 is planned from 2026-12-01 08:00 UTC to 2026-12-01 12:00 UTC.\n"
    )
    body = sent(server)
    assert datetime.fromisoformat(body.pop("begins_at")) == datetime(2026, 12, 1, 8, tzinfo=UTC)
    assert datetime.fromisoformat(body.pop("ends_at")) == datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert body == {"node": "gpu07", "running_jobs": "move", "reason": "new driver"}


def test_spans_count_from_now_and_a_beginning_need_not_be_named(server: FakeServer, run: Run) -> None:
    server.on("POST /maintenance", httpx.Response(201, json={**ROW, "node": None}))
    before = datetime.now(UTC)
    result = run("maintenance", "plan", "--pool", "main", "--for", "2d", "-m", "move the rack")
    assert "of pool main" in result.stdout
    body = sent(server)
    assert timedelta(0) <= datetime.fromisoformat(body.pop("ends_at")) - before - timedelta(days=2) < timedelta(hours=1)
    assert body == {"pool": "main", "running_jobs": "wait", "reason": "move the rack"}
    run("maintenance", "plan", "--pool", "main", "--begins", "12h", "--for", "30m", "-m", "x")
    body = sent(server)
    lasts = datetime.fromisoformat(body["ends_at"]) - datetime.fromisoformat(body["begins_at"])
    assert lasts == timedelta(minutes=30)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--for", "4h"), "--node NAME, or --pool NAME"),
        (("--node", "a", "--pool", "b", "--for", "4h"), "--node NAME, or --pool NAME"),
        (("--node", "a"), "--ends WHEN or --for SPAN"),
        (("--node", "a", "--for", "4h", "--ends", "8h"), "--ends WHEN or --for SPAN"),
        (("--node", "a", "--for", "long"), "--for: long is not a duration"),
        (("--node", "a", "--for", "0h"), "--for: 0h is not a duration"),
        (("--node", "a", "--ends", "tomorrow"), "--ends: tomorrow is neither a time"),
        (("--node", "a", "--for", "4h", "--begins", "2026-12-01T08:00"), "--begins: say in which zone"),
    ],
)
def test_what_makes_no_sense_is_said_and_not_sent(
    server: FakeServer, run: Run, words: tuple[str, ...], says: str
) -> None:
    result = run("maintenance", "plan", *words, "--reason", "x")
    assert (result.exit_code, server.requests) == (2, [])
    assert says in result.stderr


def test_what_is_planned_is_listed(server: FakeServer, run: Run) -> None:
    rows = [ROW, {**ROW, "id": 8, "node": None, "running_jobs": "wait", "begun_at": "2026-12-01T08:00:01Z"}]
    server.on("GET /maintenance", httpx.Response(200, json={"results": rows, "next": None}))
    table = run("maintenance", "ls").stdout
    assert all(word in table for word in ("gpu07", "pool main", "planned", "under way", "go elsewhere", "new driver"))
    assert json.loads(run("maintenance", "ls", "--json").stdout) == {"results": rows}
    server.on("GET /maintenance", httpx.Response(200, json={"results": [], "next": None}))
    assert run("maintenance", "ls").stdout == "No maintenance is planned.\n"


def test_it_is_called_off_by_its_number(server: FakeServer, run: Run) -> None:
    server.on("DELETE /maintenance/7", httpx.Response(204))
    assert run("maintenance", "cancel", "7").stdout == "Maintenance 7 is called off.\n"
    assert run("maintenance", "cancel", "8").exit_code == 4
    run("maintenance", "cancel", "7", "--reason", "came late")
    assert server.sent("DELETE /maintenance/7")[-1].url.params["reason"] == "came late"
