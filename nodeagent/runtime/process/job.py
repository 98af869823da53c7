"""A job as the shim's own child: whatever it starts stays a descendant of the shim, which is a child subreaper."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from typing import Dict, List, Mapping, NoReturn, Optional, Set, Tuple

from nodeagent.protocol.messages import EndReason, Message
from nodeagent.runtime.port import ShellRequest
from nodeagent.runtime.process import cgroup
from nodeagent.runtime.process.namespaces import Isolation
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.job import F_SETPIPE_SZ, PIPE_BYTES, Ending, StartFailed
from nodeagent.runtime.shim.shells import INTERACTIVE, shell_environment

PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38

prctl = ctypes.CDLL(None, use_errno=True).prctl


@dataclass(frozen=True)
class Command(Message):
    """The program that is the job."""

    argv: Tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    uid: Optional[int]
    gids: Tuple[int, ...]
    cgroup: str = ""
    """The path of the job's control group; empty where no cgroups are delegated to the agent."""
    memory_mib: int = 0
    """0 = no limit."""
    pids: int = 0
    isolation: Optional[Isolation] = None
    """None = the job has no namespaces of its own."""


class ProcessJob:
    """A command that the shim forks."""

    shells_linger_s = 0.0

    def __init__(self, command: Command) -> None:
        self._command = command
        self._kept: Dict[int, Optional[int]] = {}
        self._pid = 0
        self._status: Optional[int] = None
        self.gone = False

    def start(self) -> int:
        """Fork and execute the command, with a pipe as its output."""
        if os.geteuid() == 0 and not self._command.uid:
            raise StartFailed("the job has no uid, and no job runs as root")
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if self._command.cgroup:
            try:
                cgroup.create(self._command.cgroup, memory_mib=self._command.memory_mib, pids=self._command.pids)
            except OSError as error:
                raise StartFailed("cannot make its control group: {}".format(error.strerror)) from error
        output, job_output = os.pipe()
        with contextlib.suppress(OSError):  # the user's pipe pages may be used up; the usual size does, too
            fcntl.fcntl(output, F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(output, False)
        failed, report = os.pipe()
        try:
            self._fork(job_output, report)
        except OSError as error:
            raise StartFailed("cannot fork: {}".format(error.strerror)) from error
        os.close(job_output)
        os.close(report)
        problem = b"".join(iter(lambda: os.read(failed, 4096), b"")).decode(errors="replace")
        os.close(failed)
        if problem:
            raise StartFailed(problem)
        return output

    def _fork(self, output: int, report: int) -> None:
        """Start the process that becomes the command."""
        self._pid = os.fork()
        if self._pid == 0:
            become(self._command, output, report)

    def identity(self) -> Optional[Tuple[int, int]]:
        """The shim itself: all that the job starts descends from it."""
        return tree.identity(os.getpid())

    def descriptors(self) -> Tuple[int, ...]:
        """None: the end of a child is a signal."""
        return ()

    def look(self) -> None:
        """Reap what has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.gone = True
                return
            if pid == 0:
                self.gone = False  # a shell may have come since, where what failed is kept
                return
            if pid == self._pid and self._status is None:
                self._status = status
            elif pid in self._kept:
                self._kept[pid] = status

    def keep_status(self, pid: int) -> None:
        """Have `look` keep what it reaps of a shell."""
        self._kept[pid] = None

    def take_status(self, pid: int, *, wait: bool = False) -> Optional[int]:
        """The status that `look` has reaped; once all processes are gone there is nothing to wait for."""
        if self._kept.get(pid) is not None:
            return self._kept.pop(pid)
        return signal.SIGKILL if wait else None

    @property
    def over(self) -> bool:
        """True if the command has ended."""
        return self._status is not None

    def failed(self) -> Optional[Ending]:
        """The command's failure: its folder and its user still exist, whichever process has ended."""
        return self._ending() if self._status else None

    def members(self) -> List[int]:
        """Every descendant of the shim."""
        return [process.pid for process in tree.descendants(tree.all_processes(), os.getpid())]

    def kill(self) -> None:
        """Kill every descendant, again at once while new ones appear, so that forking does not outrun it."""
        if self._command.cgroup:
            cgroup.kill(self._command.cgroup)
        killed: Set[int] = set()
        while True:
            members = set(self.members()) - killed
            if not members:
                return
            tree.signal_all(members, signal.SIGKILL)
            killed |= members

    def become_shell(self, request: ShellRequest) -> NoReturn:
        """Become the job's user, in its folder and with its environment."""
        command = self._command
        confine(command)
        if command.uid is not None:
            if request.terminal:  # it was made by the agent, and is to be the user's own
                os.fchown(0, command.uid, -1)
                os.fchmod(0, 0o600)
            os.setgroups(list(command.gids))
            os.setgid(command.gids[0])
            os.setuid(command.uid)
        os.umask(0o022)
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        os.chdir(command.cwd)
        environment = {**command.env, **dict(shell_environment(request))}
        argv = request.command or INTERACTIVE
        try:
            os.execvpe(argv[0], list(argv), environment)  # noqa: S606 - what shells are for
        except (FileNotFoundError, PermissionError) as error:
            # A folder of PATH that the user may not search refuses too, and a shell goes on to the next one.
            if isinstance(error, PermissionError) and shutil.which(argv[0], os.F_OK, environment.get("PATH")):
                raise
            os.write(2, "muster: {}: not found\n".format(argv[0][:200]).encode(errors="replace"))
            os._exit(127)

    def ending(self) -> Ending:
        """The kernel's status of the command; its control group is removed."""
        ending = self._ending()
        if self._command.cgroup:
            try:
                cgroup.remove(self._command.cgroup)
            except OSError as error:
                sys.stderr.write("its control group stays: {}\n".format(error))
        return ending

    def _ending(self) -> Ending:
        status = 0 if self._status is None else self._status
        if status and self._command.cgroup and cgroup.oom_kills(self._command.cgroup):
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            code = None if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            detail = "out of memory: the limit is {} MiB".format(self._command.memory_mib)
            return Ending(exit_code=code, signal=number, reason=EndReason.OUT_OF_MEMORY, detail=detail)
        if os.WIFSIGNALED(status):
            return Ending(signal=os.WTERMSIG(status))
        return Ending(exit_code=os.WEXITSTATUS(status))


def confine(command: Command) -> None:
    """Put this process under the job's limits, and close its way to other rights by setuid programs."""
    if command.cgroup:
        cgroup.enter(command.cgroup)
    prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def become(command: Command, output: int, report: int) -> NoReturn:
    """Turn this forked process into the job; a problem goes to `report`, whose other end sees exec as its end."""
    step = "start"
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and ignoring is inherited
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.umask(0o022)
        step = "enter its control group"
        confine(command)
        if command.uid is not None:
            step = "become user {}".format(command.uid)
            os.setgroups(list(command.gids))
            os.setgid(command.gids[0])
            os.setuid(command.uid)
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # only the shim enforces limits and leases
        step = "enter " + command.cwd
        os.chdir(command.cwd)
        step = "execute " + command.argv[0]
        os.execve(command.argv[0], list(command.argv), dict(command.env))  # noqa: S606 - what jobs are for
    except (OSError, ValueError) as error:
        os.write(report, "cannot {}: {}".format(step, getattr(error, "strerror", None) or error).encode()[:1000])
    finally:
        os._exit(126)
