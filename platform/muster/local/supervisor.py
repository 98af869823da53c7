"""Keeps a few processes running: starts them in order, restarts what dies, and leaves none behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.local import processes
from muster.local.nursery import Forked, Nursery
from muster.local.places import LocalError
from muster.local.programs import tail

FIRST_DELAY_S, MAX_DELAY_S = 0.5, 30.0
_STEADY_AFTER_S = 60.0
_TURN_S = 0.2
_SLOW_TURN_S = 2.0
_LOG_LIMIT_BYTES = 64 * 1024 * 1024
# Asks the kernel for SIGTERM when the supervisor ends, however it ends, and then becomes the child's own program. The
# request belongs to a process and survives exec. The second line covers a supervisor that ended before the request.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]): sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Child:
    """A program to keep running.

    Children of a higher stage are stopped first, those of one stage together. `final` are exit statuses after which
    the same start would only end the same way.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    stage: int = 1
    ready: Callable[[], bool] | None = None
    ready_within_s: float = 60.0
    grace_s: float = 10.0
    final: frozenset[int] = frozenset()
    umask: int = -1  # the caller's
    forked: bool = False
    """Whether the nursery forks it; `env` and `cwd` are then those of the nursery."""


@dataclass(slots=True)
class _Run:
    child: Child
    process: subprocess.Popen[bytes] | Forked
    started_at: float
    failures: int = 0
    start_again_at: float | None = None
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """Something else to keep alive: `repair` is asked now and then, and returns what it had to start again."""

    repair: Callable[[], list[str]]
    owned: Callable[[], Iterable[int]]
    adopted: Callable[[], Iterable[int]] = tuple
    """The processes that children have taken over from those of a supervisor that was killed."""


