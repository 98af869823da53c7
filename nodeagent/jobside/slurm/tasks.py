"""The process that runs a step's tasks on one node, at the other end of a connection to `srun`.

It sends whole lines: what a task has begun follows when the line or the task ends. It ends when all tasks have ended
and their outputs are closed; if `srun` goes, it kills them.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from nodeagent.jobside.slurm import wire
from nodeagent.jobside.slurm.environment import Job, moved, node_environment, task_environment, without_gpus
from nodeagent.jobside.slurm.layout import Share

_READ_BYTES = 1 << 18
_MAX_UNSENT = 1 << 22
_MAX_PARTIAL = 1 << 16
_TOGETHER_S = 0.03
"""Ends of tasks within this time are told together."""
_PR_SET_CHILD_SUBREAPER = 36
_CAUGHT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


@dataclass
class Task:
    """One task: its process, and the input that it has not read yet."""

    number: int
    input: int | None = None
    unread: bytearray = field(default_factory=bytearray)
    input_ends: bool = False


@dataclass
class Source:
    """One of the outputs of a task."""

    task: int
    kind: bytes
    partial: bytearray = field(default_factory=bytearray)


def run_step(connection: socket.socket, job: Job, first: Mapping[str, str]) -> NoReturn:
    """Be that process, in a fork of the node's supervisor."""
    status = 1
    try:
        _adopt_orphans()
        Step(connection, job, first).live()
        status = 0
    finally:
        os._exit(status)


def _adopt_orphans() -> None:
    """Become the parent of what tasks leave behind, so that it can be found and killed."""
    try:
        import ctypes  # noqa: PLC0415 - some small builds of Python have none

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return


