"""Shells beside a job: each a child of its shim, and each on a leash, a connection that the agent holds.

1. The agent connects to a socket in the allocation's folder, and sends what to start with the descriptors that become
   its standard streams: the slave of a terminal, or two pipes.
2. The shim forks, and the job says what the child becomes: the job's user, or a process in its container.
3. Processes of a shell carry its mark in the environment. When the shell has ended, or the agent closes its end of the
   connection (as its death does), or the job is told to stop, everything with the mark is hung up, and soon killed.
4. Only then is the end told. A process that removes the mark from its environment counts as the job's, and ends with
   it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import termios
from dataclasses import dataclass, field
from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple

from nodeagent.runtime.port import ShellRequest
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.job import Job
from nodeagent.system.clock import boottime
from nodeagent.system.sockets import is_of, listen_at

MARK = "MUSTER_SHELL"
MAX_SHELLS = 16
MAX_REQUEST_BYTES = 64 << 10
INTERACTIVE = ("/bin/sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash; fi; exec /bin/sh")

_KILL_AFTER_S = 1.0
_KILLED_STATUS = 128 + signal.SIGKILL  # an engine's word for it
# The kernel kills all that is in a container before its first process is gone, by which the shim learns of the end.
_JOB_ENDS_WITHIN_S = 0.5
_FIRST_LOOK_S, _LATER_LOOK_S = 0.01, 0.2
_MAX_DESCRIPTORS = 4096
_FORGOTTEN = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


@dataclass
class _Shell:
    """One connection, and the shell that it asked for, if it has."""

    connection: Optional[socket.socket]
    pid: int = 0
    mark: bytes = b""
    status: Optional[int] = None
    why: str = ""
    """The cause of its end; empty if it ended by itself."""
    kill_at: Optional[float] = None
    linger_until: float = 0.0
    wait_s: float = _FIRST_LOOK_S
    hung_up: Set[int] = field(default_factory=set)


class Shells:
    """All shells of one shim, served by its one thread. `fileno` is readable when `serve` has something to do."""

    def __init__(self, path: str, job: Job) -> None:
        self._job = job
        self._epoll = select.epoll()
        self._listener = listen_at(path, socket.SOCK_SEQPACKET)
        self._listener.setblocking(False)
        self._epoll.register(self._listener, select.EPOLLIN)
        self._shells: Dict[int, _Shell] = {}
        self._over = ""

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._epoll.fileno()

    def serve(self) -> None:
        """Take what agents ask, and see who has left."""
        for descriptor, _ in self._epoll.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._shells:
                self._hear(self._shells[descriptor])

    def look(self, now: float) -> Optional[float]:
        """See what has ended and end what must; return in how many seconds to look again, None for no need."""
        waits: List[float] = []
        for key, shell in tuple(self._shells.items()):
            if not shell.pid:
                continue
            if shell.status is None:
                shell.status = self._job.take_status(shell.pid)
            if shell.status is not None and shell.kill_at is None:
                self._begin_end(shell, "", now)
            if shell.kill_at is None:
                continue
            if self._end(shell, now):
                self._tell_end(shell)
                self._drop(key)
                continue
            waits.append(shell.wait_s)
            shell.wait_s = min(_LATER_LOOK_S, shell.wait_s * 2)
        return min(waits) if waits else None

    def end_all(self, why: str) -> None:
        """End every shell, and open none any more."""
        if self._over:
            return
        self._over = why
        for shell in self._shells.values():
            if not shell.pid:
                continue
            if shell.kill_at is None:
                self._begin_end(shell, why, boottime())
            elif not shell.why and _was_killed(shell.status):
                shell.why, shell.linger_until = why, 0.0

    def allow(self) -> None:
        """Open shells (again): a later time limit takes back a stop."""
        self._over = ""

    def close(self) -> None:
        """End our own children, which were outside of the job, once it is gone."""
        self.end_all("the job has ended")
        for key, shell in tuple(self._shells.items()):
            if shell.pid and shell.status is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(shell.pid, signal.SIGKILL)
                shell.status = self._job.take_status(shell.pid, wait=True)
            if shell.pid:
                self._tell_end(shell)
            self._drop(key)
        self._listener.close()
        self._epoll.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # who asked has gone already
            return
        if not is_of(connection, {0, os.geteuid()}) or len(self._shells) >= MAX_SHELLS:
            connection.close()
            return
        connection.setblocking(False)
        self._shells[connection.fileno()] = _Shell(connection)
        self._epoll.register(connection, select.EPOLLIN)

    def _hear(self, shell: _Shell) -> None:
        """A request, or the end of the leash."""
        if shell.connection is None:
            return
        key = shell.connection.fileno()
        try:
            data, descriptors, _, _ = socket.recv_fds(shell.connection, MAX_REQUEST_BYTES, 3)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        try:
            if data and not shell.pid:
                self._start(shell, data, descriptors)
                return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if data:
            return
        if not shell.pid:
            self._drop(key)
            return
        # Its end is of no interest to anybody any more, but it must come.
        self._epoll.unregister(shell.connection)
        shell.connection.close()
        shell.connection = None
        if shell.kill_at is None:
            self._begin_end(shell, "hung up", boottime())

    def _start(self, shell: _Shell, data: bytes, descriptors: List[int]) -> None:
        if self._over:
            self._send(shell, {"refused": self._over})
            return
        try:
            request = _read_request(data, len(descriptors))
            pid = os.fork()
        except (ValueError, TypeError, KeyError) as error:
            self._send(shell, {"refused": "the request makes no sense: {}".format(error)})
            return
        except OSError as error:
            self._send(shell, {"refused": "cannot fork: {}".format(error.strerror)})
            return
        if pid == 0:
            _become(self._job, request, descriptors)
        shell.pid = pid
        shell.mark = "{}={}".format(MARK, request.id).encode()
        self._job.keep_status(pid)
        self._send(shell, {"started": pid})

    def _begin_end(self, shell: _Shell, why: str, now: float) -> None:
        shell.why = why
        shell.kill_at = now + _KILL_AFTER_S
        if shell.status is None:
            # Where an engine starts the shell's processes, one may still be on its way.
            shell.linger_until = now + self._job.shells_linger_s
        elif not why and _was_killed(shell.status):
            shell.linger_until = now + _JOB_ENDS_WITHIN_S

    def _end(self, shell: _Shell, now: float) -> bool:
        """Hang up a shell's processes, or kill them after their time; True if none is left."""
        left = self._left_of(shell)
        if not left:
            return now >= shell.linger_until
        if shell.kill_at is not None and now >= shell.kill_at:
            tree.signal_all(left, signal.SIGKILL)
        else:
            fresh = left - shell.hung_up
            tree.signal_all(fresh, signal.SIGHUP)
            tree.signal_all(fresh, signal.SIGCONT)
            shell.hung_up |= fresh
        return False

    def _left_of(self, shell: _Shell) -> Set[int]:
        if shell.status is None:
            shell.status = self._job.take_status(shell.pid)
        members = [process for process in map(tree.read_process, self._job.members()) if process is not None]
        return tree.marked(shell.mark, members) | ({shell.pid} if shell.status is None else set())

    def _tell_end(self, shell: _Shell) -> None:
        status = shell.status or 0
        signalled = os.WIFSIGNALED(status)
        self._send(
            shell,
            {
                "exit_code": None if signalled else os.WEXITSTATUS(status),
                "signal": os.WTERMSIG(status) if signalled else None,
                "detail": shell.why,
            },
        )

    def _send(self, shell: _Shell, message: Dict[str, Any]) -> None:
        if shell.connection is not None:
            with contextlib.suppress(OSError):  # the agent has gone; the end of the connection says so, too
                shell.connection.send(json.dumps(message).encode())

    def _drop(self, key: int) -> None:
        shell = self._shells.pop(key)
        if shell.connection is not None:
            self._epoll.unregister(shell.connection)
            shell.connection.close()


