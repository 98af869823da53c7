"""The shells of this node: one for each that the platform wants, with two threads that carry its bytes.

Output is kept until the reader has confirmed it, so none is lost when the platform restarts. While a full window is
unconfirmed, the agent does not read from the terminal, and the shell blocks. Input counts as taken when the terminal
has it.
"""

from __future__ import annotations

import base64
import binascii
import errno
import logging
import os
import select
import threading
import time
from typing import Callable, Dict, Optional, Sequence, TypeVar

from nodeagent.protocol.shellwire import (
    MAX_SHELL_BYTES,
    SHELL_WINDOW_BYTES,
    ShellEnd,
    ShellEndRequest,
    ShellInputRequest,
    ShellOpenAnswer,
    ShellOpenRequest,
    ShellOutputRequest,
    WantedShell,
)
from nodeagent.runtime.port import Shell, ShellEnding, ShellRefused, ShellRequest
from nodeagent.sync.agent import Agent
from nodeagent.system.backoff import Backoff
from nodeagent.transport.client import Refused, Unreachable

MAX_SHELLS = 16
INPUT_WAIT_S = 20.0
_POLL_MS = 500
_FIRST_WORD_WITHIN_S = 30.0
_LATE_S = 60.0

_log = logging.getLogger("nodeagent.streams.shells")

T = TypeVar("T")


class Over(Exception):
    """The platform no longer wants the shell."""


class Shells:
    """Every shell of the agent. `want` is called by the main loop only."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._talks: Dict[int, Talk] = {}

    def want(self, wishes: Sequence[WantedShell]) -> None:
        """Open what is not open yet, and end what is not wanted any more."""
        wanted = {wish.id: wish for wish in wishes}
        for number, talk in tuple(self._talks.items()):
            if number not in wanted:
                talk.hang_up()
            # One that has ended is kept while it is wanted: a wish from before its end must not open it again.
            if number not in wanted and not talk.is_alive():
                del self._talks[number]
        for number, wish in wanted.items():
            if number not in self._talks and sum(talk.is_alive() for talk in self._talks.values()) < MAX_SHELLS:
                self._talks[number] = Talk(wish, self._agent)
                self._talks[number].start()


class Talk(threading.Thread):
    """One shell, from its opening to its end."""

    def __init__(self, wish: WantedShell, agent: Agent) -> None:
        super().__init__(name="shell-{}".format(wish.id), daemon=True)
        self._wish = wish
        self._client = agent.client
        self._session = agent.session
        self._runtime = agent.runtime
        self._over = threading.Event()
        self._answered_at = time.monotonic()
        self._lost_after_s = _FIRST_WORD_WITHIN_S
        self._resync = threading.Event()

    def hang_up(self) -> None:
        """End soon, and with it the shell."""
        self._over.set()

    def run(self) -> None:
        """Open the shell, carry its output, and tell its end."""
        try:
            self._live()
        except Over:
            _log.info("shell %d: over", self._wish.id)
        except Refused as refusal:
            _log.info("shell %d: %s", self._wish.id, refusal.detail)
        finally:
            self._over.set()

    def _live(self) -> None:
        wish = self._wish
        opening = ShellOpenRequest(wish.fence, self._session.epoch)
        asked = self._insist(lambda: self._client.open_shell(wish.allocation_id, wish.id, opening))
        self._lost_after_s = asked.lost_after_s
        request = ShellRequest(wish.id, asked.command, asked.terminal, asked.term, asked.rows, asked.cols)
        try:
            shell = self._runtime.shell(wish.allocation_id, request)
        except ShellRefused as refusal:
            self._tell_end(ShellEnd.NOT_STARTED, ShellEnding(detail=str(refusal)))
            return
        _log.info("shell %d: open in allocation %d", wish.id, wish.allocation_id)
        hands = _Hands(shell)
        try:
            threading.Thread(target=self._carry_input, args=(hands, asked), name=self.name + "-in", daemon=True).start()
            ending = self._carry_output(shell, time.monotonic() + asked.ends_in_s + _LATE_S)
        finally:
            hands.close()
        self._tell_end(ShellEnd.JOB_ENDED if ending.detail else ShellEnd.EXITED, ending)

    def _carry_output(self, shell: Shell, until: float) -> ShellEnding:
        """Send what the shell writes, and return how it ended once all of it is sent."""
        kept, first, sent = bytearray(), 0, 0
        poller = select.poll()
        for descriptor in {shell.output, shell.control}:
            poller.register(descriptor, select.POLLIN)
        ending: Optional[ShellEnding] = None
        at_end = False
        while True:
            if self._over.is_set() or time.monotonic() > until:
                raise Over
            end = first + len(kept)
            if sent < end or len(kept) >= SHELL_WINDOW_BYTES or self._resync.is_set():
                self._resync.clear()
                chunk = bytes(kept[sent - first :][:MAX_SHELL_BYTES])
                said = ShellOutputRequest(
                    self._wish.fence, self._session.epoch, first, sent, base64.b64encode(chunk).decode()
                )
                answer = self._insist(
                    lambda said=said: self._client.send_output(self._wish.allocation_id, self._wish.id, said)  # type: ignore[misc]
                )
                acked = min(max(answer.acked, first), end)
                del kept[: acked - first]
                first = acked
                sent = min(max(answer.size, first), end)
                if sent < end:
                    continue
            if ending is not None and at_end:
                return ending
            room = SHELL_WINDOW_BYTES - len(kept)
            ready = {descriptor for descriptor, _ in poller.poll(0 if ending is not None else _POLL_MS)}
            if ending is None and shell.control in ready:
                ending = shell.ending()
                poller.unregister(shell.control)
            if not at_end and (shell.output in ready or ending is not None) and room > 0:
                data, finished = _read(shell.output, min(room, MAX_SHELL_BYTES))
                kept += data
                # A stranger may hold the other end open, and has nothing more to say.
                at_end = finished or (ending is not None and not data)
                if finished:
                    poller.unregister(shell.output)

    def _carry_input(self, hands: "_Hands", asked: ShellOpenAnswer) -> None:
        """Write what is typed, in a thread of its own."""
        try:
            self._write_input(hands, asked)
        except Over:
            return
        except Refused as refusal:
            _log.info("shell %d: %s", self._wish.id, refusal.detail)
        finally:
            self._over.set()

    def _write_input(self, hands: "_Hands", asked: ShellOpenAnswer) -> None:
        rows, cols, taken, over = asked.rows, asked.cols, 0, False
        while not self._over.is_set():
            request = ShellInputRequest(
                self._wish.fence, self._session.epoch, taken, rows, cols, INPUT_WAIT_S, over=over
            )
            answer = self._insist(
                lambda request=request: self._client.take_input(self._wish.allocation_id, self._wish.id, request)  # type: ignore[misc]
            )
            if (answer.rows, answer.cols) != (rows, cols):
                rows, cols = answer.rows, answer.cols
                hands.resize(rows, cols)
            try:
                data = base64.b64decode(answer.data, validate=True)
            except (binascii.Error, ValueError) as error:
                raise Unreachable("what was typed is not base64") from error
            if not hands.write(data, self._over):
                raise Over
            taken += len(data)
            if answer.over and not over:
                over = True
                hands.end_input()

    def _insist(self, ask: Callable[[], T]) -> T:
        """The platform's answer, however long an outage takes that a shell survives."""
        backoff = Backoff()
        while not self._over.is_set():
            try:
                answer = ask()
            except Unreachable as error:
                if time.monotonic() - self._answered_at > self._lost_after_s:
                    _log.warning("shell %d: the platform was silent for too long: %s", self._wish.id, error)
                    self._over.set()
                    break
                # Started again, it knows nothing of what was not confirmed.
                self._resync.set()
                self._over.wait(min(2.0, backoff.wait_s()))
            else:
                self._answered_at = time.monotonic()
                return answer
        raise Over

    def _tell_end(self, reason: ShellEnd, ending: ShellEnding) -> None:
        request = ShellEndRequest(
            self._wish.fence,
            self._session.epoch,
            reason,
            exit_code=ending.exit_code,
            signal=ending.signal,
            detail=ending.detail[:400],
        )
        self._insist(lambda: self._client.end_shell(self._wish.allocation_id, self._wish.id, request))


