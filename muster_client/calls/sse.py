"""A parser of server-sent events: bytes in, events out."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from muster_client.errors import MusterError

# A server that never ends a line must not fill the memory.
MAX_LINE_CHARS = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event; `id` is the last id seen, to resume after."""

    event: str
    data: str
    id: str


class SseParser:
    """Turns the chunks of an event stream into events, wherever the chunks are cut."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._event = ""
        self._data: list[str] = []
        self.last_id = ""
        self.retry_s: float | None = None

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """Yield the events that this chunk completes."""
        text = self._rest + self._decoder.decode(chunk)
        # A line may end in CR, LF or CRLF: a CR at the very end waits, for its LF may be in the next chunk.
        held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r") if held else text
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop() + held
        if len(self._rest) > MAX_LINE_CHARS:
            raise MusterError("The event stream has a line without an end.")
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_s = int(value) / 1000
        return None

    def _dispatch(self) -> SseEvent | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        return SseEvent(event=event, data="\n".join(data), id=self.last_id) if data else None
