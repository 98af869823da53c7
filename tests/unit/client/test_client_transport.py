"""Calls that are sent again, and those that are not."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

import httpx
import pytest

from muster_client.calls.logs import LogEnd, LogEvent, LogState, LogText
from muster_client.client import Client
from muster_client.errors import ApiError, MusterError, UnreachableError
from muster_client.local.pack import pack_folder
from tests.unit.client.fake_server import URL, FakeServer, job, problem, sse, stream

GONE = httpx.ReadError("connection reset")
CLOSED = httpx.ConnectError("refused")
LOG = "GET /jobs/7/logs"


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def client(server: FakeServer) -> Client:
    return Client(URL, "mst_x", transport=server.transport, backoff=server.backoff)


def test_a_submission_is_repeated_with_the_same_key_until_it_is_answered(server: FakeServer, client: Client) -> None:
    server.on("POST /jobs", GONE, problem(503, "Starting"), CLOSED, httpx.Response(201, json=job()))
    assert client.submit({"command": "x"})["id"] == 7
    sent = server.sent("POST /jobs")
    assert len(sent) == 4
    assert len({request.headers["Idempotency-Key"] for request in sent}) == 1
    assert len({request.content for request in sent}) == 1


def test_two_submissions_have_two_keys(server: FakeServer, client: Client) -> None:
    server.on("POST /jobs", httpx.Response(201, json=job()))
    client.submit({"command": "x"})
    client.submit({"command": "x"})
    first, second = (request.headers["Idempotency-Key"] for request in server.sent("POST /jobs"))
    assert first != second


def test_a_batch_is_one_request_that_is_repeated_with_the_same_key(server: FakeServer, client: Client) -> None:
    refused = {
        "index": 1,
        "problem": {"detail": "gpuz is unknown", "errors": [{"field": "gpuz", "message": "unknown"}]},
    }
    answer = httpx.Response(201, json={"jobs": [job(id=8)], "errors": [refused]})
    server.on("POST /jobs:batch", GONE, answer)
    batch = client.submit_batch([{"command": "x"}, {"command": "y", "gpuz": 1}])
    assert [stored["id"] for stored in batch["jobs"]] == [8]
    assert [(error["index"], error["problem"]["detail"]) for error in batch["errors"]] == [(1, "gpuz is unknown")]
    first, second = server.sent("POST /jobs:batch")
    assert json.loads(second.content) == {"jobs": [{"command": "x"}, {"command": "y", "gpuz": 1}]}
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_the_waits_double(server: FakeServer, client: Client) -> None:
    server.on("GET /me", CLOSED)
    with pytest.raises(UnreachableError, match="after 6 tries"):
        client.me()
    assert server.slept_s == [0.25, 0.5, 1.0, 2.0, 4.0]


def test_a_clone_whose_answer_got_lost_is_not_sent_again(server: FakeServer, client: Client) -> None:
    server.on("POST /jobs/7:clone", GONE)
    with pytest.raises(UnreachableError, match="may have been carried out"):
        client.clone(7)
    assert len(server.requests) == 1


def test_a_clone_that_was_never_sent_is_tried_again(server: FakeServer, client: Client) -> None:
    server.on("POST /jobs/7:clone", CLOSED, httpx.Response(201, json=job(id=8)))
    assert client.clone(7)["id"] == 8


def test_a_clone_that_met_a_gateway_error_is_not_sent_again(server: FakeServer, client: Client) -> None:
    server.on("POST /jobs/7:clone", problem(502, "Bad gateway"))
    with pytest.raises(ApiError):
        client.clone(7)
    assert len(server.requests) == 1


def test_it_waits_as_long_as_a_busy_server_says(server: FakeServer, client: Client) -> None:
    later = httpx.Response(429, headers={"Retry-After": "7"})
    server.on("POST /jobs", *([later] * 20), httpx.Response(201, json=job()))
    assert client.submit({"command": "x"})["id"] == 7
    assert server.slept_s == [7.0] * 20


def test_it_does_not_wait_for_ever(server: FakeServer, client: Client) -> None:
    server.on("GET /me", httpx.Response(429, headers={"Retry-After": "60"}))
    with pytest.raises(ApiError) as caught:
        client.me()
    assert caught.value.status == 429
    assert sum(server.slept_s) == 300


def test_the_token_goes_along_and_no_redirect_is_followed(server: FakeServer, client: Client) -> None:
    server.on("GET /me", httpx.Response(301, headers={"Location": "https://elsewhere/api/v1/me"}))
    with pytest.raises(ApiError, match="points to https://elsewhere"):
        client.me()
    assert [str(request.url) for request in server.requests] == [f"{URL}/api/v1/me"]
    assert server.requests[0].headers["Authorization"] == "Bearer mst_x"


def test_an_answer_that_is_no_json_is_not_taken_for_one(server: FakeServer, client: Client) -> None:
    server.on("GET /me", httpx.Response(200, html="<html>"))
    with pytest.raises(MusterError, match="is it a Muster server"):
        client.me()


def test_a_proxys_page_becomes_a_problem(server: FakeServer, client: Client) -> None:
    server.on("GET /me", httpx.Response(418, html="<html>"))
    with pytest.raises(ApiError) as caught:
        client.me()
    assert caught.value.problem()["title"].startswith("418")


def test_lists_are_read_over_their_pages(server: FakeServer, client: Client) -> None:
    server.on(
        "GET /nodes",
        *[httpx.Response(200, json={"results": [{"name": n}], "next": c}) for n, c in (("a", "2"), ("b", None))],
    )
    assert [node["name"] for node in client.nodes()] == ["a", "b"]
    assert server.requests[1].url.params["cursor"] == "2"


def test_jobs_are_read_until_the_limit(server: FakeServer, client: Client) -> None:
    pages = [httpx.Response(200, json={"results": [job()] * 200, "next": "c"})] * 2
    server.on("GET /jobs", *pages)
    page = client.jobs(limit=300, owner="ada")
    assert page["next"] == "c"
    assert [request.url.params["limit"] for request in server.requests] == ["200", "100"]
    assert server.requests[1].url.params["cursor"] == "c"
    assert server.requests[1].url.params["owner"] == "ada"


def test_an_upload_is_sent_whole_again_when_the_connection_breaks(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text("print()")
    with pack_folder(tmp_path) as archive:
        server.on("POST /uploads", GONE, httpx.Response(201, json={"sha256": archive.sha256, "size": archive.size}))
        heard: list[int] = []
        client.upload(archive, sent=heard.append)
        sent = server.sent("POST /uploads")
        assert [request.content for request in sent] == [b"".join(archive.chunks())] * 2
        assert heard[-1] == archive.size
    assert sent[1].headers["Content-Length"] == str(archive.size)
    assert sent[1].headers["X-Content-SHA256"] == archive.sha256
    assert sent[1].headers["Content-Type"] == "application/gzip"


def test_it_asks_whether_an_upload_is_known(server: FakeServer, client: Client) -> None:
    server.on("HEAD /uploads/aa", httpx.Response(200))
    assert client.knows_upload("aa")
    assert not client.knows_upload("bb")


def test_a_page_behind_a_hole_says_where_it_begins(server: FakeServer, client: Client) -> None:
    headers = {"X-Muster-Offset": "100", "X-Muster-Next-Offset": "104", "X-Muster-Size": "104"}
    server.on(LOG, httpx.Response(200, content=b"rest", headers=headers))
    page = client.log_page(7, offset=6)
    assert (page.offset, page.next_offset, page.data) == (100, 104, b"rest")


def test_a_page_says_which_rank_wrote_what(server: FakeServer, client: Client) -> None:
    headers = {"X-Muster-Ranks": "0:10:3,12:0:1,0:13:2"}
    server.on(LOG, httpx.Response(200, content=b"abcdef", headers=headers))
    turns = [(turn.rank, turn.offset, turn.data) for turn in client.log_page(7).turns]
    assert turns == [(0, 10, b"abc"), (12, 0, b"d"), (0, 13, b"ef")]


def test_stored_logs_are_read_page_by_page_of_one_attempt(server: FakeServer, client: Client) -> None:
    def page(request: httpx.Request) -> httpx.Response:
        offset = int(request.url.params["offset"])
        data = b"abcdef"[offset : offset + 4]
        headers = {"X-Muster-Size": "6", "X-Muster-Attempt": "2", "X-Muster-Next-Offset": str(offset + len(data))}
        return httpx.Response(200, content=data, headers=headers)

    server.on(LOG, page)
    assert [part.data for part in client.read_logs(7)] == [b"abcd", b"ef"]
    assert "attempt" not in server.requests[0].url.params
    assert server.requests[1].url.params["attempt"] == "2"


def log_event(position: int, text: str) -> tuple[str, str, dict[str, object]]:
    return ("log", f"1:{position}", {"attempt": 1, "offset": position - len(text), "rank": 0, "text": text})


END = ("end", "1:6", {"state": "succeeded", "exit_code": 0})


def test_following_resumes_after_the_last_event_that_came(server: FakeServer, client: Client) -> None:
    server.on(
        LOG,
        stream(sse(log_event(3, "abc")), b"event: log\nid: 1:5\nda", then=GONE),
        CLOSED,
        problem(503, "Restarting"),
        stream(b": still here\n\n"),
        stream(sse(log_event(6, "def"), ("state", "1:6", {"attempt": 1, "state": "stopping"}), END)),
    )
    events: list[LogEvent] = list(client.follow_logs(7, rank=0))
    assert events == [
        LogText(attempt=1, offset=0, rank=0, text="abc", id="1:3"),
        LogText(attempt=1, offset=3, rank=0, text="def", id="1:6"),
        LogState(attempt=1, state="stopping", id="1:6"),
        LogEnd(state="succeeded", exit_code=0, id="1:6"),
    ]
    assert [request.headers.get("Last-Event-ID") for request in server.sent(LOG)] == [None, *["1:3"] * 4]
    assert server.requests[0].url.params["follow"] == "1"
    assert server.requests[0].url.params["rank"] == "0"


def test_following_gives_up_when_the_server_stays_away(server: FakeServer, client: Client) -> None:
    server.on(LOG, CLOSED)
    with pytest.raises(UnreachableError):
        list(client.follow_logs(7))


def test_following_an_unknown_job_is_an_error_at_once(server: FakeServer, client: Client) -> None:
    with pytest.raises(ApiError):
        list(client.follow_logs(7))
    assert len(server.requests) == 1


def test_following_skips_kinds_of_events_that_it_does_not_know(server: FakeServer, client: Client) -> None:
    server.on(LOG, stream(sse(("metric", "1:0", {"loss": 1}), END)))
    assert [type(event) for event in client.follow_logs(7)] == [LogEnd]


def test_an_event_that_cannot_be_read_is_an_error(server: FakeServer, client: Client) -> None:
    server.on(LOG, stream(sse(("log", "1:0", {"attempt": 1}))))
    with pytest.raises(MusterError, match="cannot be read"):
        list(client.follow_logs(7))


def test_waiting_ends_with_the_job_or_with_the_timeout(server: FakeServer, client: Client) -> None:
    server.on("GET /jobs/7", *[httpx.Response(200, json=job(state=s)) for s in ("queued", "active", "failed")])
    finished = client.wait(7)
    assert finished is not None
    assert finished["state"] == "failed"
    server.on("GET /jobs/7", httpx.Response(200, json=job()))
    assert client.wait(7, timeout_s=5) is None
    assert sum(server.slept_s) == 4 + 5


def test_certificates_are_read_where_there_are_any_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plain = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **how: made.append(plain(**how)) or made[-1])
    Client("http://127.0.0.1:8000").close()
    assert made == []
    Client("https://muster.example.org").close()
    assert [context.verify_mode for context in made] == [ssl.CERT_REQUIRED]
