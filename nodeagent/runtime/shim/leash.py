"""The agent's end of a shell: its terminal or pipes, and the connection to the shim on which the shell depends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import termios
import tty
from typing import Any, Dict, List, Optional, Tuple

from nodeagent.runtime.port import ShellEnding, ShellRefused, ShellRequest
from nodeagent.runtime.shim.shells import MAX_REQUEST_BYTES, request_to_json
from nodeagent.system.files import ShortPath

_ANSWER_WITHIN_MS = 10_000
_END_OF_INPUT = b"\x04"
_NO_MORE = "the job's shim opens no more shells"


class LeashedShell:
    """A shell that a shim has started for us.

    With `raw`, whatever starts it passes bytes on to a terminal of its own: ours changes and echoes nothing, also of
    what is typed before there is the other one.
    """

    def __init__(self, path: str, request: ShellRequest, *, raw: bool = False) -> None:
        self._terminal = request.terminal
        self._connection = _connect(path)
        self._ending: Optional[ShellEnding] = None
        self.control = self._connection.fileno()
        self.output, self.input, theirs = _streams(request, raw)
        try:
            socket.send_fds(self._connection, [request_to_json(request)], theirs)
            self._await_start()
        except ShellRefused:
            self.close()
            raise
        except BrokenPipeError as error:
            self.close()  # it closed before we could ask, and not after
            raise ShellRefused(_NO_MORE) from error
        except OSError as error:
            self.close()
            raise ShellRefused("the job is ending: {}".format(error.strerror)) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        for descriptor in {self.output, self.input}:
            os.set_blocking(descriptor, False)

    def resize(self, rows: int, cols: int) -> None:
        """Resize the terminal; its foreground processes get SIGWINCH."""
        if self._terminal and self.output >= 0:
            _set_size(self.output, rows, cols)

    def end_input(self) -> None:
        """Close the pipe; a terminal has its own way to say this."""
        if self.input < 0:
            return
        if self._terminal:
            with contextlib.suppress(OSError):  # full or closed: no process reads it
                os.write(self.input, _END_OF_INPUT)
        else:
            os.close(self.input)
            self.input = -1

    def ending(self) -> Optional[ShellEnding]:
        """The shell's end, as its shim reports it; None if that shim died."""
        if self._ending is None:
            said = self._read()
            if said is not None:
                self._ending = ShellEnding(**said) if said else ShellEnding(detail="its job has ended")
        return self._ending

    def close(self) -> None:
        """Let go; a second time does nothing."""
        self._connection.close()
        for descriptor in {self.output, self.input} - {-1}:
            os.close(descriptor)
        self.output = self.input = self.control = -1

    def _await_start(self) -> None:
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        if not poller.poll(_ANSWER_WITHIN_MS):
            raise ShellRefused("the job's shim does not answer")
        said = self._read()
        if not said:
            raise ShellRefused(_NO_MORE)
        if "refused" in said:
            raise ShellRefused(str(said["refused"]))

    def _read(self) -> Optional[Dict[str, Any]]:
        """A message of the shim, empty when it has closed; None when there is none for now."""
        try:
            data = self._connection.recv(MAX_REQUEST_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return {}
        return dict(json.loads(data)) if data else {}


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder, name = os.path.split(path)
    try:
        with ShortPath(folder) as short:
            connection.connect(short.path(name))
    except OSError as error:
        connection.close()
        raise ShellRefused("the job has ended: {}".format(error.strerror)) from error
    connection.setblocking(False)
    return connection


def _streams(request: ShellRequest, raw: bool) -> Tuple[int, int, List[int]]:
    """Our ends for output and input, and what the shell gets."""
    if request.terminal:
        master, slave = os.openpty()
        _set_size(slave, request.rows, request.cols)
        if raw:
            tty.setraw(slave)
        return master, master, [slave]
    output, their_output = os.pipe()
    their_input, input_ = os.pipe()
    return output, input_, [their_input, their_output]


def _set_size(descriptor: int, rows: int, cols: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
