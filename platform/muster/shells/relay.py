"""The bytes of shells on their way through this process: a window each way, in memory, and nowhere else.

Writers send by offset, and readers confirm by the offset from which they ask. A writer keeps what its reader has not
confirmed, so that a process of ours that is started again has lost nothing: both ends begin where they were. A window
is bounded, and a writer waits for room. Everything here is called from the one event loop of the process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from muster.common.errors import Conflict
from muster.events.hub import Waiter
from muster.shells.models import Shell
from muster.shells.selectors import Silence
from nodeagent.protocol.shellwire import MAX_SHELL_BYTES, SHELL_WINDOW_BYTES
from scheduler.model.lifecycle import SHELL_LIVE

KEPT_AFTER_THE_END_S = 60.0


class Window:
    """The bytes between what a reader has confirmed and what its writer has sent."""

    def __init__(self) -> None:
        self._begun = False
        self._data = bytearray()
        self.start = 0
        self.acked = 0

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + len(self._data)

    @property
    def room(self) -> int:
        """The number of bytes for which it has room."""
        return SHELL_WINDOW_BYTES - len(self._data)

    def begin(self, first: int) -> None:
        """A writer is there who can send from `first` on; only the first word of one counts."""
        if not self._begun:
            self._begun, self.start = True, max(self.start, first)

    def put(self, start: int, data: bytes) -> int:
        """Take what is new of the bytes and has room; how many that were. Behind a gap nothing is taken."""
        if start > self.end:
            return 0
        fresh = data[self.end - start :][: self.room]
        self._data += fresh
        return len(fresh)

    def take(self, offset: int) -> bytes:
        """The next bytes from `offset` on, which confirms those before it; none while there are none."""
        self.acked = max(self.acked, offset)
        if offset > self.end:
            # This process was started again, and the reader has more than it knows of.
            self.start = offset
            self._data.clear()
            return b""
        if offset < self.start:
            raise Conflict(f"the bytes from {offset} on are gone: the next ones are those from {self.start} on")
        del self._data[: offset - self.start]
        self.start = offset
        return bytes(self._data[:MAX_SHELL_BYTES])


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of a shell."""

    reason: str
    detail: str
    exit_code: int | None

    @classmethod
    def of(cls, shell: Shell) -> Closed | None:
        """The end in the row; None while the shell is live."""
        return None if shell.state in SHELL_LIVE else cls(shell.reason, shell.detail, shell.exit_code)


class Relay:
    """One shell's bytes, the size of its terminal, and who waits for either."""

    def __init__(self, shell: Shell) -> None:
        self.token_digest = shell.token_digest
        self.output = Window()
        self.input = Window()
        self.rows, self.cols = shell.rows, shell.cols
        self.input_over_at: int | None = None
        self.closed = Closed.of(shell)
        self._waiters: set[Waiter] = set()
        self._here = {"client": 0, "agent": 0}
        now = time.monotonic()
        self._seen = {"client": now, "agent": now}
        self._bytes_at = now
        self._closed_at = now

    @contextmanager
    def caller(self, who: str) -> Iterator[Waiter]:
        """A waiter for whatever changes, while the client or the agent is here."""
        waiter = Waiter()
        self._waiters.add(waiter)
        self._here[who] += 1
        try:
            yield waiter
        finally:
            self._here[who] -= 1
            self._seen[who] = time.monotonic()
            self._waiters.discard(waiter)

    def changed(self, *, bytes_moved: bool = False) -> None:
        """Wake all waiting calls."""
        if bytes_moved:
            self._bytes_at = time.monotonic()
        for waiter in tuple(self._waiters):
            waiter.wake()

    def close(self, closed: Closed) -> None:
        """The shell is over; what was written and not read yet can still be read for a while."""
        if self.closed is None:
            self.closed, self._closed_at = closed, time.monotonic()
            self.changed()

    def silence(self) -> Silence:
        """For how long nothing was heard."""
        now = time.monotonic()
        client_s, agent_s = (0.0 if self._here[who] else now - self._seen[who] for who in ("client", "agent"))
        return Silence(client_s=client_s, agent_s=agent_s, bytes_s=now - self._bytes_at)

    def is_forgotten(self) -> bool:
        """Whether it was closed so long ago that neither the client nor the agent asks for it any more."""
        gone = self.closed is not None and not any(self._here.values())
        return gone and time.monotonic() - self._closed_at > KEPT_AFTER_THE_END_S


class Relays:
    """The relays of this process, by the shells' ids."""

    def __init__(self) -> None:
        self._relays: dict[int, Relay] = {}

    def known(self, shell_id: int) -> Relay | None:
        """The relay of a shell, if there is one."""
        return self._relays.get(shell_id)

    def of(self, shell: Shell) -> Relay:
        """The relay of a shell, made if need be."""
        relay = self._relays.setdefault(shell.pk, Relay(shell))
        closed = Closed.of(shell)
        if closed is not None:
            relay.close(closed)
        return relay

    def silences(self) -> dict[int, Silence]:
        """Of each shell that is not closed, for how long nothing was heard."""
        return {number: relay.silence() for number, relay in self._relays.items() if relay.closed is None}

    def take(self, closed: Mapping[int, Closed], live: Iterable[Shell]) -> None:
        """Close the relays of closed shells, and drop forgotten ones."""
        for shell in live:
            self.of(shell)
        for number, how in closed.items():
            if number in self._relays:
                self._relays[number].close(how)
        self._relays = {number: relay for number, relay in self._relays.items() if not relay.is_forgotten()}


relays = Relays()
