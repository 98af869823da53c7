"""muster-batch, the supervisor of a batch script on each node of its job.

On the first node it runs the script as Slurm does, with its files and variables, and serves `srun`. Its output goes to
the script's files, and to its own for the platform's log. It ends as the script does.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from nodeagent.jobside.slurm.controller import Controller
from nodeagent.jobside.slurm.environment import SOCKET, Job, script_environment
from nodeagent.jobside.slurm.follower import follow
from nodeagent.jobside.slurm.signals import number_of
from nodeagent.jobside.slurm.tasks import no_folder, problem
from nodeagent.jobside.slurm.wire import write_all

_READ_BYTES = 1 << 18
_NO_FILE = 53
"""The signal with which a job ends in Slurm if its output cannot be opened."""
_RANKS_S = 900.0
_KILL_WAIT_S = 30.0
"""The time that steps have to end when their script has."""
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(words: Sequence[str]) -> int:
    """Be the supervisor on this node; the words are its name, the script and its arguments."""
    job = Job.here()
    if job.rank > 0:
        return follow(job)
    status = Supervisor(job).run(words[1:])
    if status < 0:
        _end_by(-status)
    return status


def _end_by(number: int) -> None:
    """End this process by a signal, without a core file."""
    import resource  # noqa: PLC0415 - few scripts end so

    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Copy:
    """A pipe of the script, copied to a file of its own and to the platform's log."""

    def __init__(self, file: int | None) -> None:
        self._file = file
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)

    def say(self, text: str) -> None:
        """Write a line of ours."""
        self._write(text.encode(errors="surrogateescape") + b"\n")

    def move(self) -> bool:
        """Copy what is there; False when no more will come."""
        try:
            data = os.read(self.reading, _READ_BYTES)
        except BlockingIOError:
            return True
        self._write(data)
        return bool(data)

    def drain(self) -> None:
        """Copy what is there, and no more: what still runs may hold the pipe open."""
        while True:
            try:
                data = os.read(self.reading, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                return
            self._write(data)

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            try:
                write_all(self._file, data)
            except OSError as error:  # the disk is full, say: the log has it all the same
                self._file = None
                write_all(2, "muster-batch: its output file: {}\n".format(error.strerror).encode())
        write_all(1, data)


class Supervisor:
    """The supervisor on the first node."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._begun = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._status: int | None = None
        self._stop_told = False
        self._signal_at = self._time_of_signal()

    def run(self, words: Sequence[str]) -> int:
        """Run the script, and return its exit status; a negative number is a signal."""
        environment = script_environment(self._job)
        try:
            given, copies = self._open()
        except OSError as error:
            told = "slurmstepd: error: Could not open {}: {}\n"
            sys.stderr.write(told.format(error.filename, os.strerror(error.errno or 0)))
            return -_NO_FILE
        self._copies = copies
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _FORWARDED:  # the agent sends a stop to every process of the job, the script's among them
            signal.signal(number, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda: self._woken(wake))
        for copy in set(copies):
            self._selector.register(copy.reading, selectors.EVENT_READ, self._mover(copy))
        try:
            self._controller = Controller(self._job, self._selector, self._signal_script)
        except OSError as error:
            sys.exit("muster-batch: cannot serve srun: {}".format(error))
        environment[SOCKET] = self._controller.path
        self._start(words, environment, given)
        for copy in set(copies):
            os.close(copy.writing)
        self._serve()
        return self._status or 0

    def _open(self) -> tuple[int, tuple[Copy, Copy]]:
        """The script's input, and where its output and errors go.

        Raises:
            OSError: a file of its own cannot be opened.
        """
        batch, facts = self._job.batch, self._job.facts()
        paths = [facts.path(batch[name], self._job.folder) if batch.get(name) else None for name in ("output", "error")]
        mode = os.O_APPEND if batch.get("open_mode") == "append" else os.O_APPEND | os.O_TRUNC
        files = [
            os.open(path, os.O_CREAT | os.O_WRONLY | mode, 0o666) if path and path not in paths[:index] else None
            for index, path in enumerate(paths)
        ]
        source = facts.path(batch["input"], self._job.folder) if batch.get("input") else os.devnull
        given = os.open(source, os.O_RDONLY)
        output = Copy(files[0])
        return given, (output, output if paths[1] in (None, paths[0]) else Copy(files[1]))

    def _start(self, words: Sequence[str], environment: dict[str, str], given: int) -> None:
        output, errors = self._copies
        folder = self._job.folder
        try:
            os.chdir(folder)
        except OSError as error:
            errors.say("slurmstepd: " + no_folder(folder, error))
            os.chdir("/tmp")  # noqa: S108 - as Slurm does
        environment["PWD"] = os.getcwd()
        try:
            self._script: subprocess.Popen[bytes] | None = subprocess.Popen(
                list(words),
                stdin=given,
                stdout=output.writing,
                stderr=errors.writing,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self._script = None
            self._status = error.errno or 1
            errors.say("slurmstepd: error: execve(): " + problem(words[0], error.errno or 0))
        os.close(given)

    def _mover(self, copy: Copy) -> object:
        def move() -> None:
            if not copy.move():
                self._selector.unregister(copy.reading)

        return move

    # The loop

    def _serve(self) -> None:
        """Serve the script and its steps until all has ended."""
        end_at: float | None = None
        while True:
            if self._status is not None:
                if end_at is None:
                    end_at = self._begin_end()
                if self._has_ended(end_at):
                    break
            self._signal_in_time()
            for key, _ in self._selector.select(self._wait_s(end_at)):
                key.data()
        for copy in set(self._copies):
            copy.drain()
        self._controller.close()

    def _begin_end(self) -> float:
        """End the steps of a script that has ended; those of a job that is being stopped have had their signal."""
        stopping = self._controller.stopping
        self._controller.refuse_waiting()
        if not stopping:
            self._controller.signal_steps(signal.SIGTERM)
        return time.monotonic() + (float("inf") if stopping else _KILL_WAIT_S)

    def _has_ended(self, end_at: float) -> bool:
        now = time.monotonic()
        if self._controller.has_steps:
            if now < end_at:
                return False
            self._controller.signal_steps(signal.SIGKILL)
            return now > end_at + 1
        # A node that calls later would find no first node, and wait for it.
        waits_for_ranks = not self._controller.has_all_ranks and not self._stop_told
        return not waits_for_ranks or now > self._begun + _RANKS_S

    def _wait_s(self, end_at: float | None) -> float | None:
        now = time.monotonic()
        waits = [self._controller.wait_s()]
        if self._signal_at is not None:
            waits.append(max(0.0, self._signal_at - now))
        if end_at is not None:
            waits.append(1.0)
        return min((one for one in waits if one is not None), default=None)

    def _woken(self, wake: int) -> None:
        """Reap what has ended, and note a stop."""
        numbers = os.read(wake, 4096)
        if signal.SIGTERM in numbers and not self._stop_told:
            self._stop_told = True
            self._controller.refuse_waiting()
            self._copies[1].say(self._cancelled())
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._script is not None and pid == self._script.pid:
                self._status = os.waitstatus_to_exitcode(status)
                self._script.returncode = self._status
            else:
                self._controller.ended(pid)

    def _cancelled(self) -> str:
        limit_s = self._job.told.get("time_limit_s")
        late = limit_s is not None and time.monotonic() >= self._begun + float(limit_s) - 1
        told = "slurmstepd: error: *** JOB {} ON {} CANCELLED AT {}{} ***"
        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        return told.format(self._job.id, self._job.nodes[0], at, " DUE TO TIME LIMIT" if late else "")

    # The signal before the limit

    def _time_of_signal(self) -> float | None:
        limit_s = self._job.told.get("time_limit_s")
        if limit_s is None or not self._job.batch.get("signal"):
            return None
        return self._begun + float(limit_s) - float(self._job.batch.get("signal_before_s", 60))

    def _signal_in_time(self) -> None:
        """Send the signal that the job has asked for."""
        if self._signal_at is None or time.monotonic() < self._signal_at or self._script is None:
            return
        self._signal_at = None
        number = number_of(str(self._job.batch["signal"])) or signal.SIGTERM
        if not self._job.batch.get("signal_script"):
            self._controller.signal_steps(number)
        else:
            self._signal_script(number)

    def _signal_script(self, number: int) -> None:
        if self._script is not None and self._status is None:
            os.kill(self._script.pid, number)
