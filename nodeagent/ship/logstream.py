"""The way of one allocation's log from its spool to the platform, one chunk at a time.

1. After a restart, ask for the size that the platform has by sending the last byte that is here.
2. Ship what is there in chunks that end at line ends where they can, and gather for a moment after a small one. A chunk
   whose answer was lost is sent again as it was, so that the platform never sees one that straddles its size.
3. If bytes are no longer in the spool, state the hole with the next chunk.
4. Beyond the cap ship slowly, and only the newest part if that is not enough or the job is over.
5. When the job is over and the rest is small, send it with size, holes and SHA-256.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple, Union

from nodeagent.protocol.messages import MAX_CHUNK_BYTES, MAX_REST_BYTES, BatchItem, LogAccepted, LogFinishRequest
from nodeagent.runtime.port import LogSource
from nodeagent.sync.outbox import Answer
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent.logs")

CHUNK_BYTES = 64 << 10
BACKLOG_CHUNK_BYTES = 512 << 10
PACE_BYTES_PER_S = 64 << 10
"""Bytes per second of a log beyond its cap: enough to show its newest lines, too little to slow other jobs' logs."""
GATHER_S = 0.05
"""Seconds that output is gathered after a small chunk: a request for each line would load the platform."""
_BACKLOG_BYTES = 1 << 20
_MAX_TAIL_BYTES = 32 << 20
_TOO_LARGE, _GAP, _NOT_FOUND, _CONFLICT = 413, 416, 404, 409

Range = Tuple[int, int]


@dataclass(frozen=True)
class _Chunk:
    start: int
    data: bytes
    hole: Optional[Range]
    probe: bool = False


