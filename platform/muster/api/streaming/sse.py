"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

KEEP_ALIVE = b": still here\n\n"
KEEP_ALIVE_AFTER_S = 5.0


def event(data: dict[str, object], *, name: str | None = None, event_id: str | None = None) -> bytes:
    """One event on the wire. JSON has no raw line breaks, so the data is always one line."""
    lines = []
    if event_id is not None:
        lines.append(f"id: {event_id}")
    if name is not None:
        lines.append(f"event: {name}")
    lines.append(f"data: {json.dumps(data, separators=(',', ':'))}")
    return ("\n".join(lines) + "\n\n").encode()


def stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The response that carries the events, past caches and buffering proxies."""
    return StreamingResponse(
        events, media_type="text/event-stream", headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
