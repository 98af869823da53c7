"""The events of a stream, of which no line may fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import httpx
from httpx_sse import EventSource, ServerSentEvent

from muster_client.errors import MusterError

MAX_LINE_CHARS = 16 * 1024 * 1024


def events(response: httpx.Response) -> Iterator[ServerSentEvent]:
    """Yield the events of a stream; an event without an id has the id of the event before.

    Raises:
        MusterError: a line is longer than `MAX_LINE_CHARS`.
    """
    yield from EventSource(cast(httpx.Response, _Bounded(response))).iter_sse()


class _Bounded:
    """A response as `EventSource` reads it, up to a line that is too long."""

    def __init__(self, response: httpx.Response) -> None:
        self.headers = response.headers
        self._response = response

    def iter_text(self) -> Iterator[str]:
        line_chars = 0
        for text in self._response.iter_text():
            end = max(text.rfind("\n"), text.rfind("\r")) + 1
            line_chars = len(text) - end + (0 if end else line_chars)
            if line_chars > MAX_LINE_CHARS:
                raise MusterError("The event stream has a line without an end.")
            yield text