class Step:
    """The tasks of a step on this node."""

    def __init__(self, connection: socket.socket, job: Job, first: Mapping[str, str]) -> None:
        self._connection = connection
        self._job = job
        self._first = first
        self._frames = wire.Frames()
        self._unsent = bytearray()
        self._running: dict[int, Task] = {}
        """The tasks that run, by their processes."""
        self._ends: list[tuple[int, int]] = []
        """Ends to be told: the task and its wait status."""
        self._tell_at = 0.0
        self._sources: dict[int, Source] = {}
        self._paused = False
        self._unbuffered = False
        self._launched = False
        self._selector = selectors.DefaultSelector()

    def live(self) -> None:
        """Start the tasks when `srun` has sent them, and serve them until all is over."""
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_CAUGHT):  # a stop is the tasks' own affair
            signal.signal(number, lambda *_: None)
        self._connection.setblocking(False)
        self._selector.register(self._connection, selectors.EVENT_READ)
        self._selector.register(wake, selectors.EVENT_READ)
        while not self._is_over():
            wait_s = max(0.0, self._tell_at - time.monotonic()) if self._ends else None
            for key, events in self._selector.select(wait_s):
                if key.fileobj is self._connection:
                    if events & selectors.EVENT_READ and not self._receive():
                        self._signal(signal.SIGKILL)
                        return
                elif key.fd == wake:
                    os.read(wake, 4096)
                elif isinstance(key.data, Source):
                    self._read(key.fd, key.data)
                else:
                    self._feed(key.data)
            self._reap()
            self._tell_ends()
            self._flush()
        self._send(wire.ENDED)
        self._connection.setblocking(True)
        self._connection.sendall(self._unsent)

    def _is_over(self) -> bool:
        return self._launched and not (self._running or self._sources or self._ends)

    def _receive(self) -> bool:
        """Obey what `srun` has sent; False when it has gone."""
        try:
            data = self._connection.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for kind, task, content in self._frames.feed(data):
            if kind == wire.LAUNCH:
                self._launch(json.loads(content))
            elif kind == wire.SIGNAL:
                self._signal(int(content))
            else:
                self._take_input(task, content, ends=kind == wire.INPUT_ENDS)
        return bool(data)

    # The tasks

    def _launch(self, step: Mapping[str, Any]) -> None:
        share = Share(**{**step["share"], "tasks": tuple(step["share"]["tasks"])})
        self._unbuffered = bool(step.get("unbuffered"))
        environment = without_gpus(node_environment(self._job, step["environment"], self._first))
        there = self._first.get("MUSTER_ALLOCATION_DIR", "")
        words = [moved(word, there, self._job.root) for word in step["words"]]
        folder = self._enter(moved(step["folder"], there, self._job.root))
        program = _program(words[0], folder, environment.get("PATH", ""))
        os.umask(int(step.get("umask", 0o022)))
        for index, number in enumerate(share.tasks):
            own = {**environment, **task_environment(self._job, step, share, index)}
            failed = self._start(Task(number), program, words, own, has_input=step["input"] in ("all", number))
            if failed:
                self._say("error: execve(): {}".format(problem(program, failed)))
                self._ends.append((number, failed << 8))
        self._launched = True

    def _start(
        self, task: Task, program: str, words: Sequence[str], environment: dict[str, str], *, has_input: bool
    ) -> int:
        """Start the task; the number of the error, or 0."""
        (given, own_input), (own_output, output), (own_errors, errors) = os.pipe(), os.pipe(), os.pipe()
        failed, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become(program, words, environment, (given, output, errors), report)
        for descriptor in (given, output, errors, report):
            os.close(descriptor)
        problem = os.read(failed, 16)
        os.close(failed)
        if problem:
            os.waitpid(pid, 0)
            for descriptor in (own_input, own_output, own_errors):
                os.close(descriptor)
            return int(problem)
        self._running[pid] = task
        for descriptor, kind in ((own_output, wire.OUTPUT), (own_errors, wire.ERRORS)):
            os.set_blocking(descriptor, False)
            self._sources[descriptor] = source = Source(task.number, kind)
            self._selector.register(descriptor, selectors.EVENT_READ, source)
        if has_input:
            os.set_blocking(own_input, False)
            task.input = own_input
        else:
            os.close(own_input)
        return 0

    def _enter(self, folder: str) -> str:
        """The folder of the tasks, which is /tmp where theirs is not there."""
        try:
            os.chdir(folder)
        except OSError as error:
            self._say(no_folder(folder, error))
            folder = "/tmp"  # noqa: S108 - as Slurm does
            os.chdir(folder)
        return folder

    def _say(self, text: str) -> None:
        self._send(wire.TOLD, "slurmstepd: {}\n".format(text).encode(errors="surrogateescape"))

    def _signal(self, number: int) -> None:
        """Signal every process of the step, parents first: a shell whose child is killed might go on otherwise."""
        signalled: set[int] = set()
        while True:
            found = [pid for pid in _descendants(os.getpid()) if pid not in signalled]
            for pid in found:
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    continue
            signalled |= set(found)
            if not found or number != signal.SIGKILL:
                return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            task = self._running.pop(pid, None)
            if task is not None:
                self._close_input(task)
                if not self._ends:
                    self._tell_at = time.monotonic() + (_TOGETHER_S if status and self._running else 0.0)
                self._ends.append((task.number, status))

    def _tell_ends(self) -> None:
        """Tell the ends of tasks, those of one status together."""
        if not self._ends or (self._running and time.monotonic() < self._tell_at):
            return
        statuses = list(dict.fromkeys(status for _, status in self._ends))
        for status in statuses:
            tasks = sorted(task for task, ended in self._ends if ended == status)
            self._send(wire.EXITED, json.dumps({"tasks": tasks, "status": status}).encode())
        self._ends = []

    # Output

    def _read(self, descriptor: int, source: Source) -> None:
        """Send what a task has written."""
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        source.partial += data
        end = source.partial.rfind(b"\n") + 1
        if not data or self._unbuffered or len(source.partial) - end > _MAX_PARTIAL:
            end = len(source.partial)
        if end:
            self._send(source.kind, bytes(source.partial[:end]), source.task)
            del source.partial[:end]
        if not data:
            self._selector.unregister(descriptor)
            del self._sources[descriptor]
            os.close(descriptor)

    def _send(self, kind: bytes, data: bytes = b"", task: int = wire.ALL_TASKS) -> None:
        self._unsent += wire.frame(kind, data, task)

    def _flush(self) -> None:
        """Send what can be sent now. Where `srun` reads slowly, tasks wait for it."""
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass  # the selector says when there is room
        except OSError:
            self._unsent.clear()  # it has gone, which `_receive` sees
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
        self._selector.modify(self._connection, wanted)
        pause = len(self._unsent) > _MAX_UNSENT
        if pause != self._paused:
            self._paused = pause
            for descriptor, source in self._sources.items():
                if pause:
                    self._selector.unregister(descriptor)
                else:
                    self._selector.register(descriptor, selectors.EVENT_READ, source)

    # Input

    def _take_input(self, number: int, data: bytes, *, ends: bool) -> None:
        """Keep input for a task, or for all, until it is read."""
        for task in self._running.values():
            if task.input is not None and number in (wire.ALL_TASKS, task.number):
                task.unread += data
                task.input_ends = task.input_ends or ends
                if task.input not in self._selector.get_map():
                    self._selector.register(task.input, selectors.EVENT_WRITE, task)
        if not any(task.unread for task in self._running.values()):
            self._send(wire.TAKEN)

    def _feed(self, task: Task) -> None:
        """Write to a task's input."""
        if task.input is None:
            return
        try:
            del task.unread[: os.write(task.input, task.unread)]
        except BlockingIOError:
            return
        except OSError:  # it has closed its input
            task.unread.clear()
            task.input_ends = True
        if not task.unread:
            if task.input_ends:
                self._close_input(task)
            else:
                self._selector.unregister(task.input)
            if not any(one.unread for one in self._running.values()):
                self._send(wire.TAKEN)

    def _close_input(self, task: Task) -> None:
        if task.input is None:
            return
        if task.input in self._selector.get_map():
            self._selector.unregister(task.input)
        os.close(task.input)
        task.input = None
        if task.unread:
            task.unread.clear()
            self._send(wire.TAKEN)


