"""The way of the files that one job left, from its working folder to the platform, one chunk at a time.

1. Look for the files, once.
2. Name them, a batch at a time; the platform says which it wants, and how much it has of each from earlier runs of the
   agent.
3. Ship each from there on. The digest that goes with the last chunk is that of all bytes as they are here, so that the
   platform notices when what it had before is something else.
4. Tell what was left out.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import deque
from dataclasses import dataclass
from typing import Callable, Deque, Optional, Tuple

from nodeagent.protocol.messages import (
    MAX_OUTPUTS_AT_ONCE,
    LaunchSpec,
    OutputFile,
    OutputsFinishRequest,
    OutputSlot,
    OutputsRequest,
)
from nodeagent.runtime.port import WorkFolder
from nodeagent.ship.leftovers import Findings, Leftover, NotTaken, find, is_still, open_file, open_folder
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Client, Refused, Unauthorized, Unreachable

_log = logging.getLogger("nodeagent.ship.outputs")

CHUNK_BYTES = 512 << 10
_MAX_PAUSE_S = 30.0  # a platform without room may have none for long, and each try carries a chunk


@dataclass(frozen=True)
class _Chunk:
    start: int
    data: bytes
    sha256: Optional[str]


class _Sending:
    """One file on its way."""

    def __init__(self, descriptor: int, file: Leftover, slot: OutputSlot) -> None:
        self.descriptor = descriptor
        self.file = file
        self.slot = slot
        self.position = 0
        self.digest = hashlib.sha256()
        self.pending: Optional[_Chunk] = None
        self.gaps = 0


class OutputStream:
    """The files of one allocation. Only one thread at a time calls `step`."""

    def __init__(self, spec: LaunchSpec, *, folder: Callable[[], Optional[WorkFolder]], client: Client) -> None:
        self.id = spec.allocation_id
        self.done = False
        self._spec = spec
        self._folder_of = folder
        self._client = client
        self._root, self._uid = -1, -1
        self._looked = False
        self._findings = Findings()
        self._unnamed: Deque[Leftover] = deque()
        self._queue: Deque[Tuple[Leftover, OutputSlot]] = deque()
        self._sending: Optional[_Sending] = None
        self._backoff = Backoff(max_s=_MAX_PAUSE_S)

    def step(self) -> Optional[float]:
        """Ship one piece; return in how many seconds to come again."""
        if self.done:
            return None
        try:
            wait_s = self._step()
        except Unauthorized:
            raise
        except Unreachable as error:
            _log.debug("allocation %d: files: %s", self.id, error)
            return self._backoff.wait_s()
        except Refused as refusal:
            _log.warning("allocation %d: the platform refused its files: %s", self.id, refusal)
            self.done = True
            return None
        if not wait_s:
            self._backoff.reset()
        return wait_s

    def close(self) -> None:
        """Let go of open files."""
        self._put_away()
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def _step(self) -> float:
        if not self._looked:
            self._looked = True
            self._look()
        elif self._sending is not None or self._queue:
            return self._ship()
        elif self._unnamed:
            self._name()
        else:
            self._finish()
        return 0.0

    def _look(self) -> None:
        spec, folder = self._spec, self._folder_of()
        if folder is None:
            return
        self._findings = find(folder, spec.outputs, max_bytes=spec.outputs_max_bytes, max_files=spec.outputs_max_files)
        try:
            self._root, self._uid = open_folder(folder), folder.uid
        except OSError as error:
            _log.info("allocation %d: nothing to keep of its working folder: %s", self.id, error)
        else:
            self._unnamed.extend(self._findings.files)

    def _ship(self) -> float:
        """Send a chunk of the file in hand, or open the next one."""
        file = self._queue[0][0] if self._sending is None else self._sending.file
        try:
            if self._sending is not None:
                return self._send(self._sending)
            self._open(*self._queue.popleft())
        except NotTaken as error:
            self._findings.leave_out(file.path, error.reason, file.size)
            self._put_away()
        return 0.0

    def _name(self) -> None:
        batch = [self._unnamed[index] for index in range(min(len(self._unnamed), MAX_OUTPUTS_AT_ONCE))]
        request = OutputsRequest(self._spec.fence, tuple(OutputFile(file.path, file.size) for file in batch))
        slots = self._client.name_outputs(self.id, request).files
        if len(slots) != len(batch):
            raise Unreachable("{} slots for {} files".format(len(slots), len(batch)))
        for slot in slots:
            file = self._unnamed.popleft()
            if slot.wanted:
                self._queue.append((file, slot))

    def _open(self, file: Leftover, slot: OutputSlot) -> None:
        self._sending = _Sending(open_file(self._root, self._uid, file), file, slot)
        self._skip_to(self._sending, slot.size)

    def _send(self, sending: _Sending) -> float:
        chunk = sending.pending = sending.pending or self._read(sending)
        size = self._client.append_output(
            self.id, sending.slot.id, self._spec.fence, chunk.start, chunk.data, sha256=chunk.sha256
        )
        sending.pending = None
        end = chunk.start + len(chunk.data)
        if size >= end and end == sending.file.size:
            self._put_away()
            return 0.0
        if size == end:
            sending.gaps = 0
            return 0.0
        # The platform has more or less than we thought: go to where it is. If that does not help, do not hurry.
        sending.gaps += 1
        self._skip_to(sending, min(size, sending.file.size))
        return 0.0 if sending.gaps < 3 else self._backoff.wait_s()

    def _read(self, sending: _Sending) -> _Chunk:
        """The next bytes; those of a file that changes under our eyes are not shipped to the end."""
        start, file = sending.position, sending.file
        data = _pread(sending.descriptor, start, min(CHUNK_BYTES, file.size - start))
        sending.digest.update(data)
        sending.position = start + len(data)
        if not data or (sending.position == file.size and not is_still(sending.descriptor, self._uid, file)):
            raise NotTaken("changed")
        return _Chunk(start, data, sending.digest.hexdigest() if sending.position == file.size else None)

    def _skip_to(self, sending: _Sending, size: int) -> None:
        """Go on at `size`, at least one byte before the end: the last chunk must be told with its digest."""
        target = min(size, sending.file.size - 1)
        if target < sending.position:
            sending.position, sending.digest = 0, hashlib.sha256()
        while sending.position < target:
            data = _pread(sending.descriptor, sending.position, min(1 << 20, target - sending.position))
            if not data:
                return  # it has shrunk; the next read notices
            sending.digest.update(data)
            sending.position += len(data)

    def _put_away(self) -> None:
        if self._sending is not None:
            os.close(self._sending.descriptor)
            self._sending = None

    def _finish(self) -> None:
        found = self._findings
        request = OutputsFinishRequest(self._spec.fence, tuple(found.left_out), found.more, found.cut_short)
        self._client.finish_outputs(self.id, request)
        self.done = True


def _pread(descriptor: int, position: int, count: int) -> bytes:
    try:
        return os.pread(descriptor, count, position)
    except OSError as error:
        raise NotTaken("unreadable") from error
