"""The agent's end of the zygote: it starts it, asks it for shims, and starts another when it is gone."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from typing import List, Optional, Sequence

_log = logging.getLogger("nodeagent.process")


PACKAGE_HOME = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
"""The folder or zipapp that this package was loaded from."""


def python_command(code: str, paths: Sequence[str] = ()) -> List[str]:
    """The command that runs `code` with this package and `paths`. -I and -S keep all else out: quick, small, safe."""
    program = "import sys; sys.path[:0] = {!r}; sys.path += {!r}; {}".format([PACKAGE_HOME], list(paths), code)
    return [sys.executable, "-I", "-S", "-c", program]


class Forker:
    """The process that forks shims for the jobs of `module`, from the agent's side.

    `paths` are searched for what the module imports beside the standard library and this package.
    """

    def __init__(self, module: str, paths: Sequence[str] = ()) -> None:
        self._module = module
        self._paths = tuple(paths)
        self._mutex = threading.Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._socket: Optional[socket.socket] = None

    def begin(self) -> None:
        """Start the process now, so that the first shim does not wait for it."""
        with self._mutex:
            self._connection()

    def fork_shim(self, folder: str) -> None:
        """Start the shim of an allocation, or raise OSError."""
        with self._mutex:
            try:
                answer = self._ask(folder)
            except (BrokenPipeError, ConnectionResetError, EOFError):
                _log.warning("the zygote is gone; starting another")
                self._stop()
                answer = self._ask(folder)
        if not answer.startswith(b"ok "):
            raise OSError(errno.EAGAIN, answer.decode(errors="replace").strip())

    def close(self) -> None:
        """End the zygote."""
        with self._mutex:
            self._stop()

    def _ask(self, folder: str) -> bytes:
        connection = self._connection()
        connection.sendall(os.fsencode(folder) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = connection.recv(4096)
            if not data:
                raise EOFError("the zygote closed")
            answer += data
        return answer

    def _connection(self) -> socket.socket:
        if self._socket is None:
            self._socket = self._start()
        return self._socket

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        code = "from nodeagent.runtime.shim import zygote; zygote.main({!r})".format(self._module)
        command = python_command(code, self._paths)
        self._process = subprocess.Popen(command, stdin=theirs.fileno(), cwd="/", env={}, start_new_session=True)
        theirs.close()
        return ours

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.wait(10)
        self._socket = self._process = None
