"""A job in namespaces of its own. The shim stays outside, and its child is the init of the job's PID namespace.

The init starts the command, reaps what ends, and writes a line to the shim for each of two events: the wait status when
the command has ended, and an empty line when no process is left that it could wait for. When the init dies, the kernel
kills every process of the namespace before the shim sees the init's end.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import termios
from dataclasses import replace
from typing import List, NoReturn, Optional, Tuple

from nodeagent.runtime.port import ShellRequest
from nodeagent.runtime.process import namespaces
from nodeagent.runtime.process.job import PR_SET_PDEATHSIG, Command, ProcessJob, become, confine, prctl
from nodeagent.runtime.process.namespaces import Isolation
from nodeagent.runtime.shim.job import Ending, StartFailed
from nodeagent.runtime.shim.layout import AllocationFolder, Task

_MAX_DESCRIPTORS = 4096


def make(_folder: AllocationFolder, task: Task) -> ProcessJob:
    """The job of a task of the process runtime."""
    command = Command.from_dict(task.job)
    return ProcessJob(command) if command.isolation is None else IsolatedJob(command)


class IsolatedJob(ProcessJob):
    """A command in its own namespaces."""

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self._init = 0
        self._events = -1
        self._unread = b""

    def start(self) -> int:
        """Make the namespaces and start the command in them."""
        try:
            return super().start()
        except StartFailed:
            self._end_init()
            raise

    def _fork(self, output: int, report: int) -> None:
        """Fork a process that makes the namespaces, forks their init and ends: the shim becomes the init's parent."""
        self._events, events = os.pipe()
        os.set_blocking(self._events, False)
        named, name = os.pipe()
        gate, opening = os.pipe()
        head = os.fork()
        if head == 0:
            os.close(opening)
            _make_namespaces(self._command, output, report, events=events, name=name, gate=gate)
        for descriptor in (events, name, gate):
            os.close(descriptor)
        os.waitpid(head, 0)
        number = os.read(named, 100)
        if number:
            self._init = int(number)
            self.keep_status(self._init)
            with contextlib.suppress(BrokenPipeError):  # the init has failed, and `report` says why
                os.write(opening, b"!")
        os.close(opening)
        os.close(named)

    def descriptors(self) -> Tuple[int, ...]:
        """The pipe by which the init tells that something ended."""
        return (self._events,)

    def look(self) -> None:
        """Reap what has ended; the job is gone when the command is over and only the init is left."""
        self._read_events()
        super().look()
        status = self._kept[self._init]
        if status is not None and self._status is None:
            self._read_events()
            if self._status is None:  # the command died with the init
                self._status = status
        if not self.gone and self.over:
            reaped = all(kept is not None for pid, kept in self._kept.items() if pid != self._init)
            self.gone = reaped and not self.members()

    def members(self) -> List[int]:
        """Every descendant of the shim but the init, which has no part in the job."""
        return [pid for pid in super().members() if pid != self._init]

    def kill(self) -> None:
        """Kill the init, and with it all in its namespace, and the parents of shells outside."""
        if self._kept[self._init] is None:
            os.kill(self._init, signal.SIGKILL)
        super().kill()

    def failed(self) -> Optional[Ending]:
        """The command's failure: its namespaces still exist, whichever process has ended."""
        return super().ending() if self._status and self._kept[self._init] is None else None

    def ending(self) -> Ending:
        """The kernel's status of the command; the init is ended."""
        self._end_init()
        return super().ending()

    def become_shell(self, request: ShellRequest) -> NoReturn:
        """Enter the namespaces with a child that becomes the shell, and end as it ends."""
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        # Signals to the job reach the shell itself; this process only waits for it.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        if request.terminal:
            fcntl.ioctl(0, termios.TIOCNOTTY)
        confine(self._command)  # control groups are read-only in the namespaces
        self._command = replace(self._command, cgroup="")
        namespaces.enter(self._init)
        child = os.fork()
        if child == 0:
            os.setsid()
            if request.terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            super().become_shell(request)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.kill(os.getpid(), os.WTERMSIG(status))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {os.WTERMSIG(status)})
        os._exit(os.WEXITSTATUS(status))

    def _read_events(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data = os.read(self._events, 4096)
                if not data:
                    break
                self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        for line in filter(None, lines):
            self._status = int(line)

    def _end_init(self) -> None:
        """Kill the init, and reap it.

        The kernel holds its end until all of its namespace is reaped, and the shim is the parent of what a shell left.
        """
        if not self._init or self._kept[self._init] is not None:
            return
        os.kill(self._init, signal.SIGKILL)
        while self._kept[self._init] is None:
            pid, status = os.waitpid(-1, 0)
            if pid in self._kept:
                self._kept[pid] = status


def _make_namespaces(command: Command, output: int, report: int, *, events: int, name: int, gate: int) -> NoReturn:
    """Make the namespaces, and write the PID of their init to `name`; a problem goes to `report`.

    The init waits until `gate` is readable, and then starts the command and writes its events to `events`.
    """
    try:
        confine(command)  # control groups are read-only in the namespaces
        command = replace(command, cgroup="")
        namespaces.create(command.isolation or Isolation())
        init = os.fork()
        if init:
            os.write(name, str(init).encode())
            os._exit(0)
        os.close(name)
        if not os.read(gate, 1):  # the shim is gone
            os._exit(126)
        # Only now is the shim the parent: it has waited for the end of the first one.
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        namespaces.mount_proc()
        _be_init(command, output, report, events)
    except (OSError, ValueError) as error:
        words = filter(None, (getattr(error, "filename", None), getattr(error, "strerror", None) or str(error)))
        os.write(report, "cannot make its namespaces: {}".format(": ".join(map(str, words))).encode()[:1000])
    finally:
        os._exit(126)


def _be_init(command: Command, output: int, report: int, events: int) -> NoReturn:
    """Start the command, and reap until killed."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)  # the kernel keeps an init from signals that it does not handle
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        become(command, output, report)
    os.dup2(events, 0)
    os.closerange(3, _MAX_DESCRIPTORS)  # the shim's lock among them
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os.write(0, b"\n")
            signal.sigwait({signal.SIGCHLD})
            continue
        if pid == child:
            os.write(0, b"%d\n" % status)
