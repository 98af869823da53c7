"""The parser of server-sent events."""

from __future__ import annotations

import pytest

from muster_client.calls.sse import MAX_LINE_CHARS, SseEvent, SseParser
from muster_client.errors import MusterError


def message(data: str, id_: str) -> SseEvent:
    return SseEvent("message", data, id_)


CASES = {
    "a plain message": (b"data: hello\n\n", [message("hello", "")]),
    "several lines of data": (b"data: a\ndata: b\n\n", [message("a\nb", "")]),
    "a named event with an id": (b"event: log\nid: 1:5\ndata: x\n\n", [SseEvent("log", "x", "1:5")]),
    "carriage returns": (b"event: log\r\ndata: x\r\n\r\ndata: y\r\r", [SseEvent("log", "x", ""), message("y", "")]),
    "a comment": (b": still here\n\ndata: x\n\n", [message("x", "")]),
    "an event without data": (b"event: log\n\n", []),
    "an event without its end": (b"data: x\n", []),
    "the id stays for later events": (b"id: 9\ndata: x\n\ndata: y\n\n", [message("x", "9"), message("y", "9")]),
    "one space only is taken away": (b"data:  x\n\n", [message(" x", "")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: x\n\n", [message("x", "")]),
    "an id with a null": (b"id: a\x00b\ndata: x\n\n", [message("x", "")]),
    "text that is not ASCII": ("data: Zürich\n\n".encode(), [message("Zürich", "")]),
}


@pytest.mark.parametrize(("data", "expected"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("step", [1, 2, 1000])
def test_it_reads_events_wherever_the_chunks_are_cut(data: bytes, expected: list[SseEvent], step: int) -> None:
    parser = SseParser()
    # A stream that ends in a CR is only known to have ended its line when something follows.
    chunks = [*(data[i : i + step] for i in range(0, len(data), step)), b":\n"]
    assert [event for chunk in chunks for event in parser.feed(chunk)] == expected


def test_it_keeps_the_servers_wish_for_reconnecting() -> None:
    parser = SseParser()
    assert list(parser.feed(b"retry: 1500\n\n")) == []
    assert parser.retry_s == 1.5


def test_it_refuses_a_line_without_an_end() -> None:
    parser = SseParser()
    with pytest.raises(MusterError):
        list(parser.feed(b"data: " + b"x" * MAX_LINE_CHARS))
