"""The agent's end of the zygote: it starts it, asks it for shims, and starts another when it is gone."""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import sys
import threading
from typing import Optional

_log = logging.getLogger("nodeagent.process")


class Forker:
    """The process that forks shims, from the agent's side."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._process: Optional[subprocess.Popen[bytes]] = None
        with self._mutex:
            self._socket = self._start()

    def fork_shim(self, folder: str) -> None:
        """Start the shim of an allocation, or raise OSError."""
        with self._mutex:
            try:
                answer = self._ask(folder)
            except (BrokenPipeError, ConnectionResetError, EOFError):
                _log.warning("the zygote is gone; starting another")
                self._stop()
                self._socket = self._start()
                answer = self._ask(folder)
        if not answer.startswith(b"ok "):
            raise OSError(errno.EAGAIN, answer.decode(errors="replace").strip())

    def close(self) -> None:
        """End the zygote."""
        with self._mutex:
            self._stop()

    def _ask(self, folder: str) -> bytes:
        self._socket.sendall(os.fsencode(folder) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = self._socket.recv(4096)
            if not data:
                raise EOFError("the zygote closed")
            answer += data
        return answer

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        # The folder or zipapp that this package was loaded from. -I and -S keep all else out: quick, small, and safe.
        home = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
        program = "import sys; sys.path.insert(0, {!r}); from nodeagent.runtime.process import zygote; zygote.main()"
        command = [sys.executable, "-I", "-S", "-c", program.format(home)]
        self._process = subprocess.Popen(command, stdin=theirs.fileno(), cwd="/", env={}, start_new_session=True)
        theirs.close()
        return ours

    def _stop(self) -> None:
        self._socket.close()
        if self._process is not None:
            self._process.wait(10)
