"""The embedded Valkey: Celery's broker on a Unix socket, in memory only, because it carries nothing but hints."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from muster.local import processes
from muster.local.places import LocalError, Places, service_password
from muster.local.programs import Programs, start

DATABASES = 64  # one for each worker of a parallel test run
_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 2.0
_POLL_S = 0.01


@dataclass(slots=True)
class Valkey:
    """The server of one folder, whichever process started it."""

    places: Places
    programs: Programs
    _child: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        return self.places.sockets / "valkey.sock"

    @property
    def url(self) -> str:
        """The `REDIS_URL` for it."""
        return f"unix://:{service_password(self.places)}@{self.socket_path}"

    @property
    def log(self) -> Path:
        return self.places.log / "valkey.log"

    def ensure(self) -> bool:
        """Leaves a server that answers; True when it had to be started."""
        if self.answers():
            return False
        # Nothing answers on it, so it is what a server that was killed has left.
        self.socket_path.unlink(missing_ok=True)
        options = {
            "port": "0",
            "unixsocket": str(self.socket_path),
            "unixsocketperm": "700",
            "dir": str(self.places.valkey_data),
            "databases": str(DATABASES),
            "save": "",
            "appendonly": "no",
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            "hz": "1",  # its own clock: keys expire when they are read, and everything else comes by a command
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        path = self._write_password()
        self._child = start([self.programs.valkey, path, *words], account=self.places.account, log=self.log)
        end = time.monotonic() + _START_TIMEOUT_S
        while not self.answers():
            if self._child.poll() is not None or time.monotonic() >= end:
                raise LocalError(f"Valkey did not start; see {self.log}")
            time.sleep(_POLL_S)
        return True

    def answers(self) -> bool:
        return self._ask(b"PING").startswith(b"+PONG")

    def pid(self) -> int | None:
        """The server's process; None when none answers."""
        for line in self._ask(b"INFO server").splitlines():
            if line.startswith(b"process_id:"):
                return int(line.removeprefix(b"process_id:"))
        return None

    def stop(self) -> None:
        """Ends the server; what it held is gone, which costs the platform one sweep."""
        pid = self.pid()
        if pid is not None:
            self._ask(b"SHUTDOWN NOSAVE")
        if self._child is not None:
            if pid is None:
                self._child.kill()
            self._child.wait(timeout=_STOP_TIMEOUT_S)
            self._child = None
        elif pid is not None and not processes.wait_gone(pid, timeout_s=_STOP_TIMEOUT_S):
            raise LocalError(f"Valkey (process {pid}) does not stop; see {self.log}")
        with suppress(FileNotFoundError):
            self.socket_path.unlink()

    @property
    def _password(self) -> bytes:
        return service_password(self.places).encode()

    def _write_password(self) -> Path:
        """A configuration file for the server's account alone: every user can read the words of a command."""
        path, account = self.places.valkey_data / "valkey.conf", self.places.account
        path.touch(mode=0o600)
        path.write_bytes(b"requirepass " + self._password + b"\n")
        if account is not None:
            os.chown(path, account.uid, account.gid)
        return path

    def _ask(self, command: bytes) -> bytes:
        """The first piece of the answer, which holds all of the short answers asked for here; empty for none."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(_ANSWER_TIMEOUT_S)
            try:
                link.connect(str(self.socket_path))
                link.sendall(b"AUTH " + self._password + b"\r\n")
                if not link.recv(1024).startswith(b"+OK"):
                    return b""
                link.sendall(command + b"\r\n")
                return link.recv(65536)
            except OSError:
                return b""