def _was_killed(status: Optional[int]) -> bool:
    if status is None:
        return False
    return os.WTERMSIG(status) == signal.SIGKILL if os.WIFSIGNALED(status) else os.WEXITSTATUS(status) == _KILLED_STATUS


def request_to_json(request: ShellRequest) -> bytes:
    """Encode the agent's request for a shim."""
    return json.dumps(dict(request.__dict__, command=list(request.command))).encode()


def _read_request(data: bytes, descriptors: int) -> ShellRequest:
    given = json.loads(data)
    request = ShellRequest(**dict(given, command=tuple(given["command"])))
    if descriptors != (1 if request.terminal else 2):
        raise ValueError("{} descriptors".format(descriptors))
    return request


def _become(job: Job, request: ShellRequest, descriptors: List[int]) -> NoReturn:
    """Turn this forked process into the shell; what goes wrong is said on its own standard error."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_FORGOTTEN, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        first, last = descriptors[0], descriptors[-1]
        os.dup2(first, 0)
        os.dup2(last, 1)
        os.dup2(last, 2)
        os.closerange(3, _MAX_DESCRIPTORS)
        if request.terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        job.become_shell(request)
    except (OSError, ValueError) as error:
        os.write(2, "muster: {}\n".format(error).encode(errors="replace")[:1000])
    finally:
        os._exit(126)


def shell_environment(request: ShellRequest) -> Tuple[Tuple[str, str], ...]:
    """Variables of a shell beside the environment of its job."""
    return ((MARK, str(request.id)), ("TERM", request.term))
