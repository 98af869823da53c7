"""A command in a container of the Docker Engine, on the standard streams of this process.

1. The command is made by the API, and started by a call whose connection then carries its bytes, both ways.
2. With a terminal, ours is raw: the one inside does everything that a terminal does. Its size is passed on.
   Without one, output comes in frames that say whether it was standard output or standard error.
3. When the command has ended, the engine is asked for its exit status.

The connection is ours and not the client's: that reads ahead, and would keep the first bytes to itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
from typing import Any, Mapping, Sequence, Tuple

from nodeagent.system.files import write_all

_READ_BYTES = 1 << 16
_FRAME = struct.Struct(">BxxxI")
_MAX_HEAD_BYTES = 1 << 16
_LOOK_EVERY_MS = 1000
_UNKNOWN_STATUS = 125
_SWITCHING_PROTOCOLS = b"101"
# The engine needs detach keys, which leave the command running: a sequence that no user types.
_DETACH_KEYS = "ctrl-^,ctrl-_,ctrl-^,ctrl-_,ctrl-^"


def run_exec(
    client: Any, engine: str, name: str, argv: Sequence[str], *, env: Mapping[str, str], terminal: bool
) -> int:
    """The exit status of a command in the container, once it has ended."""
    made = client.exec_create(
        name,
        list(argv),
        stdin=True,
        tty=terminal,
        environment=["{}={}".format(key, value) for key, value in env.items()],
        detach_keys=_DETACH_KEYS,
    )
    number = str(made["Id"])
    connection, first = _start(engine, str(client._version), number, terminal)
    with connection:
        _Bridge(client, connection, number, terminal).carry(first)
    status = client.exec_inspect(number).get("ExitCode")
    return _UNKNOWN_STATUS if status is None else int(status)


def _start(engine: str, version: str, number: str, terminal: bool) -> Tuple[socket.socket, bytes]:
    """The connection that carries the bytes, and those that came with the answer."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(engine)
    body = json.dumps({"Detach": False, "Tty": terminal}).encode()
    head = (
        "POST /v{}/exec/{}/start HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n"
        "Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: {}\r\n\r\n"
    ).format(version, number, len(body))
    connection.sendall(head.encode() + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        data = connection.recv(_READ_BYTES)
        if not data or len(answer) > _MAX_HEAD_BYTES:
            raise OSError("the Docker Engine closed the connection: {!r}".format(answer[:300]))
        answer += data
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    words = head_bytes.split(b" ", 2)
    if len(words) < 2 or words[1] != _SWITCHING_PROTOCOLS:
        raise OSError("the Docker Engine said: {!r}".format(rest[:300]))
    return connection, rest


class _Bridge:
    """Bytes between our standard streams and a running command."""

    def __init__(self, client: Any, connection: socket.socket, number: str, terminal: bool) -> None:
        self._client = client
        self._connection = connection
        self._number = number
        self._terminal = terminal
        self._frames = b""
        self._resized, self._wake = os.pipe()
        for descriptor in (self._resized, self._wake):
            os.set_blocking(descriptor, False)

    def carry(self, first: bytes) -> None:
        """Carry until the command has ended."""
        if self._terminal:
            signal.signal(signal.SIGWINCH, lambda *_: None)
            signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
            self._resize()
        self._show(first)
        poller = select.poll()
        for descriptor in (0, self._connection.fileno(), self._resized):
            poller.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll(_LOOK_EVERY_MS)}
            if not ready and not self._client.exec_inspect(self._number).get("Running"):
                return  # something else holds its streams open
            if self._connection.fileno() in ready:
                data = self._connection.recv(_READ_BYTES)
                if not data:
                    return
                self._show(data)
            if self._resized in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._resized, 4096)
                self._resize()
            if 0 in ready and not self._pass_on_input():
                poller.unregister(0)

    def _pass_on_input(self) -> bool:
        """Send what was typed; False when there is no more of it."""
        try:
            data = os.read(0, _READ_BYTES)
        except OSError:  # the other end of the terminal is gone
            data = b""
        if data:
            self._connection.sendall(data)
            return True
        self._connection.shutdown(socket.SHUT_WR)
        return False

    def _resize(self) -> None:
        rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
        try:
            self._client.exec_resize(self._number, height=rows, width=cols)
        except Exception as error:  # noqa: BLE001 - it may have ended; a size is not worth a shell
            sys.stderr.write("muster: the terminal has kept its size: {}\r\n".format(error))

    def _show(self, data: bytes) -> None:
        if self._terminal:
            write_all(1, data)
            return
        self._frames += data
        while len(self._frames) >= _FRAME.size:
            stream, size = _FRAME.unpack_from(self._frames)
            if len(self._frames) < _FRAME.size + size:
                return
            write_all(2 if stream == 2 else 1, self._frames[_FRAME.size : _FRAME.size + size])
            self._frames = self._frames[_FRAME.size + size :]
