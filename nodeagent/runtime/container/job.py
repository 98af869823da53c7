"""A job as a container, watched by its shim through the kernel: the engine may even be restarted meanwhile.

1. The container is made under a name that its allocation and fence give, and started. Its output comes by a FIFO, its
   volumes come from places that are there for as long as the start takes.
2. Its first process is held by a pidfd, which becomes readable when it ends; by then the kernel has ended every other
   process of its PID namespace.
3. A guard process kills it if the shim dies, because nothing else would enforce its deadlines.
4. The engine is asked for the exit status, and the container is removed before that status is told.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import time
from dataclasses import replace
from typing import Callable, List, NoReturn, Optional, Sequence, Tuple, TypeVar

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.container.engine import Engine, EngineError, EngineUnavailable, NameTaken, State
from nodeagent.runtime.container.init import CATCHES_BY
from nodeagent.runtime.container.memory import oom_kills, open_oom_counter
from nodeagent.runtime.container.plan import Mount, Plan
from nodeagent.runtime.container.volumes import Staged, VolumeRefused, missing, staged
from nodeagent.runtime.port import ShellRequest
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.job import F_SETPIPE_SZ, PIPE_BYTES, Ending, StartFailed
from nodeagent.runtime.shim.layout import AllocationFolder
from nodeagent.runtime.shim.shells import INTERACTIVE, shell_environment
from nodeagent.system.clock import boottime

_INIT_WAIT_S = 5.0
_ENGINE_WAIT_S = 60.0
_LOOK_EVERY_S = 0.01
_STATUS_BYTES = 64
_SIGNALS = range(1, 65)
_PR_SET_PDEATHSIG = 1
# Without the shell, engines have three different statuses for a command that does not exist.
_EXECUTE = 'exec "$@"'

_prctl = ctypes.CDLL(None, use_errno=True).prctl

T = TypeVar("T")


class ContainerJob:
    """One container, from its making to its removal."""

    shells_linger_s = 2.0

    def __init__(self, plan: Plan, folder: AllocationFolder, engine: Engine) -> None:
        self._plan = plan
        self._folder = folder
        self._engine = engine
        self._pid = 0
        self._pidfd = -1
        self._leash = -1
        self._oom_counter: Optional[int] = None
        self._oom_kills = 0
        self._status = -1
        self._told: Optional[int] = None
        self.gone = False

    def start(self) -> int:
        """Make and start the container; where that fails, it is removed."""
        # Open for writing too, so that reads see no end of file when writers come and go.
        output = os.open(self._folder.out, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._status = os.open(self._folder.status, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # the user's pipe pages may be used up; the usual size does, too
            fcntl.fcntl(output, F_SETPIPE_SZ, PIPE_BYTES)
        try:
            with staged(self._plan.volumes, self._plan.name) as volumes:
                self._engine.create(_with_volumes(self._plan, volumes))
                self._engine.start(self._plan.name)
            state = self._engine.state(self._plan.name)
            _require_volumes(volumes, state)
        except VolumeRefused as problem:
            self._engine.remove(self._plan.name)
            raise StartFailed(str(problem), problem.reason) from problem
        except NameTaken as problem:
            self._engine.remove(self._plan.name)
            raise StartFailed("a container of this attempt was there already; it is removed") from problem
        except EngineError as problem:
            self._engine.remove(self._plan.name)
            raise _why_not_started(self._plan, problem) from problem
        self._hold(state)
        return output

    def identity(self) -> Optional[Tuple[int, int]]:
        """The container's first process."""
        return tree.identity(self._pid) if self._pid else None

    def descriptors(self) -> Tuple[int, ...]:
        """The pidfd of the container's first process, and by what that tells how the command failed."""
        return (self._pidfd, self._status) if self._pidfd >= 0 else (self._status,)

    def look(self) -> None:
        """See whether the first process, and with it every other one, has ended."""
        if not self.gone:
            self._hear()
            poller = select.poll()
            poller.register(self._pidfd, select.POLLIN)
            self.gone = bool(poller.poll(0))
            if self.gone:  # at once: the engine is about to remove the control group
                self._oom_kills = max(self._oom_kills, oom_kills(self._oom_counter))

    def failed(self) -> Optional[Ending]:
        """The first process's failure, while that process and its container exist."""
        return None if self.gone or self._told is None else self._ending_of(self._told, None)

    @property
    def over(self) -> bool:
        """A container's command and its processes end together, unless the first process has told otherwise."""
        return self.gone or self._told is not None

    def members(self) -> List[int]:
        """Every process of the container's PID namespace; the first one is asked to stop only once it understands."""
        self._await_init()
        namespace = tree.pid_namespace(self._pid)
        if namespace is None:
            return []
        return [pid for pid in tree.all_processes() if tree.pid_namespace(pid) == namespace]

    def kill(self) -> None:
        """Kill the first process, which takes all others with it."""
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def become_shell(self, request: ShellRequest) -> NoReturn:
        """Enter the container by the engine, as its user; the engine gives no more than the container has."""
        with contextlib.suppress(OSError):
            _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        argv = ("/bin/sh", "-c", _EXECUTE, "muster", *request.command) if request.command else INTERACTIVE
        self._engine.become_exec(self._plan.name, argv, env=dict(shell_environment(request)), terminal=request.terminal)

    def keep_status(self, pid: int) -> None:
        """Nothing to do: no other child of the shim's is waited for."""

    def take_status(self, pid: int, *, wait: bool = False) -> Optional[int]:
        """The kernel's status of the child that stands for a shell."""
        try:
            ended, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            return int(signal.SIGKILL)
        return status if ended else None

    def ending(self) -> Ending:
        """The engine's account of the end; the container is removed."""
        try:
            state = _insist(self._final_state)
            _insist(lambda: self._engine.remove(self._plan.name))
        except EngineError as problem:
            # No process is left, so the end can be told; the agent removes what the engine still has of it.
            return Ending(reason=EndReason.UNKNOWN, detail="how it ended is not known: {}".format(problem))
        if self._told is not None:
            return self._ending_of(self._told, state)  # it was killed in the end, which says nothing of the command
        if state is None or state.exit_code is None:
            return Ending(reason=EndReason.UNKNOWN, detail="its container was removed outside Muster")
        return self._ending_of(state.exit_code, state)

    def _ending_of(self, status: int, state: Optional[State]) -> Ending:
        engine_says = state is not None and state.oom_killed
        return ending_of(status, engine_says or self._oom_kills > 0, self._plan.memory_mib)

    def _hear(self) -> None:
        """Take the status of the command that the first process tells. The job can write it, too: of itself only."""
        try:
            word = os.read(self._status, _STATUS_BYTES).split(b"\n")[0]
        except BlockingIOError:
            return
        if self._told is None and word.isdigit() and 0 < int(word) < 256:
            self._oom_kills = oom_kills(self._oom_counter)
            self._told = int(word)

    def _hold(self, state: Optional[State]) -> None:
        """Take hold of the container's first process, unless it has ended already."""
        if state is None or not state.pid:
            self.gone = True
            return
        try:
            self._pidfd = os.pidfd_open(state.pid)
        except ProcessLookupError:
            self.gone = True
            return
        if not tree.is_in_cgroup_of(state.pid, state.id):  # it has ended, and its pid was reused
            os.close(self._pidfd)
            self._pidfd, self.gone = -1, True
            return
        self._pid = state.pid
        self._oom_counter = open_oom_counter(state.pid)
        self._post_guard()

    def _await_init(self) -> None:
        """Wait until the first process catches signals: until then the kernel drops those that are sent to it."""
        until = boottime() + _INIT_WAIT_S
        while not tree.catches(self._pid, CATCHES_BY) and boottime() < until:
            self.look()
            if self.gone:
                return
            time.sleep(_LOOK_EVERY_S)

    def _post_guard(self) -> None:
        reader, self._leash = os.pipe()
        if os.fork() == 0:
            _guard(reader, self._pidfd)
        os.close(reader)

    def _final_state(self) -> Optional[State]:
        """The state once the engine has noticed the end, a moment after the kernel."""
        until = boottime() + _ENGINE_WAIT_S
        while True:
            state = self._engine.state(self._plan.name)
            if state is None or not state.running:
                return state
            if boottime() >= until:
                raise EngineError("the engine says that the container runs, and its processes are gone")
            time.sleep(_LOOK_EVERY_S)


