"""The programs of the bench: what they send, how they read answers, and what is made of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from bench.figures import AGENTS, CONTAINERS, FIGURES, IDLE, INGEST, LOG_PAGE
from bench.fleet import Line, read_head, request_bytes
from bench.plan import Plan, quick
from bench.reader import watched
from bench.samples import p99
from bench.writers import chunk_of, rate_mb_s
from nodeagent.protocol.messages import MAX_CHUNK_BYTES


def test_the_head_of_an_answer_tells_status_and_length() -> None:
    assert read_head(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 12\r\n\r\n") == (200, 12)


def test_an_answer_without_a_length_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown length"):
        read_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")


def test_a_request_says_who_asks_and_how_long_it_is() -> None:
    head, _, body = request_bytes("/agent/v1/beat", "host", "secret", b'{"a":1}').partition(b"\r\n\r\n")
    assert head.startswith(b"POST /agent/v1/beat HTTP/1.1\r\nHost: host\r\nAuthorization: Bearer secret\r\n")
    assert b"\r\nContent-Length: 7" in head
    assert body == b'{"a":1}'


def test_a_connection_that_the_server_has_ended_is_opened_again_and_a_refusal_is_told() -> None:
    async def story() -> list[object]:
        answers = [b'{"n":1}', b'{"n":2}', b"refused"]

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"{}")
            body = answers.pop(0)
            status = 200 if body.startswith(b"{") else 409
            writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        line = Line(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        heard: list[object] = [await line.call("/x", "s", b"{}"), await line.call("/x", "s", b"{}")]
        try:
            await line.call("/x", "s", b"{}")
        except OSError as error:
            heard.append(str(error))
        line.close()
        server.close()
        return heard

    assert asyncio.run(story()) == [{"n": 1}, {"n": 2}, "/x: 409 b'refused'"]


def test_a_chunk_is_whole_lines_and_as_long_as_may_be() -> None:
    chunk = chunk_of()
    assert len(chunk) == MAX_CHUNK_BYTES
    assert chunk.endswith(b"\n")
    assert max(map(len, chunk.split(b"\n"))) < 200


def test_writers_that_began_together_count_until_the_last_one_ends() -> None:
    assert rate_mb_s([(10_000_000, 1.0), (30_000_000, 2.0)]) == 20


def test_a_line_that_was_there_before_anybody_watched_does_not_count() -> None:
    assert watched([(12.0, 12.1), (9.0, 10.1), (11.0, 11.1), (10.0, 10.1)], 10.0) == [(11.0, 11.1), (12.0, 12.1)]


def test_one_in_a_hundred_is_above_the_99_percent() -> None:
    assert p99([float(number) for number in range(101)]) == 99


@pytest.mark.parametrize("item", [AGENTS, CONTAINERS, IDLE, INGEST, LOG_PAGE])
def test_what_only_the_platform_has_needs_it_and_no_peer(item: str) -> None:
    plan = Plan(items=(item,))
    assert plan.needs_platform
    assert not plan.needs_peer
    assert json.dumps(quick((item,)).items)
    assert [figure for figure in FIGURES if figure.item == item]