class Supervisor:
    """The children of this process; use it as a context, and whatever happens inside, all of them are gone after it."""

    def __init__(self, home: Path, *, say: Callable[[str], None], watch: Watch | None = None) -> None:
        self._log_folder = home / "log"
        self._record = home / "children.json"
        self._say = say
        self._watch = watch
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._hurry = False
        self._idle, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name="supervisor", daemon=True)
        self._zombies: set[int] = set()
        self._nursery: Nursery | None = None

    def __enter__(self) -> Supervisor:
        self._log_folder.mkdir(mode=0o700, exist_ok=True)
        self._end_leftovers()
        processes.become_subreaper()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def prepare_forks(self, *, env: Mapping[str, str], cwd: Path) -> None:
        """Starts the nursery, which imports meanwhile what the first forked child waits for."""
        self._nursery = Nursery(env=env, cwd=cwd, log=self.log_of("nursery"), tied=_tied())

    def start(self, child: Child) -> None:
        """Starts a child now; from here on it is started again whenever it ends."""
        with self._lock:
            self._runs[child.name] = _Run(child, self._spawn(child), time.monotonic())
            self._write_record()

    def wait_ready(self, name: str) -> None:
        """Returns when the child is ready; raises `LocalError` with the end of its log if it never is."""
        run = self._runs[name]
        if run.child.ready is None:
            return
        end = time.monotonic() + run.child.ready_within_s
        while not (run.process.poll() is None and run.child.ready()):
            if run.given_up or run.failures >= 3 or time.monotonic() >= end:
                raise LocalError(
                    f"{name} does not get ready; the end of {self.log_of(name)}:\n{tail(self.log_of(name))}"
                )
            self._stopping.wait(_TURN_S)

    def log_of(self, name: str) -> Path:
        return self._log_folder / f"{name}.log"

    def wait(self) -> None:
        """Never returns by itself: a signal that raises ends it.

        In turns, since a signal that comes just before a wait does not end it, but is heard of after it.
        """
        while not self._stopping.wait(1.0):
            pass

    def stop(self) -> None:
        """Ends every child, the highest stage first, and what is left of theirs; a second Ctrl-C ends the patience."""
        previous = {number: signal.signal(number, self._hurry_up) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._stopping.set()
            if self._thread.is_alive():
                self._idle.wait()
            if self._nursery is not None:
                self._nursery.stop()
            for stage in sorted({run.child.stage for run in self._runs.values()}, reverse=True):
                self._end_stage([run for run in self._runs.values() if run.child.stage == stage])
            left = processes.end_all(self._strays, grace_s=0.0 if self._hurry else 2.0)
            if left:
                self._say(f"[red]these processes do not end: {', '.join(map(str, left))}[/]")
            self._record.unlink(missing_ok=True)
        finally:
            self._ended.set()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _spawn(self, child: Child) -> subprocess.Popen[bytes] | Forked:
        # A session of its own: Ctrl-C goes to the terminal's group, and the order of stopping is ours to choose.
        with self.log_of(child.name).open("ab") as log:
            os.fchmod(log.fileno(), 0o600)
            log.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} start of {child.name}\n".encode())
            log.flush()
            if child.forked and self._nursery is not None:
                forked = self._nursery.fork(child.argv, log=self.log_of(child.name), umask=child.umask)
                if forked is not None:
                    return forked
                self._nursery = None  # it is gone, and nothing but its memory is missed
            return subprocess.Popen(
                (*_tied(), *child.argv),
                env=dict(child.env),
                cwd=child.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=child.umask,
            )

    def _keep_running(self) -> None:
        try:
            self._take_turns()
        finally:
            self._idle.set()
            # The kernel takes the end of the thread that started a child for the end of the child's parent.
            self._ended.wait()

    def _take_turns(self) -> None:
        slow_turn_at = time.monotonic() + _SLOW_TURN_S
        while not self._stopping.wait(_TURN_S):
            with self._lock:
                for run in self._runs.values():
                    self._look_at(run)
            if time.monotonic() >= slow_turn_at:
                self._slow_turn()
                slow_turn_at = time.monotonic() + _SLOW_TURN_S

    def _look_at(self, run: _Run) -> None:
        now = time.monotonic()
        if run.given_up:
            return
        if run.start_again_at is not None:
            if now >= run.start_again_at:
                run.process, run.started_at, run.start_again_at = self._spawn(run.child), now, None
                self._write_record()
            return
        status = run.process.poll()
        if status is None:
            return
        run.failures = 1 if now - run.started_at >= _STEADY_AFTER_S else run.failures + 1
        if status in run.child.final:
            run.given_up = True
            self._say(f"[red]{run.child.name} ended for good ({_ending(status)})[/]; see {self.log_of(run.child.name)}")
            return
        delay_s = min(FIRST_DELAY_S * 2 ** (run.failures - 1), MAX_DELAY_S)
        run.start_again_at = now + delay_s
        self._say(f"[yellow]{run.child.name} ended ({_ending(status)})[/]; starting it again in {delay_s:g} s")

    def _slow_turn(self) -> None:
        """Do what needs no hurry: other people's services, orphans that have ended, logs that have grown."""
        if self._watch is not None:
            try:
                for name in self._watch.repair():
                    self._say(f"[yellow]{name} was gone[/]; started again")
            except (LocalError, OSError) as error:
                self._say(f"[red]{error}[/]")
        known = {run.process.pid for run in self._runs.values()} | set(self._watch.owned() if self._watch else ())
        ended = set(processes.zombie_children(os.getpid())) - known
        # A program that this process runs and waits for is a zombie for a moment too, so reap only on the second look.
        processes.reap(ended & self._zombies)
        self._zombies = ended
        for name in tuple(self._runs):
            self._limit_log(self.log_of(name))

    def _limit_log(self, path: Path) -> None:
        if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
            # The child keeps its file open for appending, so the file is emptied and not renamed.
            shutil.copyfile(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)

    def _end_stage(self, runs: list[_Run]) -> None:
        for run in runs:
            if run.process.poll() is None:
                run.process.terminate()
        end = time.monotonic() + max(run.child.grace_s for run in runs)
        while any(run.process.poll() is None for run in runs) and time.monotonic() < end and not self._hurry:
            time.sleep(0.02)
        for run in runs:
            if run.process.poll() is None:
                self._say(f"[yellow]{run.child.name} did not stop in time[/]; killed")
                run.process.kill()
            run.process.wait()

    def _strays(self) -> list[int]:
        """Everything below this process or adopted but the services, which their users stop together."""
        kept = set(self._watch.owned() if self._watch else ())
        for pid in tuple(kept):
            kept.update(processes.descendants(pid))
        roots = (os.getpid(), *(self._watch.adopted() if self._watch else ()))
        found = {*roots[1:], *(pid for root in roots for pid in processes.descendants(root))}
        strays = sorted(found - kept)
        processes.reap(strays)
        return strays

    def _end_leftovers(self) -> None:
        """Ends the children of a supervisor that was killed, by process id and start time. Their jobs go on."""
        try:
            listed = json.loads(self._record.read_text())
        except (FileNotFoundError, ValueError):
            return
        left = [int(pid) for pid, ticks in listed.items() if processes.start_ticks(int(pid)) == ticks]
        if left:
            self._say(f"[yellow]ending {len(left)} processes that an earlier run left behind[/]")
            processes.end_all(lambda: left, grace_s=5.0)

    def _write_record(self) -> None:
        pids = [run.process.pid for run in self._runs.values() if run.process.poll() is None]
        draft = self._record.with_suffix(".draft")
        draft.write_text(json.dumps({str(pid): processes.start_ticks(pid) for pid in pids}))
        draft.replace(self._record)

    def _hurry_up(self, _number: int, _frame: object) -> None:
        # No event: its lock may be held by what this has interrupted, even by itself when signals come in twos.
        self._hurry = True


def _tied() -> tuple[str, ...]:
    """The words before those of a program that make it end with this process."""
    return (sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()))


def _ending(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