class _Hands:
    """The writer to a shell that another thread may close meanwhile."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._mutex = threading.Lock()
        self._closed = False

    def write(self, data: bytes, over: threading.Event) -> bool:
        """Write every byte, however slowly they are read; False if the shell was closed meanwhile.

        A shell that has closed its input goes on without it.
        """
        while data:
            with self._mutex:
                if self._closed:
                    return False
                descriptor = self._shell.input
                try:
                    data = data[os.write(descriptor, data) :] if descriptor >= 0 else b""
                    continue
                except BlockingIOError:
                    poller = select.poll()
                    poller.register(descriptor, select.POLLOUT)
                except OSError:
                    return True
            if over.is_set():
                return False
            poller.poll(_POLL_MS)
        return True

    def resize(self, rows: int, cols: int) -> None:
        with self._mutex:
            if not self._closed:
                self._shell.resize(rows, cols)

    def end_input(self) -> None:
        with self._mutex:
            if not self._closed:
                self._shell.end_input()

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._shell.close()


def _read(descriptor: int, limit: int) -> "tuple[bytes, bool]":
    """The bytes that can be read now, and True at their end; a terminal without a process behind it fails with EIO."""
    data = b""
    while len(data) < limit:
        try:
            piece = os.read(descriptor, limit - len(data))
        except BlockingIOError:
            return data, False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            piece = b""
        if not piece:
            return data, True
        data += piece
    return data, False
