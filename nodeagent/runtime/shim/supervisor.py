"""The shim: one small process between the agent and one job, which outlives the agent.

1. It takes the lock of the allocation's folder, or exits. The holder of the lock is responsible for the job.
2. It starts the job with a pipe as its output, and moves the output to the spool without ever blocking the job.
3. It enforces the deadlines: the agent's stop, the time limit, the lease.
4. If the command fails by itself, its surroundings may be kept for a time, for users to inspect.
5. When no process is left, and not before, it writes the exit status and exits.

The runtime defines the job (`job.py`): a child of the shim, or a container.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import math
import os
import re
import select
import signal
import sys
import time
from typing import Any, Callable, Dict, NoReturn, Optional, Tuple

from nodeagent.protocol.messages import EndReason
from nodeagent.runtime.port import STOPPED_BEFORE_IT_STARTED, EventKind, ExitStatus, Kept, StopCause
from nodeagent.runtime.shim import tree
from nodeagent.runtime.shim.deadlines import Cause, Deadlines
from nodeagent.runtime.shim.job import PIPE_BYTES, Ending, Job, StartFailed
from nodeagent.runtime.shim.layout import AllocationFolder, Task, cause_of, to_dict
from nodeagent.runtime.shim.shells import Shells
from nodeagent.runtime.shim.spool import SpoolWriter
from nodeagent.system.clock import boottime
from nodeagent.system.files import read_json, write_json

_READ_BYTES = 1 << 18
_NOTIFY_EVERY_S = 0.02
_LOCK_WAIT_S = 2.0
_LEASE_LOOKS = 5
_MAX_WAIT_S = 30.0  # poll counts no suspended time: look at the deadlines this often
_STATUS_BYTES = 4096
_PR_SET_NAME = 15
_NOT_FOUND = re.compile(
    r"(?:line \d+: |sh: \d+: |^(?:/bin/)?sh: )(.{1,200}?): "
    r"(?:command not found|not found|No such file or directory)\s*$"
)

MakeJob = Callable[[AllocationFolder, Task], Job]

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def run(folder: str, make_job: MakeJob) -> NoReturn:
    """Be the shim of the allocation in `folder`, in a process that was just forked for it."""
    status = 70
    try:
        paths = AllocationFolder(folder)
        _detach(paths)
        Shim(paths, make_job).live()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        os._exit(status)


class Shim:
    """The state of one shim."""

    def __init__(self, folder: AllocationFolder, make_job: MakeJob) -> None:
        self._folder = folder
        launch = read_json(folder.launch)
        if launch is None:
            raise FileNotFoundError(folder.launch)
        self._task = Task.from_dict(launch["task"])
        self._job = make_job(folder, self._task)
        self._spool = SpoolWriter(folder.log, self._task.spool_bytes)
        self._deadlines = Deadlines(self._task.stop_signal, self._task.grace_s)
        self._begun = boottime()
        self._lock = -1
        self._control: Dict[str, Any] = {}
        self._killing = False
        self._kill_again_s = 0.02
        self._tail = b""
        self._log_told_at = -math.inf
        self._log_untold = False
        self._started_at: Optional[float] = None
        self._shells: Optional[Shells] = None
        self._kept: Optional[Kept] = None
        self._over_seen = False
        self._cause: Optional[StopCause] = None

    def live(self) -> None:
        """Start the job, watch it, and leave its exit status."""
        if not self._take_lock() or os.path.exists(self._folder.exit):
            return
        _prctl(_PR_SET_NAME, b"muster-shim", 0, 0, 0)
        signals = _signal_pipe()
        wake = os.open(self._folder.wake, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._mark_start(None)
        self._reserve_status()
        if (read_json(self._folder.control) or {}).get("stop"):
            self._leave_unstarted(EndReason.NEVER_STARTED, STOPPED_BEFORE_IT_STARTED)
            return
        self._started_at, self._begun = time.time(), boottime()
        try:
            output = self._job.start()
        except StartFailed as problem:
            self._leave_unstarted(problem.reason, problem.detail)
            return
        self._mark_start(self._job.identity())
        self._begin_deadlines()
        self._shells = self._open_for_shells()
        self._tell(EventKind.RUNNING)
        self._watch(output, signals, wake)
        if self._shells is not None:
            self._shells.close()
        self._drain(output)
        self._spool.close()
        if self._log_untold:
            self._tell(EventKind.LOG)
        self._leave(self._status(self._job.ending()))

    def _mark_start(self, root: Optional[Tuple[int, int]]) -> None:
        """Say that a start was possible, and of which process the job descends once that is known."""
        own = tree.identity(os.getpid())
        write_json(self._folder.shim, {"identity": own, "root": root, "boot_id": self._task.boot_id})

    def _leave_unstarted(self, reason: EndReason, detail: str) -> None:
        self._leave(ExitStatus(reason, detail=detail, started=False, ended_at=time.time()))

    def _take_lock(self) -> bool:
        """Hold the lock until this process ends. The agent tries it for an instant at times, so insist a little."""
        self._lock = os.open(self._folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = boottime() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if boottime() >= until:
                    return False
                time.sleep(0.005)

    def _open_for_shells(self) -> Optional[Shells]:
        """A job is not worth less without shells, as on a disk that is full."""
        try:
            return Shells(self._folder.shells, self._job)
        except OSError as error:
            sys.stderr.write("no shells: {}\n".format(error))
            return None

    def _begin_deadlines(self) -> None:
        if self._task.time_limit_s is not None:
            self._deadlines.set_limit(self._begun, self._task.time_limit_s)
        self._deadlines.lease_until = self._lease_end(self._begun + self._task.stop_after_s)
        self._obey_control()

    def _watch(self, output: int, signals: int, wake: int) -> None:
        """Serve the job until no process of it is left."""
        poller = select.poll()
        ends = self._job.descriptors()
        shells = self._shells
        for descriptor in (output, signals, wake, *ends, *([] if shells is None else [shells.fileno()])):
            poller.register(descriptor, select.POLLIN)
        while True:
            self._job.look()
            self._note_end()
            if self._job.gone and not self._keeps():
                return
            self._act()
            look_in_s = None if shells is None else shells.look(boottime())
            self._tell_of_log(boottime())
            wait_ms = self._wait_ms()
            if look_in_s is not None:
                wait_ms = min(wait_ms, math.ceil(look_in_s * 1000))
            for descriptor, _ in poller.poll(wait_ms):
                if descriptor == output:
                    if not self._move_output(output):
                        poller.unregister(output)
                elif descriptor == wake:
                    _empty(wake)
                    self._obey_control()
                elif descriptor == signals:
                    _empty(signals)
                elif shells is not None and descriptor == shells.fileno():
                    shells.serve()

    def _wait_ms(self) -> int:
        now = boottime()
        until = min(self._deadlines.next_at(), now + _MAX_WAIT_S)
        if self._kept is not None:
            until = min(until, self._kept.until)
        if self._killing:
            until = now + self._kill_again_s
            self._kill_again_s = min(1.0, self._kill_again_s * 2)  # a process may be stuck in the kernel for long
        if self._log_untold:
            until = min(until, self._log_told_at + _NOTIFY_EVERY_S)
        return max(0, math.ceil((until - now) * 1000))

    def _act(self) -> None:
        """Do what is due: renew the lease from the agent's file, signal, kill."""
        now = boottime()
        if now >= self._deadlines.lease_until:
            self._deadlines.lease_until = self._lease_end(self._deadlines.lease_until)
        due = self._deadlines.due(now)
        if self._job.over and not self._keeps() and (self._kept is not None or not self._deadlines.stopping):
            self._killing = True  # the command is over: what it left behind goes with it, as in a container
        if self._shells is not None and (due is not None or self._killing):
            self._shells.end_all("the job is being stopped" if self._deadlines.stopping else "the job has ended")
        elif self._shells is not None and not self._deadlines.stopping:
            self._shells.allow()
        if due is not None and not due.kill:
            tree.signal_all(self._job.members(), signal_number(due.signal))
        if self._killing or (due is not None and due.kill):
            self._killing = True
            self._job.kill()

    def _note_end(self) -> None:
        """See that the command has ended; one that has failed by itself may be kept, and the agent is told."""
        if self._over_seen or not self._job.over:
            return
        self._over_seen = True
        failed = self._job.failed()
        if failed is None or self._task.keep_failed_s <= 0 or self._deadlines.stopping or self._killing:
            return
        reason, detail = self._why(failed)
        until = boottime() + self._task.keep_failed_s
        self._kept = Kept(until, reason, failed.exit_code, failed.signal, detail)
        try:
            write_json(self._folder.kept, to_dict(self._kept))
        except OSError as error:  # without the file, the agent cannot report that it is kept
            sys.stderr.write("not kept: {}\n".format(error))
            self._kept = None
            return
        self._tell(EventKind.KEPT)

    def _keeps(self) -> bool:
        """True while a failed command's surroundings are retained: their time is not over, and no order ends it."""
        if self._kept is None or self._killing or self._deadlines.stopping or boottime() >= self._kept.until:
            return False
        return self._job.failed() is not None

    def _lease_end(self, known: float) -> float:
        """The end of the newest lease; `known` if none can be read."""
        if self._task.outlives_its_agent:
            return math.inf
        for _ in range(_LEASE_LOOKS):
            lease = read_json(self._task.lease_path)
            # Looked at after the lease was read: an agent that comes in the place of ours writes its own there.
            if not self._is_in_its_place():
                return known
            if lease is not None:
                return float(lease["sent_at"]) + max(self._task.stop_after_s, float(lease["stop_after_s"]))
            time.sleep(0.01)  # it is being written, or there never was one
        return known

    def _is_in_its_place(self) -> bool:
        """True if the folder still exists at its path. If not, the agent's state was deleted, and no agent can renew
        this lease.
        """
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(self._folder.lock))
        except OSError:
            return False

    def _obey_control(self) -> None:
        control = read_json(self._folder.control)
        if control is None:  # it is being written again; another wake-up follows
            return
        stop, limit_at = control.get("stop"), control.get("limit_at")
        if stop and stop != self._control.get("stop"):
            self._deadlines.ask(float(stop["at"]), str(stop["signal"]), float(stop["grace_s"]))
            if not self._job.over and self._cause is None:
                self._cause = cause_of(stop)
        if limit_at is not None and limit_at != self._control.get("limit_at"):
            now = boottime()
            self._deadlines.set_limit(now, float(limit_at) - now)
        self._control = control

    def _move_output(self, output: int) -> bool:
        """Move what the job has written to the spool; False when nothing will come any more."""
        try:
            data = os.read(output, _READ_BYTES)
        except BlockingIOError:
            return True
        if not data:
            return False
        self._spool.append(data)
        self._tail = (self._tail + data[-512:])[-512:]
        self._log_untold = True
        return True

    def _drain(self, output: int) -> None:
        """Move the rest. A stranger who holds the pipe open (it can be passed on) gets no more than one pipe full."""
        for _ in range(PIPE_BYTES // 4096):
            before = self._spool.size
            if not self._move_output(output) or self._spool.size == before:
                return

    def _tell_of_log(self, now: float) -> None:
        if self._log_untold and now - self._log_told_at >= _NOTIFY_EVERY_S:
            self._log_untold, self._log_told_at = False, now
            self._tell(EventKind.LOG)

    def _tell(self, kind: EventKind) -> None:
        """Write a line for the agent, if one listens and has room; it finds out by itself otherwise."""
        try:
            descriptor = os.open(self._task.events_path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return
            raise
        try:
            os.write(descriptor, "{} {}\n".format(self._task.allocation_id, kind.value).encode())
        except (BlockingIOError, BrokenPipeError):
            return
        finally:
            os.close(descriptor)

    def _status(self, ending: Ending) -> ExitStatus:
        if self._kept is not None:
            ending = Ending(self._kept.exit_code, self._kept.signal, self._kept.reason, self._kept.detail)
            reason, detail = self._kept.reason, self._kept.detail
        else:
            reason, detail = self._why(ending)
        return ExitStatus(
            reason=reason,
            exit_code=ending.exit_code,
            signal=ending.signal,
            detail=detail,
            started_at=self._started_at,
            ended_at=time.time(),
            log_size=self._spool.size,
        )

    def _why(self, ending: Ending) -> Tuple[EndReason, str]:
        if self._cause is not None:
            return self._cause.reason, self._cause.detail
        if self._deadlines.cause is Cause.TIME_LIMIT:
            return EndReason.TIME_LIMIT, "the time limit was reached"
        if self._deadlines.cause is Cause.LEASE:
            return EndReason.AGENT_STOPPED, "the platform could not be reached for too long"
        if ending.reason is not None:
            return ending.reason, ending.detail
        if ending.signal is not None:
            return EndReason.KILLED_BY_SIGNAL, "killed by " + _signal_name(ending.signal)
        if ending.exit_code == 0:
            return EndReason.COMPLETED, ""
        if ending.exit_code == 127:
            return EndReason.COMMAND_NOT_FOUND, "command not found: " + self._missing_command()
        return EndReason.EXIT_NONZERO, "exit status {}".format(ending.exit_code)

    def _missing_command(self) -> str:
        """The command that the shell named, or the first word of the job's own."""
        for line in reversed(self._tail.decode(errors="replace").splitlines()):
            match = _NOT_FOUND.search(line)
            if match:
                return match.group(1)
        words = [word for word in self._task.command.split() if "=" not in word]
        return (words or [self._task.command])[0][:200]

    def _reserve_status(self) -> None:
        """Take the room for the exit status now: the disk may be full when it is needed."""
        with open(self._folder.exit + ".new", "wb") as file:
            file.write(b" " * _STATUS_BYTES)

    def _leave(self, status: ExitStatus) -> None:
        text = json.dumps(to_dict(status)).encode()
        with open(self._folder.exit + ".new", "r+b") as file:
            file.write(text.ljust(_STATUS_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.rename(self._folder.exit + ".new", self._folder.exit)
        self._tell(EventKind.EXITED)


def signal_number(name: str) -> int:
    """The number of a signal given as TERM or SIGTERM; TERM for a name that does not exist."""
    return int(getattr(signal, "SIG" + name.upper().removeprefix("SIG"), signal.SIGTERM))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "signal {}".format(number)


def _detach(folder: AllocationFolder) -> None:
    """Cut every tie to the agent: its session, its descriptors, its standard streams."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    errors = os.open(folder.shim_err, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(errors, 2)
    os.closerange(3, 64)
    os.chdir("/")


def _signal_pipe() -> int:
    """The reading end of a pipe that gets a byte for each signal; asked to end, the shim only takes note."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, _note)
    return reader


def _note(_number: int, _frame: object) -> None:
    """The wake-up pipe says it all."""


def _empty(descriptor: int) -> None:
    try:
        while len(os.read(descriptor, 4096)) == 4096:
            continue
    except BlockingIOError:
        return