def ending_of(status: int, oom_killed: bool, memory_mib: int) -> Ending:
    """The end that the exit status of a container means; 128 + N is signal N."""
    number = status - 128 if status - 128 in _SIGNALS else None
    code = status if number is None else None
    if oom_killed and status != 0:
        detail = "out of memory: the limit is {} MiB".format(memory_mib)
        return Ending(exit_code=code, signal=number, reason=EndReason.OUT_OF_MEMORY, detail=detail)
    return Ending(exit_code=code, signal=number)


def _with_volumes(plan: Plan, volumes: Sequence[Staged]) -> Plan:
    mounts = [Mount(one.place, one.volume.target, volume=True, read_only=one.volume.read_only) for one in volumes]
    return replace(plan, mounts=(*plan.mounts, *mounts))


def _require_volumes(volumes: Sequence[Staged], state: Optional[State]) -> None:
    """Return unless the container runs without a volume: its engine may not see what is mounted where the agent is."""
    if not volumes or state is None or not state.pid:
        return
    one = missing(volumes, state.pid)
    if one is not None and tree.is_in_cgroup_of(state.pid, state.id):
        detail = "the engine did not mount it as it should: do it and the agent see the same mounts of this machine?"
        raise VolumeRefused(EndReason.LAUNCH_FAILED, one.volume.name, detail)


def _why_not_started(plan: Plan, problem: EngineError) -> StartFailed:
    text = " ".join(str(problem).split())
    if plan.entrypoint in text and ("no such file" in text or "not found" in text):
        detail = "image {} has no {}, and a command needs a shell".format(plan.image, plan.entrypoint)
        return StartFailed(detail, EndReason.COMMAND_NOT_FOUND)
    return StartFailed("the container was not started: {}".format(text)[:1000])


def _insist(ask: Callable[[], T]) -> T:
    """The answer of an engine that may be restarting."""
    until = boottime() + _ENGINE_WAIT_S
    while True:
        try:
            return ask()
        except EngineUnavailable:
            if boottime() >= until:
                raise
            time.sleep(0.5)


def _guard(reader: int, pidfd: int) -> NoReturn:
    """Kill the container when the shim's end of the pipe closes. All else of the shim's is let go, its lock too."""
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        first, second = sorted((reader, pidfd))
        for low, high in ((0, first), (first + 1, second), (second + 1, 4096)):
            os.closerange(low, high)
        os.read(reader, 1)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        os._exit(0)  # it ended before
    finally:
        os._exit(1)
