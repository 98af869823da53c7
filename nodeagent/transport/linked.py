"""The transport of an agent that the platform reaches over SSH: it listens on a socket and opens no connections.

The platform runs `muster-agent attach` through SSH, which connects a link to the socket. Only the newest link is used.
Requests on an older link fail, and so do requests that wait too long for a link.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import struct
import threading
import time
from typing import BinaryIO, Dict, Mapping, Optional, Tuple

from nodeagent.protocol.frames import ANSWER, MAX_BODY_BYTES, PING, PONG, REQUEST, Frame, FrameError, FrameReader
from nodeagent.system.sockets import is_of
from nodeagent.transport.linksocket import listen
from nodeagent.transport.transport import Transport, Unreachable

# A link that takes nothing for so long is dead.
_SEND_TIMEOUT_S = 30
_READ_BYTES = 1 << 16
_LOOK_EVERY_S = 0.5
_PARTIAL_CONTENT, _OK, _NO_SUCH_RANGE = 206, 200, 416

_log = logging.getLogger("nodeagent.link")


class _Waiter:
    """One call that waits for its answer."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: Optional[Tuple[int, bytes]] = None


class _Link:
    """One connection of `attach`, with the calls that were asked through it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._mutex = threading.Lock()
        self._waiting: Dict[int, _Waiter] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    @property
    def closed(self) -> bool:
        """True if no call can go through it any more."""
        return self._closed

    def call(
        self, head: Mapping[str, object], body: bytes, until: float, stopping: threading.Event
    ) -> Tuple[int, bytes]:
        waiter, number = _Waiter(), next(self._numbers) & 0xFFFFFFFF
        with self._mutex:
            if self._closed:
                raise Unreachable("the link to the platform was closed")
            self._waiting[number] = waiter
        try:
            self.send(Frame(REQUEST, number, dict(head), body))
            while not (waiter.done.wait(_slice_s(until)) or stopping.is_set() or time.monotonic() >= until):
                continue
        finally:
            with self._mutex:
                self._waiting.pop(number, None)
        if waiter.answer is None:
            raise Unreachable("the link was lost" if waiter.done.is_set() else "no answer through the link in time")
        return waiter.answer

    def send(self, frame: Frame) -> None:
        data = frame.encode()
        try:
            with self._sending:
                self._connection.sendall(data)
        except OSError as error:
            self.close()
            raise Unreachable("the link was lost: {}".format(error)) from error

    def serve(self) -> None:
        """Take answers until the link ends."""
        reader = FrameReader()
        try:
            while True:
                data = self._connection.recv(_READ_BYTES)
                if not data:
                    return
                for frame in reader.feed(data):
                    self._take(frame)
        except (OSError, FrameError, Unreachable) as error:
            _log.warning("the link broke: %s", error)
        finally:
            self.close()

    def _take(self, frame: Frame) -> None:
        if frame.kind == PING:
            self.send(Frame(PONG, frame.id))
        elif frame.kind == ANSWER:
            with self._mutex:
                waiter = self._waiting.pop(frame.id, None)
            if waiter is not None:
                status = frame.head.get("status")
                waiter.answer = (status if isinstance(status, int) else 502, frame.body)
                waiter.done.set()

    def close(self) -> None:
        with self._mutex:
            waiting, self._waiting = self._waiting, {}
            self._closed = True
        # A thread that is reading wakes up by this, and by closing alone it would not.
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            _log.debug("already closed: %s", error)
        for waiter in waiting.values():
            waiter.done.set()


class Linked(Transport):
    """Calls that go through whatever link is there."""

    vouched_for = True

    def __init__(self, state: str, stopping: threading.Event) -> None:
        self._listener = listen(state)
        self._stopping = stopping
        self._changed = threading.Condition()
        self._link: Optional[_Link] = None
        self._closed = False
        threading.Thread(target=self._accept, name="link-listener", daemon=True).start()

    def call(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float
    ) -> Tuple[int, bytes]:
        """One call, which waits for a link as long as it may take altogether."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while not self._is_linked() and not self._stopping.is_set() and time.monotonic() < until:
                self._changed.wait(_slice_s(until))
            link = self._link
        if link is None:
            raise Unreachable("the platform has opened no link to this agent")
        return link.call({"method": method, "path": path, "headers": dict(headers)}, body, until, self._stopping)

    def fetch(
        self, path: str, headers: Mapping[str, str], target: BinaryIO, limit_bytes: int, timeout_s: float
    ) -> Tuple[int, bytes]:
        """Several calls, each for as much as one answer may hold."""
        size = 0
        while size < limit_bytes:
            last = min(size + MAX_BODY_BYTES, limit_bytes) - 1
            asked = {**headers, "Range": "bytes={}-{}".format(size, last)}
            status, body = self.call("GET", path, b"", asked, timeout_s)
            if status == _NO_SUCH_RANGE and size:
                break
            if status not in (_OK, _PARTIAL_CONTENT) or (status == _OK and size):
                return status, body
            target.write(body)
            size += len(body)
            if size <= last or status == _OK:
                break
        return _OK, b""

    def local_address(self) -> str:
        """The address that the platform's SSH connection came to."""
        words = os.environ.get("SSH_CONNECTION", "").split()
        return words[2] if len(words) == 4 else "127.0.0.1"

    def close(self) -> None:
        """Take no links any more, and fail what waits for one."""
        with self._changed:
            self._closed = True
            link, self._link = self._link, None
            self._changed.notify_all()
        self._listener.close()
        if link is not None:
            link.close()

    def _is_linked(self) -> bool:
        return self._link is not None and not self._link.closed

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                raise
            if is_of(connection, {0, os.geteuid()}):
                threading.Thread(target=self._serve, args=(connection,), name="link", daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        limit = struct.pack("ll", _SEND_TIMEOUT_S, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        link = _Link(connection)
        with self._changed:
            older, self._link = self._link, link
            self._changed.notify_all()
        if older is not None:
            older.close()
        link.serve()
        with self._changed:
            if self._link is link:
                self._link = None
        connection.close()


def _slice_s(until: float) -> float:
    """Seconds until the next check whether the agent must end: a signal does not wake a waiting thread."""
    return max(0.0, min(_LOOK_EVERY_S, until - time.monotonic()))