def no_folder(folder: str, error: OSError) -> str:
    """The words for a folder in which a script or a task should start, and that is not there."""
    told = "error: couldn't chdir to `{}': {}: going to /tmp instead"
    return told.format(folder, os.strerror(error.errno or 0))


def _become(
    program: str, words: Sequence[str], environment: dict[str, str], streams: tuple[int, int, int], report: int
) -> NoReturn:
    """Turn this forked process into the task; the number of an error goes to `report`."""
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and ignoring is inherited
            signal.signal(number, signal.SIG_DFL)
        for stream, descriptor in enumerate(streams):
            os.dup2(descriptor, stream)
        environment["SLURM_TASK_PID"] = str(os.getpid())
        os.execve(program, list(words), environment)  # noqa: S606 - what steps are for
    except (OSError, ValueError) as error:
        os.write(report, str(getattr(error, "errno", None) or 22).encode())
    finally:
        os._exit(126)


def _program(name: str, folder: str, path: str) -> str:
    """The file of a program."""
    if "/" in name:
        return os.path.join(folder, name)
    for place in path.split(":"):
        found = os.path.join(folder, place, name)
        if os.access(found, os.X_OK) and not os.path.isdir(found):
            return found
    return name


def problem(program: str, number: int) -> str:
    """The words for a program that cannot be executed."""
    try:
        with open(program, "rb") as file:
            begin = file.readline(200)
    except OSError:
        begin = b""
    if begin.startswith(b"#!") and os.strerror(number) == "No such file or directory":
        interpreter = begin[2:].split()[0].decode(errors="replace") if begin[2:].split() else ""
        program = "bad interpreter({})".format(interpreter)
    return "{}: {}".format(program, os.strerror(number))


def _descendants(root: int) -> Iterator[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name), "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, ())
