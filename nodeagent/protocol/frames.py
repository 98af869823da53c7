"""Frames of a link: an id, a small JSON head and a body, each with a limit to its size.

The agent sends requests, the platform answers, in any order; either side may ask whether the other is there. The
platform reads frames of servers that it need not trust, so nothing is kept of a frame that is larger than allowed.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any, Dict, List

MAGIC = b"\nmuster-link/1\n"
"""The first bytes that `muster-agent attach` prints; a login's own output before them is skipped."""
REQUEST, ANSWER, PING, PONG = 1, 2, 3, 4
MAX_HEAD_BYTES = 4096
MAX_BODY_BYTES = 4 << 20

_HEADER = struct.Struct("!BIII")


class FrameError(Exception):
    """The bytes are no frame, or one that is too large; the link is of no more use."""


@dataclass(frozen=True)
class Frame:
    """One message of a link."""

    kind: int
    id: int = 0
    head: Dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def encode(self) -> bytes:
        """The frame's bytes."""
        head = json.dumps(self.head, separators=(",", ":")).encode() if self.head else b""
        if len(head) > MAX_HEAD_BYTES or len(self.body) > MAX_BODY_BYTES:
            raise FrameError("a frame of {} and {} bytes is too large".format(len(head), len(self.body)))
        return _HEADER.pack(self.kind, self.id, len(head), len(self.body)) + head + self.body


class FrameReader:
    """Puts frames together from what arrives. Holds one unfinished frame at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> List[Frame]:
        """The frames that are complete now; raises `FrameError` as soon as one cannot be."""
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            kind, number, head_size, body_size = _HEADER.unpack_from(self._buffer, start)
            if not REQUEST <= kind <= PONG:
                raise FrameError("a frame of the unknown kind {}".format(kind))
            if head_size > MAX_HEAD_BYTES or body_size > MAX_BODY_BYTES:
                raise FrameError("a frame of {} and {} bytes is too large".format(head_size, body_size))
            body_at = start + _HEADER.size + head_size
            end = body_at + body_size
            if len(self._buffer) < end:
                break
            head = _read_head(bytes(self._buffer[start + _HEADER.size : body_at]))
            frames.append(Frame(kind, number, head, bytes(self._buffer[body_at:end])))
            start = end
        del self._buffer[:start]
        return frames


def _read_head(data: bytes) -> Dict[str, Any]:
    if not data:
        return {}
    try:
        head = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FrameError("the head of a frame is not JSON") from error
    if not isinstance(head, dict):
        raise FrameError("the head of a frame is not an object")
    return head
