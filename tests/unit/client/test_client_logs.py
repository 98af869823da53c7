"""`muster logs`, against a server of a few lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import httpx
import pytest

from muster_client.local import terminal
from muster_client.show.output import Output
from tests.unit.client.fake_server import FakeServer, Run, job
from tests.unit.client.test_client_commands import end_stream

LOG = "GET /jobs/7/logs"


def stored(data: bytes, page_bytes: int = 1000) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        offset = int(request.url.params["offset"])
        part = data[offset : offset + page_bytes]
        headers = {
            "X-Muster-Size": str(len(data)),
            "X-Muster-Attempt": "1",
            "X-Muster-Next-Offset": str(offset + len(part)),
            "X-Muster-Ranks": f"0:{offset}:{len(part)}",
        }
        return httpx.Response(200, content=part, headers=headers)

    return answer


def test_logs_print_the_bytes_as_they_are(server: FakeServer, run: Run) -> None:
    data = b"\x1b[2J\xff\x00" + "Zürich\n".encode() * 5
    server.on(LOG, stored(data, 7))
    assert run("logs", "7", "--rank", "1", "--attempt", "2").stdout_bytes == data
    assert server.requests[0].url.params["rank"] == "1"
    assert server.requests[0].url.params["attempt"] == "2"


def test_logs_in_json_keep_whole_characters_and_true_offsets(server: FakeServer, run: Run) -> None:
    data = "ü€x".encode()
    server.on(LOG, stored(data, 1))
    lines = [json.loads(line) for line in run("logs", "7", "--json").stdout.splitlines()]
    assert "".join(line["text"] for line in lines) == "ü€x"
    for line in lines:
        assert data[line["offset"] :].startswith(line["text"].encode())


def test_logs_on_a_terminal_keep_colours_only(server: FakeServer, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_a_terminal(self: Output, *, labelled: bool) -> terminal.LogWriter:
        return terminal.LogWriter(sys.stdout.buffer, terminal=True, colour=True, labelled=labelled)

    monkeypatch.setattr(Output, "log_writer", on_a_terminal)
    server.on(LOG, stored(b"\x1b]0;owned\x07\x1b[31mred\x1b[0m\n", 3))
    assert run("logs", "7").stdout == "\x1b[31mred\x1b[0m\n"


def test_logs_of_ranks_are_labelled_line_by_line_on_request(server: FakeServer, run: Run) -> None:
    headers = {"X-Muster-Ranks": "0:0:4,1:0:6,0:4:5", "X-Muster-Size": "15"}
    server.on(LOG, httpx.Response(200, content=b"hal" + b"f" + b"one\ntw" + b"way\no", headers=headers))
    assert run("logs", "7", "--label").stdout == "[rank 1] one\n[rank 0] halfway\n[rank 0] o\n[rank 1] tw\n"
    assert run("logs", "7").stdout_bytes == b"halfone\ntwway\no"
    told = [json.loads(line) for line in run("logs", "7", "--json").stdout.splitlines()]
    assert [(line["rank"], line["offset"], line["text"]) for line in told] == [
        (0, 0, "half"),
        (1, 0, "one\ntw"),
        (0, 4, "way\no"),
    ]


@pytest.mark.parametrize(("nodes", "shown"), [(1, "one\n"), (2, "[rank 0] one\n")])
def test_a_terminal_shows_the_ranks_of_a_job_that_has_several(
    server: FakeServer, run: Run, monkeypatch: pytest.MonkeyPatch, nodes: int, shown: str
) -> None:
    monkeypatch.setattr(Output, "on_terminal", True)
    server.on("GET /jobs/7", httpx.Response(200, json=job(nodes=nodes)))
    server.on(LOG, stored(b"one\n"), end_stream("succeeded", 0, "one\n"))
    assert run("logs", "7").stdout == shown
    assert run("logs", "-f", "7").stdout == shown
    server.on(LOG, stored(b"one\n"))
    assert run("logs", "7", "--rank", "0").stdout == "one\n"


def test_logs_follow_prints_until_the_end(server: FakeServer, run: Run) -> None:
    server.on(LOG, end_stream("succeeded", 0, "caf\u00e9\udcff\n"))
    result = run("logs", "-f", "7", "--rank", "0")
    assert result.exit_code == 0
    assert result.stdout_bytes == "café".encode() + b"\xff\n"


# The cluster
