"""A step as srun sees it: its nodes, their output and its files, signals, and the ends of its tasks."""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodeagent.jobside.slurm import options, wire
from nodeagent.jobside.slurm.options import Parsed, Wrong
from nodeagent.jobside.slurm.patterns import NO_INDEX, Facts, differs_by_task

_READ_BYTES = 1 << 18
_INPUT_BYTES = 1 << 16
_MAX_UNTAKEN = 4
"""Pieces of input that a node may have without having given them to its tasks."""
_KILL_WAIT_S = 30
_INTERRUPTS_S = 1.0
_DECIDE_S = 0.3
_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGCONT)
_FORWARDED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


@dataclass
class NodeLink:
    """The connection to one node of the step."""

    name: str
    tasks: Sequence[int]
    launch: bytes
    connection: socket.socket | None = None
    frames: wire.Frames = field(default_factory=wire.Frames)
    untaken: int = 0
    over: bool = False


class Session:
    """One step, from its start to its end."""

    def __init__(
        self, server: socket.socket, parsed: Parsed, step: Mapping[str, Any], launches: Sequence[bytes], job: str
    ) -> None:
        self._server = server
        self._parsed = parsed
        self._id = "{}.{}".format(job, step["step"])
        self._step = str(step["step"])
        self._job = job
        shares = step["shares"]
        self._nodes = [
            NodeLink(name, share["tasks"], launch) for name, share, launch in zip(step["nodes"], shares, launches)
        ]
        self._ranks = {share["rank"]: node for share, node in zip(shares, self._nodes)}
        self._place = {task: index for index, node in enumerate(self._nodes) for task in node.tasks}
        self._statuses: dict[int, int] = {}
        self._width = len(str(max(1, len(self._place) - 1)))
        self._lines = wire.Lines()
        self._handed: list[int] = []
        self._selector = selectors.DefaultSelector()
        self._unfinished: dict[int, bytearray] = {}
        self._interrupted_at = -_INTERRUPTS_S
        self._timers: dict[str, float] = {}
        self._cancelled = False
        self._gone = False
        self._files: dict[tuple[bytes, int], int] = {}
        self._open_files()
        self._input = self._open_input()

    def live(self) -> int:
        """Serve the step until all its nodes are done, and return its exit code."""
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        for number in _CAUGHT:
            signal.signal(number, lambda *_: None)
        self._selector.register(self._server, selectors.EVENT_READ, None)
        self._selector.register(wake, selectors.EVENT_READ, "signals")
        self._begin_limit()
        while not self._gone and not all(node.over for node in self._nodes):
            self._act()
            wait_s = min((at - time.monotonic() for at in self._timers.values()), default=None)
            for key, _ in self._selector.select(None if wait_s is None else max(0.0, wait_s)):
                if isinstance(key.data, NodeLink):
                    self._hear_node(key.data)
                elif key.data == "signals":
                    for come in os.read(wake, 4096):
                        self._signalled(come)
                elif key.data == "input":
                    self._read_input()
                else:
                    self._hear_server()
        return self._code()

    def _code(self) -> int:
        """The highest of the tasks' codes, where signal N is 128 + N."""
        if self._gone:
            return 1
        codes = [
            os.WTERMSIG(one) + 128 if os.WIFSIGNALED(one) else os.WEXITSTATUS(one) for one in self._statuses.values()
        ]
        if any(os.WIFSIGNALED(one) and os.WTERMSIG(one) in (9, 15) for one in self._statuses.values()):
            self._say("Force Terminated StepId={}".format(self._id))
        return max(codes, default=1)

    def _say(self, told: str) -> None:
        if "quiet" not in self._parsed.given:
            self._write(2, "srun: {}\n".format(told).encode())

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            wire.write_all(descriptor, data)
        except BrokenPipeError:
            self._kill(signal.SIGKILL)

    # The supervisor and the nodes

    def _hear_server(self) -> None:
        data, handed, _, _ = socket.recv_fds(self._server, _READ_BYTES, 64)
        self._handed += handed
        for told in self._lines.feed(data):
            if "node" in told:
                self._take_node(self._ranks[told["node"]], socket.socket(fileno=self._handed.pop(0)))
            elif "signal" in told:
                self._ordered(int(told["signal"]))
            elif "lost" in told:
                self._lose(self._ranks[told["lost"]])
            elif told.get("stopping") is False:
                self._force()
        if not data:
            self._gone = True

    def _take_node(self, node: NodeLink, connection: socket.socket) -> None:
        node.connection = connection
        connection.setblocking(True)
        self._selector.register(connection, selectors.EVENT_READ, node)
        self._to_node(node, node.launch)
        node.launch = b""
        if all(one.connection is not None for one in self._nodes):
            self._begin_input()

    def _to_node(self, node: NodeLink, data: bytes) -> None:
        if node.connection is not None and not node.over:
            try:
                node.connection.sendall(data)
            except OSError:
                return  # it has gone, which is seen when it is heard

    def _hear_node(self, node: NodeLink) -> None:
        assert node.connection is not None  # noqa: S101 - it is heard by its connection
        try:
            data = node.connection.recv(_READ_BYTES)
        except OSError:
            data = b""
        for kind, task, content in node.frames.feed(data):
            if kind in (wire.OUTPUT, wire.ERRORS):
                self._output(kind, task, content)
            elif kind == wire.EXITED:
                self._exited(node, json.loads(content))
            elif kind == wire.TOLD:
                self._write(2, content)
            elif kind == wire.TAKEN:
                node.untaken = max(0, node.untaken - 1)
                self._watch_input()
            elif kind == wire.ENDED:
                node.over = True
        if node.over:
            self._selector.unregister(node.connection)
            node.connection.close()
        elif not data:
            self._lose(node)

    def _lose(self, node: NodeLink) -> None:
        """Give up a node that has failed; without this connection it kills its tasks."""
        if node.over:
            return
        node.over = True
        if node.connection is not None:
            self._selector.unregister(node.connection)
            node.connection.close()
        lost = [task for task in node.tasks if task not in self._statuses]
        self._statuses.update(dict.fromkeys(lost, int(signal.SIGKILL)))
        self._say("error: Node failure on {}".format(node.name))

    def _exited(self, node: NodeLink, told: Mapping[str, Any]) -> None:
        status, tasks = int(told["status"]), told["tasks"]
        if not self._statuses and "wait" in self._parsed.given and self._parsed.given["wait"] != "0":
            self._timers["wait"] = time.monotonic() + options.count("wait", self._parsed.given["wait"])
        self._statuses.update(dict.fromkeys(tasks, status))
        if not status:
            return
        which = "task {}".format(tasks[0]) if len(tasks) == 1 else "tasks " + _ranges(tasks)
        self._say("error: {}: {}: {}".format(node.name, which, _words(status)))
        if self._parsed.given.get("kill-on-bad-exit", "0") != "0" and len(self._statuses) < len(self._place):
            self._terminate()

    # Output

    def _open_files(self) -> None:
        """Open the files of output and errors.

        Raises:
            Wrong: one cannot be opened.
        """
        for kind, name, stream in ((wire.OUTPUT, "output", "stdout"), (wire.ERRORS, "error", "stderr")):
            pattern = self._parsed.given.get(name)
            if pattern is None and kind == wire.ERRORS and self._has_file(self._parsed.given.get("output")):
                self._files.update({(kind, task): self._files[wire.OUTPUT, task] for task in self._place})
                continue
            opened: dict[str, int] = {}
            for task in sorted(self._place):
                self._files[kind, task] = self._open(pattern, task, kind, stream, opened)

    @staticmethod
    def _has_file(pattern: str | None) -> bool:
        return pattern not in (None, "all", "none") and not str(pattern).isdigit()

    def _open(self, pattern: str | None, task: int, kind: bytes, stream: str, opened: dict[str, int]) -> int:
        """The descriptor to which a task's output goes; -1 = nowhere."""
        default = 1 if kind == wire.OUTPUT else 2
        if pattern in (None, "all"):
            return default
        if pattern == "none":
            return -1
        if pattern.isdigit():
            return default if int(pattern) == task else -1
        path = self._facts(task if differs_by_task(pattern) else 0).path(pattern, os.getcwd())
        if path not in opened:
            mode = os.O_APPEND if self._parsed.given.get("open-mode", "t").startswith("a") else os.O_APPEND | os.O_TRUNC
            try:
                opened[path] = os.open(path, os.O_CREAT | os.O_WRONLY | mode, 0o666)
            except OSError as error:
                raise Wrong("error: Could not open {} file: {}".format(stream, error.strerror)) from error
        return opened[path]

    def _facts(self, task: int) -> Facts:
        environment = os.environ
        index = environment.get("SLURM_ARRAY_TASK_ID", "")
        place = self._place[task]
        return Facts(
            self._job,
            self._parsed.given.get("job-name", environment.get("SLURM_JOB_NAME", "")),
            environment.get("SLURM_JOB_USER", ""),
            self._nodes[place].name,
            step=self._step,
            task=task,
            node_index=place,
            array_id=environment.get("SLURM_ARRAY_JOB_ID", ""),
            array_index=int(index) if index.isdigit() else NO_INDEX,
        )

    def _output(self, kind: bytes, task: int, data: bytes) -> None:
        descriptor = self._files[kind, task]
        if descriptor < 0:
            return
        if "label" in self._parsed.given:
            label = "{:{}d}: ".format(task, self._width).encode()
            data = b"".join(label + line for line in data.splitlines(keepends=True))
            data += b"" if data.endswith(b"\n") else b"\n"
        self._write(descriptor, data)

    # Input

    def _open_input(self) -> int | None:
        """The descriptor of the tasks' input; None = there is none.

        Raises:
            Wrong: the file cannot be opened.
        """
        pattern = self._parsed.given.get("input", "all")
        if pattern == "none":
            return None
        if pattern == "all" or pattern.isdigit():
            return 0
        try:
            return os.open(self._facts(0).path(pattern, os.getcwd()), os.O_RDONLY)
        except OSError as error:
            raise Wrong("error: Could not open stdin file: {}".format(error.strerror)) from error

    def _begin_input(self) -> None:
        if self._input is not None:
            self._watch_input()

    def _watch_input(self) -> None:
        """Read input while no node has too much of it."""
        if self._input is None:
            return
        wanted = all(node.untaken < _MAX_UNTAKEN or node.over for node in self._nodes)
        watched = self._input in self._selector.get_map()
        if wanted and not watched:
            try:
                self._selector.register(self._input, selectors.EVENT_READ, "input")
            except PermissionError:  # a file of a disk is always ready, and epoll takes none
                self._timers["input"] = time.monotonic()
        elif not wanted and watched:
            self._selector.unregister(self._input)

    def _read_input(self) -> None:
        if self._input is None:
            return
        try:
            data = os.read(self._input, _INPUT_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the terminal is another's
            data = b""
        kind = wire.INPUT if data else wire.INPUT_ENDS
        for node in self._nodes:
            node.untaken += 1
            self._to_node(node, wire.frame(kind, data))
        if not data and self._input in self._selector.get_map():
            self._selector.unregister(self._input)
        if not data:
            self._input = None
        self._watch_input()

    # Ends before the end

    def _begin_limit(self) -> None:
        if "time" in self._parsed.named:
            limit = options.minutes(self._parsed.given["time"])
            if limit is not None:
                self._timers["limit"] = time.monotonic() + limit * 60

    def _act(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        for name in [name for name, at in self._timers.items() if at <= now]:
            del self._timers[name]
            if name == "input":
                self._read_input()
            elif name == "decide":
                self._server.sendall(wire.line({"stopping": None}))
            elif name == "kill":
                self._kill(signal.SIGKILL)
            elif name == "limit":
                self._tell_cancelled(" DUE TO TIME LIMIT")
                self._stop_tasks()
            elif name == "wait":
                self._say("First task exited {}s ago".format(self._parsed.given["wait"]))
                self._terminate()

    def _ordered(self, number: int) -> None:
        """Signal the tasks as the supervisor says: that of the job's option, or the end of the script."""
        if number == signal.SIGTERM and not self._cancelled:
            self._say("Job step aborted: Waiting up to {} seconds for job step to finish.".format(_KILL_WAIT_S + 2))
            self._tell_cancelled()
        self._kill(number)

    def _signalled(self, number: int) -> None:
        now = time.monotonic()
        if number in _FORWARDED:
            self._kill(number)
        elif number == signal.SIGINT:
            if now - self._interrupted_at < _INTERRUPTS_S:
                self._say("sending Ctrl-C to StepId={}".format(self._id))
                self._kill(signal.SIGINT)
                self._interrupted_at = -_INTERRUPTS_S
                return
            self._interrupted_at = now
            self._say("interrupt (one more within 1 sec to abort)")
            running = sorted(task for task in self._place if task not in self._statuses)
            self._say("StepId={} tasks {}: running".format(self._id, _ranges(running)))
        elif number == signal.SIGTERM:
            # A stop of the job reaches the tasks by itself, and they have their time; another one ends the step.
            self._say("forcing job termination")
            self._timers["decide"] = now + _DECIDE_S

    def _force(self) -> None:
        """End the step at once."""
        self._say("Job step aborted: Waiting up to {} seconds for job step to finish.".format(_KILL_WAIT_S + 2))
        self._tell_cancelled()
        self._kill(signal.SIGKILL)

    def _terminate(self) -> None:
        """End the step because of one of its tasks."""
        if self._cancelled:
            return
        self._say("launch/slurm: _step_signal: Terminating StepId={}".format(self._id))
        self._tell_cancelled()
        self._stop_tasks()

    def _stop_tasks(self) -> None:
        self._kill(signal.SIGTERM)
        self._timers["kill"] = time.monotonic() + _KILL_WAIT_S

    def _tell_cancelled(self, why: str = "") -> None:
        if self._cancelled:
            return
        self._cancelled = True
        told = "slurmstepd: error: *** STEP {} ON {} CANCELLED AT {}{} ***\n"
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        self._write(2, told.format(self._id, self._nodes[0].name, at, why).encode())

    def _kill(self, number: int) -> None:
        """Signal the tasks on all nodes."""
        for node in self._nodes:
            self._to_node(node, wire.frame(wire.SIGNAL, str(int(number)).encode()))


def _ranges(tasks: Sequence[int]) -> str:
    """Numbers as ranges: `0-3,7`."""
    texts: list[str] = []
    first = last = -2
    for task in [*tasks, -2]:
        if task == last + 1:
            last = task
            continue
        if first >= 0:
            texts.append(str(first) if first == last else "{}-{}".format(first, last))
        first = last = task
    return ",".join(texts)


def _words(status: int) -> str:
    """The end of a task in words."""
    if not os.WIFSIGNALED(status):
        return "Exited with exit code {}".format(os.WEXITSTATUS(status))
    number = os.WTERMSIG(status)
    told = signal.strsignal(number) or "Signal {}".format(number)
    return told + (" (core dumped)" if os.WCOREDUMP(status) else "")
