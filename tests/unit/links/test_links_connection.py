"""A command on a server that ends in pieces, as a server that is busy or means no good lets it."""

from __future__ import annotations

import threading
from typing import Any, cast

import paramiko
import pytest

from muster.links.progress import Failed
from muster.links.ssh import Connection


class Channel:
    """A channel whose output has ended; what it was asked is counted."""

    def __init__(self, ended: threading.Event) -> None:
        self.status_event = ended
        self.asked = 0

    def recv(self, _most: int) -> bytes:
        self.asked += 1
        return b"said" if self.asked == 1 else b""

    def recv_exit_status(self) -> int:
        return 7

    def exit_status_ready(self) -> bool:
        return self.status_event.is_set()

    def recv_ready(self) -> bool:
        return False

    recv_stderr_ready = recv_ready

    def nothing(self, *_: object) -> None:
        """Do nothing: the channel opens and closes without effect."""

    settimeout = exec_command = sendall = close = nothing


class Transport:
    """A transport with one such channel."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    def open_session(self, **_: Any) -> Channel:
        return self.channel

    def is_active(self) -> bool:
        return True


class _ComesWhenWaitedFor(threading.Event):
    """The status of a command that ends as soon as it is waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


def connection(channel: Channel) -> Connection:
    return Connection(cast("paramiko.Transport", Transport(channel)))


def test_the_status_may_come_after_the_end_of_the_output() -> None:
    channel = Channel(_ComesWhenWaitedFor())
    done = connection(channel).run([])
    assert (done.status, done.output) == (7, b"said")
    assert channel.asked <= 2


def test_an_output_that_ends_without_a_status_is_not_asked_for_again_and_again() -> None:
    channel = Channel(threading.Event())
    with pytest.raises(Failed, match="did not end"):
        connection(channel).run([], timeout_s=0.1)
    assert channel.asked <= 2
