"""The supervisor on the other nodes of a gang: it runs tasks for the first node, and ends with it."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping

from nodeagent.jobside.slurm import wire
from nodeagent.jobside.slurm.controller import keep_only
from nodeagent.jobside.slurm.environment import SUBMITTED, Job
from nodeagent.jobside.slurm.tasks import run_step

_CALL_FOR_S = 900.0
"""Images may take so long to be pulled on the first node."""
_CALL_AGAIN_S = 0.2
_TIMEOUT_S = 10.0
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def follow(job: Job) -> int:
    """Run tasks for the first node until it has ended, and return the exit status."""
    if os.path.exists(os.path.join(job.work, SUBMITTED)):
        os.unlink(os.path.join(job.work, SUBMITTED))
    connection = _call(job)
    for number in _STOPS:  # a stop goes to the tasks too, and the first node says when all has ended
        signal.signal(number, lambda *_: None)
    return Follower(job, connection).live()


def address_of(job: Job) -> tuple[str, int]:
    """The address of the first node: containers know it by a name of its own."""
    return job.environment.get("MASTER_ADDR") or str(job.told["addresses"][0]), int(job.told["port"])


def _call(job: Job) -> socket.socket:
    until = time.monotonic() + _CALL_FOR_S
    while True:
        try:
            return wire.join(address_of(job), str(job.told["secret"]), job.rank, None, _TIMEOUT_S)
        except OSError as error:
            if time.monotonic() > until:
                sys.exit("muster-batch: the first node of the job cannot be reached: {}".format(error))
        time.sleep(_CALL_AGAIN_S)


class Follower:
    """The steps of this node."""

    def __init__(self, job: Job, connection: socket.socket) -> None:
        self._job = job
        self._connection = connection
        self._first: Mapping[str, str] = {}
        self._steps: dict[int, int] = {}
        """The steps, by their processes."""

    def live(self) -> int:
        """Obey the first node until the job has ended."""
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        selector = selectors.DefaultSelector()
        selector.register(self._connection, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        lines = wire.Lines()
        while True:
            for key, _ in selector.select():
                if key.fd == wake:
                    os.read(wake, 4096)
                    self._reap()
                    continue
                data = self._receive()
                for told in lines.feed(data):
                    if "end" in told:
                        return self._end(0)
                    if "first" in told:
                        self._first = told["first"]
                    else:
                        self._run(int(told["step"]))
                if not data:
                    sys.stderr.write("muster-batch: the first node of the job has gone\n")
                    return self._end(1)

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(1 << 16)
        except OSError:
            return b""

    def _run(self, step: int) -> None:
        pid = os.fork()
        if pid:
            self._steps[pid] = step
            return
        try:
            signal.set_wakeup_fd(-1)
            connection = wire.join(
                address_of(self._job), str(self._job.told["secret"]), self._job.rank, step, _TIMEOUT_S
            )
            keep_only(connection)
            run_step(connection, self._job, self._first)
        except OSError as error:
            sys.stderr.write("muster-batch: step {}: {}\n".format(step, error))
        finally:
            os._exit(1)

    def _reap(self) -> None:
        while self._steps:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            step = self._steps.pop(pid, None)
            if step is not None:
                try:
                    self._connection.sendall(wire.line({"ended": step}))
                except OSError:
                    return  # it has gone, which `live` sees

    def _end(self, status: int) -> int:
        """End the steps that are left: without their `srun` they kill their tasks."""
        signal.set_wakeup_fd(-1)
        until = time.monotonic() + 5.0
        while self._steps and time.monotonic() < until:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            self._steps.pop(pid, None)
            if not pid:
                time.sleep(0.02)
        return status
