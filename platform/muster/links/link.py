"""One link: an SSH connection to a server, and the calls of its agent that come through it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import paramiko
from django.db import DatabaseError, InterfaceError, connections

from muster.common.sealed import unseal
from muster.fleet.package import agent_package
from muster.links import progress
from muster.links.forward import Forwarder
from muster.links.models import LinkState, Server
from muster.links.progress import Failed, plain
from muster.links.remote import Place
from muster.links.ssh import Connection, connect
from nodeagent.protocol.frames import MAGIC, PING, PONG, REQUEST, Frame, FrameError, FrameReader

log = logging.getLogger(__name__)

PING_EVERY_S = 10.0
SILENT_AFTER_S = 30.0
STEADY_AFTER_S = 30.0
ATTACH_WITHIN_S = 20.0
# An agent has at most about twenty calls under way, and two for each shell. What is beyond waits in the server, by the
# flow control of SSH.
MAX_CALLS = 56
MAX_BYTES = 16 << 20
_MAX_NOISE_BYTES = 64 << 10
_READ_BYTES = 1 << 16


class Link(threading.Thread):
    """Connects, joins the agent, and answers its calls until the link ends. What came of it is stored."""

    def __init__(self, server: Server, forwarder: Forwarder, connecting: threading.Semaphore) -> None:
        super().__init__(name=f"link-{server.node.name}", daemon=True)
        self.server = server
        self._forwarder = forwarder
        self._connecting = connecting
        self._stopping = threading.Event()
        self._connection: Connection | None = None
        self._sending = threading.Lock()
        self._budget = _Budget(MAX_CALLS, MAX_BYTES)

    def run(self) -> None:
        """One life of the link."""
        try:
            self._serve()
        except Failed as failure:
            if not self._stopping.is_set():
                log.warning("link_failed node=%s state=%s reason=%s", self._node, failure.state, failure.reason)
                self._store(partial(progress.failed, self.server, failure))
        except Exception as error:
            log.exception("link_broke node=%s", self._node)
            self._store(partial(progress.failed, self.server, Failed(LinkState.BROKEN, f"the link broke: {error!r}")))
            raise
        finally:
            if self._connection is not None:
                self._connection.close()
            connections.close_all()

    def stop(self) -> None:
        """End soon; the agent and its jobs go on."""
        self._stopping.set()
        if self._connection is not None:
            self._connection.close()
        self._budget.close()

    @property
    def _node(self) -> str:
        return self.server.node.name

    def _serve(self) -> None:
        place = Place(self.server, agent_package())
        with self._connecting:
            if self._stopping.is_set():
                return
            self._connection = connect(self.server)
            found = place.look(self._connection)
            if found.running_tag != place.tag:
                what = "another agent runs than this platform's" if found.running_tag else "the agent does not run"
                reason = f"{what}; the end of its log:\n{found.log_end}" if found.log_end else what
                self._store(lambda: progress.needs_install(self.server, reason))
                return
            channel = self._connection.open(place.attach_words())
            rest = self._until_magic(channel)
        if not self._store(lambda: progress.linked(self.server)):
            return
        log.info("link_up node=%s", self._node)
        try:
            self._pump(channel, rest)
        finally:
            self._budget.close()

    def _until_magic(self, channel: paramiko.Channel) -> bytes:
        """The bytes after the agent's first word; output of the login before it is skipped."""
        until, seen = time.monotonic() + ATTACH_WITHIN_S, b""
        channel.settimeout(ATTACH_WITHIN_S)
        while MAGIC not in seen:
            data = self._received(channel)
            if not data or len(seen) > _MAX_NOISE_BYTES or time.monotonic() > until:
                raise Failed(LinkState.LOST, f"the agent could not be joined{self._last_words(channel)}")
            seen += data
        return seen.partition(MAGIC)[2]

    def _pump(self, channel: paramiko.Channel, rest: bytes) -> None:
        """Take frames until the link ends, which is always a `Failed`, also when the platform stops it."""
        reader = FrameReader()
        credential = unseal(self.server.sealed_credential)
        began = heard = time.monotonic()
        steady = False
        channel.settimeout(PING_EVERY_S)
        data: bytes | None = rest
        while True:
            if data:
                heard = time.monotonic()
                for frame in self._frames(reader, data):
                    self._take(channel, frame, credential)
            data = self._received(channel)
            now = time.monotonic()
            if data == b"":
                raise Failed(LinkState.LOST, f"the link was lost{self._last_words(channel)}")
            if data is None:
                if now - heard > SILENT_AFTER_S:
                    raise Failed(LinkState.LOST, f"the agent said nothing for {SILENT_AFTER_S:g} s")
                self._send(channel, Frame(PING))
            if not steady and now - began > STEADY_AFTER_S:
                steady = True
                self._store(lambda: progress.steady(self.server))

    def _frames(self, reader: FrameReader, data: bytes) -> list[Frame]:
        try:
            return reader.feed(data)
        except FrameError as error:
            raise Failed(LinkState.BROKEN, f"what came through the link makes no sense: {error}") from error

    def _take(self, channel: paramiko.Channel, frame: Frame, credential: str) -> None:
        if frame.kind == PING:
            self._send(channel, Frame(PONG, frame.id))
        elif frame.kind == REQUEST:
            if not self._budget.take(len(frame.body)):
                raise Failed(LinkState.LOST, "the link was ended")
            # A daemon thread for each request, not joined: a long-poll may still hang when the link has ended.
            threading.Thread(target=self._answer, args=(channel, frame, credential), daemon=True).start()
        elif frame.kind != PONG:
            raise Failed(LinkState.BROKEN, "the agent sent an answer without a request")

    def _answer(self, channel: paramiko.Channel, frame: Frame, credential: str) -> None:
        try:
            self._send(channel, self._forwarder.answer(frame, credential))
        except Failed as failure:
            log.info("answer_not_sent node=%s reason=%s", self._node, failure.reason)
            channel.close()  # wakes the reader
        except Exception:
            log.exception("answer_broke node=%s", self._node)
            channel.close()
        finally:
            self._budget.give_back(len(frame.body))

    def _send(self, channel: paramiko.Channel, frame: Frame) -> None:
        data = frame.encode()
        try:
            with self._sending:
                channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Failed(LinkState.LOST, f"the link takes nothing any more: {error or type(error).__name__}") from error

    def _received(self, channel: paramiko.Channel) -> bytes | None:
        """Received bytes; empty at the end, None when nothing came in time."""
        try:
            return bytes(channel.recv(_READ_BYTES))
        except TimeoutError:
            return None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise Failed(LinkState.LOST, f"the link was lost: {error or type(error).__name__}") from error

    def _last_words(self, channel: paramiko.Channel) -> str:
        said = b""
        while channel.recv_stderr_ready() and len(said) < _READ_BYTES:
            said += channel.recv_stderr(4096)
        text = plain(said.decode(errors="replace"))
        return f": {text}" if text else ""

    def _store(self, write: Callable[[], bool | None]) -> bool:
        """Write to the database, on a connection that is not kept: a link may live for weeks."""
        try:
            return write() is not False
        except (DatabaseError, InterfaceError) as error:
            # The row then tells of the past for a while; the keeper finds out by its own look at it.
            log.warning("link_not_stored node=%s error=%s", self._node, error)
            return True
        finally:
            connections.close_all()


class _Budget:
    """The limits of one link's open calls: their number and their size together."""

    def __init__(self, calls: int, size: int) -> None:
        self._calls, self._size = calls, size
        self._changed = threading.Condition()
        self._closed = False

    def take(self, size: int) -> bool:
        """Wait until there is room; False when the link has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._calls > 0 and self._size >= size))
            self._calls -= 1
            self._size -= size
            return not self._closed

    def give_back(self, size: int) -> None:
        with self._changed:
            self._calls += 1
            self._size += size
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