class LogStream:
    """The log of one allocation. Only one thread at a time calls `step`; `finalise` may come from another."""

    def __init__(
        self,
        allocation_id: int,
        fence: int,
        *,
        source: LogSource,
        client: Client,
        cap_bytes: int,
        found_hole: Callable[[int, int, int], None],
        known_holes: Sequence[Range] = (),
        resumed: bool = False,
    ) -> None:
        self.id = allocation_id
        self.done = False
        self.complete = False
        """True if the platform has confirmed the end of the log; False also when it did not want it any more."""
        self._fence = fence
        self._source = source
        self._client = client
        self._cap = cap_bytes
        self._tail = min(cap_bytes // 8, _MAX_TAIL_BYTES)
        self._found_hole = found_hole
        self._holes: List[Range] = sorted(known_holes)
        self._position = 0
        self._hashed = 0
        self._sha = hashlib.sha256()
        self._hash_lost = False
        self._final: Optional[int] = None
        self._probing = resumed
        self._pending: Optional[_Chunk] = None
        self._chunk_bytes = CHUNK_BYTES
        self._gaps = 0
        self._backoff = Backoff()

    def finalise(self, size: int) -> None:
        """The job is over and has written `size` bytes."""
        self._final = size

    def size(self) -> int:
        """Bytes that the job has written so far."""
        return self._source.end() if self._final is None else self._final

    def step(self) -> Optional[float]:
        """Ship one chunk; return in how many seconds to come again, or None when there is nothing to do for now."""
        if self.done:
            return None
        try:
            item = self.last()
            if item is not None:
                return self.told(self._client.batch([item])[0])
            wait_s = None if self._pending is None else self._send(self._pending)
        except Unauthorized:
            raise
        except (Unreachable, Refused) as error:
            return self._failed(error)
        self._backoff.reset()
        return wait_s

    def last(self) -> Optional[BatchItem]:
        """The log's final chunk, if the job is over and the remainder fits; then `told` must hear of its outcome.

        It is the step's first half: only who may call `step` may call it.
        """
        final = self._final
        self._pending = chunk = self._pending or self._next_chunk()
        if self.done or final is None or not (chunk is None or _is_rest(chunk, final)):
            return None
        return BatchItem(self.id, finish=self._finish(final, chunk))

    def told(self, answer: Answer) -> Optional[float]:
        """Take the outcome of `last`; return what `step` returns."""
        if isinstance(answer, Unauthorized):
            raise answer
        if isinstance(answer, (Unreachable, Refused)):
            return self._failed(answer)
        self.done = self.complete = True
        return None

    def close(self) -> None:
        """Let go of the spool."""
        self._source.close()

    def _next_chunk(self) -> Optional[_Chunk]:
        if self._probing:
            self._probing = False
            last = self._source.end() - 1
            start, data = self._source.read(last, 1) if last >= 0 else (0, b"")
            if data and start == last:
                return _Chunk(start, data, None, probe=True)
        for low, high in self._windows():
            position = max(self._position, low)
            chunk = self._read_chunk(position, high) if position < high else None
            if chunk is not None:
                return chunk
        return None

    def _windows(self) -> List[Range]:
        """The ranges (ends excluded) that may be shipped now."""
        if self._final is not None:
            if self._final <= self._cap:
                return [(0, self._final)]
            return [(0, self._cap), (max(self._cap, self._final - self._tail), self._final)]
        if self._position < self._cap:
            return [(0, self._cap)]
        end = self._source.end()
        behind = end - self._position > self._tail
        return [(end - BACKLOG_CHUNK_BYTES if behind else 0, end)]

    def _read_chunk(self, position: int, until: int) -> Optional[_Chunk]:
        """The next bytes at or after `position` and before `until`, with the hole before them."""
        start, data = self._read(position, min(self._chunk_bytes, until - position))
        if len(data) == CHUNK_BYTES == self._chunk_bytes and self._source.end() - start > _BACKLOG_BYTES:
            start, data = self._read(position, min(BACKLOG_CHUNK_BYTES, until - position))
        data = data[: max(0, until - start)]
        if not data:
            return None
        if len(data) >= self._chunk_bytes:
            data = data[: data.rfind(b"\n") + 1 or len(data)]
        hole = None
        if start > self._position:
            hole = (self._position, start - 1)
            self._note_hole(*hole)
        return _Chunk(start, data, hole)

    def _read(self, position: int, limit: int) -> Tuple[int, bytes]:
        """The first bytes at or after `position`, up to the next hole; a source may return less at a time."""
        start, data = self._source.read(position, limit)
        while data and len(data) < limit:
            following, more = self._source.read(start + len(data), limit - len(data))
            if not more or following != start + len(data):
                break
            data += more
        return start, data

    def _send(self, chunk: _Chunk) -> float:
        size = self._client.append_log(self.id, self._fence, chunk.start, chunk.data, chunk.hole)
        self._pending = None
        end = chunk.start + len(chunk.data)
        if chunk.probe:
            self._skip_to(size)
            return 0.0
        if size >= end:
            self._hash(chunk.start, chunk.data)
            self._position = end
            self._gaps = 0
            if size > end:
                self._skip_to(size)
            if self._final is not None:
                return 0.0
            if end > self._cap:
                return len(chunk.data) / PACE_BYTES_PER_S
            return GATHER_S if len(chunk.data) < self._chunk_bytes // 2 and end < self._cap else 0.0
        return self._go_back(size)

    def _go_back(self, size: int) -> float:
        """The platform has less than we thought: go back to where it is. If that does not help, do not hurry."""
        self._pending = None
        self._position = size
        self._gaps += 1
        return 0.0 if self._gaps < 3 else self._backoff.wait_s()

    def _finish(self, final: int, rest: Optional[_Chunk]) -> LogFinishRequest:
        if rest is not None:
            self._hash(rest.start, rest.data)
        elif self._position < final:
            self._note_hole(self._position, final - 1)
            self._position = final
        return LogFinishRequest(
            fence=self._fence,
            size=max(final, self._position),
            sha256="" if self._hash_lost else self._sha.hexdigest(),
            holes=tuple(self._holes),
            start=0 if rest is None else rest.start,
            rest="" if rest is None else base64.b64encode(rest.data).decode(),
        )

    def _failed(self, error: Union[Unreachable, Refused]) -> Optional[float]:
        if isinstance(error, Refused):
            return self._refused(error)
        _log.debug("allocation %d: log: %s", self.id, error)
        return self._backoff.wait_s()

    def _refused(self, refusal: Refused) -> Optional[float]:
        if refusal.status == _GAP:
            return self._go_back(LogAccepted.from_json(refusal.body).size)
        if refusal.status == _TOO_LARGE and self._chunk_bytes > 1024:
            self._chunk_bytes //= 2
            self._pending = None
            return 0.0
        if refusal.status not in (_NOT_FOUND, _CONFLICT):
            _log.warning("allocation %d: the platform refused its log: %s", self.id, refusal)
        self.done = True
        return None

    def _hash(self, start: int, data: bytes) -> None:
        """Count shipped bytes once, in order; those that are shipped a second time were counted before."""
        if start > self._hashed and not self._is_hole(self._hashed, start - 1):
            self._hash_lost = True
        fresh = data[max(0, self._hashed - start) :]
        self._sha.update(fresh)
        self._hashed = max(self._hashed, start + len(data))

    def _skip_to(self, size: int) -> None:
        """Continue at `size`: the platform has all before it from an earlier run of the agent."""
        position = self._hashed
        while position < size and not self._hash_lost:
            start, data = self._source.read(position, MAX_CHUNK_BYTES)
            data = data[: max(0, size - start)]
            if not data:
                self._hash_lost = True
                break
            self._hash(start, data)
            position = start + len(data)
        self._position = size
        self._hashed = max(self._hashed, size)

    def _note_hole(self, first: int, last: int) -> None:
        if first < self._hashed:
            self._hash_lost = True  # bytes that were counted, but that the platform lost and we no longer have
        if self._is_hole(first, last):
            return
        self._found_hole(self.id, first, last)
        merged: List[Range] = []
        for low, high in sorted([*self._holes, (first, last)]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._holes = merged

    def _is_hole(self, first: int, last: int) -> bool:
        return any(low <= first and last <= high for low, high in self._holes)


def _is_rest(chunk: _Chunk, final: int) -> bool:
    """True if the chunk is the whole remainder of a log of `final` bytes, and small enough to come with its end."""
    is_last = chunk.start + len(chunk.data) == final and chunk.hole is None and not chunk.probe
    return is_last and len(chunk.data) <= MAX_REST_BYTES
