"""The events of a stream, wherever its bytes are cut."""

from __future__ import annotations

from collections.abc import Iterable

import httpx
import pytest

from muster_client.calls.sse import MAX_LINE_CHARS, events
from muster_client.errors import MusterError

STREAM = (
    ": still here\n\nevent: log\r\nid: 1:5\r\ndata: Zürich\r\ndata: b\r\n\r\n"
    "data:  x\n\nevent: end\rdata: y\r\rdata: z\n"
)


def read(chunks: Iterable[bytes]) -> list[tuple[str, str, str]]:
    answer = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=iter(chunks))
    return [(event.event, event.data, event.id) for event in events(answer)]


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_it_reads_events_wherever_the_chunks_are_cut(step: int) -> None:
    data = STREAM.encode()
    assert read(data[at : at + step] for at in range(0, len(data), step)) == [
        ("log", "Zürich\nb", "1:5"),
        ("message", " x", "1:5"),
        ("end", "y", "1:5"),
    ]


@pytest.mark.parametrize("chunks", [1, 4])
def test_it_refuses_a_line_without_an_end(chunks: int) -> None:
    with pytest.raises(MusterError, match="a line without an end"):
        read([b"data: a\n\ndata: ", *[b"x" * (MAX_LINE_CHARS // chunks + 1)] * chunks])
