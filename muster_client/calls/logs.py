"""Reads the output of a job as it is stored, or follows it, across broken connections."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from muster_client.calls.transport import GATEWAY_STATUSES, Transport
from muster_client.errors import ApiError, MusterError, UnreachableError

if TYPE_CHECKING:
    from httpx_sse import ServerSentEvent

# Between two connections that brought nothing; the server ends idle ones from time to time.
MAX_IDLE_FAILURES = 5


@dataclass(frozen=True, slots=True)
class LogTurn:
    """Bytes that one rank wrote without a byte of another between them; `offset` counts the rank's own bytes."""

    rank: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class LogPage:
    """A piece of stored output, and where the next one begins; `size` is how much is there now.

    Offsets count the bytes of all ranks in the order of arrival, or of the one rank that was asked for.
    """

    attempt: int | None
    offset: int
    next_offset: int
    size: int
    data: bytes
    turns: tuple[LogTurn, ...]


@dataclass(frozen=True, slots=True)
class LogText:
    """A piece of output."""

    attempt: int
    offset: int
    rank: int
    text: str
    id: str


@dataclass(frozen=True, slots=True)
class LogState:
    """An attempt changed its state."""

    attempt: int | None
    state: str
    id: str


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Nothing more will come."""

    state: str
    exit_code: int | None
    id: str


LogEvent = LogText | LogState | LogEnd


def follow(transport: Transport, path: str, params: Mapping[str, str | int], *, after: str = "") -> Iterator[LogEvent]:
    """Yield what a job writes until its end.

    1. Open the stream after the last id that was seen.
    2. Pass on its events; each one proves that the connection works.
    3. When the stream breaks before its `end`, wait and begin again at 1, and give up after too many tries in a row
       that did not even open it.
    """
    from muster_client.calls.sse import events  # noqa: PLC0415 - few commands read streams

    last_id, failures, idle = after, 0, 0
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        try:
            with transport.stream(path, params=params, headers=headers) as response:
                failures = 0
                for raw in events(response):
                    event = _read(raw)
                    if event is None:
                        continue
                    idle, last_id = 0, raw.id or last_id
                    yield event
                    if isinstance(event, LogEnd):
                        return
        except httpx.TransportError as error:
            failures = _count(failures, transport, error)
        except ApiError as error:
            if error.status not in GATEWAY_STATUSES and error.status != 429:
                raise
            failures = _count(failures, transport, error)
        idle += 1
        if failures:
            transport.backoff.wait(f"{transport.url} cannot be reached", transport.backoff.wait_s(failures))
        else:
            # A server ends a stream now and then, and when it restarts: nothing to tell of.
            transport.backoff.sleep(transport.backoff.wait_s(min(idle, MAX_IDLE_FAILURES)))


def page_of(response: httpx.Response, offset: int) -> LogPage:
    """Return the page that answers a request for stored output from `offset` on."""
    # Behind the byte that was asked for if bytes were given up there.
    start = _number(response, "X-Muster-Offset", offset)
    end = start + len(response.content)
    return LogPage(
        attempt=_number(response, "X-Muster-Attempt", 0) or None,
        offset=start,
        next_offset=_number(response, "X-Muster-Next-Offset", end),
        size=_number(response, "X-Muster-Size", end),
        data=response.content,
        turns=tuple(_turns(response)),
    )


def _number(response: httpx.Response, header: str, default: int) -> int:
    value = response.headers.get(header, "")
    return int(value) if value.isascii() and value.isdigit() else default


def _turns(response: httpx.Response) -> Iterator[LogTurn]:
    """Yield which rank wrote which bytes of the answer."""
    start = 0
    for turn in filter(None, response.headers.get("X-Muster-Ranks", "").split(",")):
        rank, offset, size = (int(number) for number in turn.split(":"))
        yield LogTurn(rank, offset, response.content[start : start + size])
        start += size


def _count(failures: int, transport: Transport, error: Exception) -> int:
    if failures + 1 >= transport.backoff.tries:
        raise UnreachableError(f"{transport.url} cannot be reached ({error}), after {failures + 1} tries.") from error
    return failures + 1


def _read(raw: ServerSentEvent) -> LogEvent | None:
    """Return the typed event; None for a kind that a newer server may send."""
    if raw.event not in {"log", "state", "end"}:
        return None
    try:
        data: Any = json.loads(raw.data)
        if raw.event == "log":
            return LogText(
                attempt=int(data["attempt"]),
                offset=int(data["offset"]),
                rank=int(data.get("rank") or 0),
                text=str(data["text"]),
                id=raw.id,
            )
        if raw.event == "state":
            return LogState(attempt=data.get("attempt"), state=str(data["state"]), id=raw.id)
        return LogEnd(state=str(data["state"]), exit_code=data.get("exit_code"), id=raw.id)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MusterError(f"The server sent a {raw.event} event that cannot be read.") from error
