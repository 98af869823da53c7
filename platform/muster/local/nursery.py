"""Processes of the platform that share the memory of what they all import.

`python -m muster.local.nursery` imports it once, and forks a process for each line that it reads. A fork shares its
pages with the others until one of them writes there. The supervisor is its only user. What it forks is a child of the
supervisor's and not of its own, so the supervisor sees it end, and it does not need the nursery afterwards.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import itertools
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# What the platform's processes import, one way or another: applications, commands, the broker, the server.
_SHARED = (
    *("muster.asgi", "muster.links.keeper", "muster.links.management.commands.links", "manage"),
    *("celery.bin.celery", "celery.apps.worker", "celery.concurrency.solo", "celery.concurrency.thread"),
    *("celery.fixups.django", "celery.worker.consumer", "celery.worker.components", "celery.worker.autoscale"),
    *("celery.worker.consumer.delayed_delivery", "celery.app.amqp", "celery.app.control", "celery.app.events"),
    *("celery.app.log", "kombu.pidbox", "kombu.transport.redis"),
    *("uvicorn.main", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
)
_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8  # of glibc's malloc.h
# The room for the command lines of the processes, which stand where that of the nursery stood.
_ROOM = "-" * 400


class Forked:
    """A process that the nursery has forked, with what the supervisor uses of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        """The exit status, once it has ended."""
        return self._wait(0)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Nursery:
    """The supervisor's side: a nursery that has begun to import."""

    def __init__(self, *, env: Mapping[str, str], cwd: Path, log: Path, tied: Sequence[str]) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs, log.open("ab") as file:
            os.fchmod(file.fileno(), 0o600)
            self._process = subprocess.Popen(
                (*tied, sys.executable, "-m", __name__, _ROOM),
                env=dict(env),
                cwd=cwd,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=file,
                start_new_session=True,
            )
            self._talk = ours.makefile("rw")

    def fork(self, words: Sequence[str], *, log: Path, umask: int) -> Forked | None:
        """A process with these words as its command line; None if the nursery is gone."""
        asked = {"words": list(words), "log": str(log), "umask": umask, "parent": os.getpid()}
        try:
            self._talk.write(json.dumps(asked) + "\n")
            self._talk.flush()
            answer = self._talk.readline()
        except OSError:
            return None
        return Forked(int(answer)) if answer else None

    def stop(self) -> None:
        """Ends the nursery, and nothing that it has forked."""
        self._process.kill()
        self._process.wait()
        self._talk.close()


def main() -> None:
    """Imports, forks a process for each line until the supervisor closes the pipe, and in a fork becomes that one."""
    # One heap of glibc for all threads: each of several would grow to its own peak, and only one thread runs Python.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    gc.disable()  # a collection would leave holes, which every fork would fill with pages of its own
    for name in _SHARED:
        importlib.import_module(name)
    celery_app = importlib.import_module("muster.celery").celery_app
    celery_app.loader.import_default_modules()
    celery_app.finalize()  # each worker would else bind all tasks for itself, in some 15 MiB
    first = sys.stdin.readline()  # when the database has been migrated
    if first:
        _rehearse()
    gc.freeze()
    for line in itertools.chain([first] if first else [], sys.stdin):
        asked = json.loads(line)
        pid = _fork(parent=asked["parent"])
        if pid == 0:
            gc.enable()
            _become(asked["words"], log=asked["log"], umask=asked["umask"])
            return
        print(pid, flush=True)  # noqa: T201


def _rehearse() -> None:
    """Does once what each fork begins with, so that the memory which that takes is shared. Nothing stays open."""
    from django.db import DatabaseError, connection  # noqa: PLC0415 - main() has imported Django before

    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:  # the forks wait for it, each for itself
        return
    finally:
        connection.close()


def _fork(*, parent: int) -> int:
    """Forks twice, so that the process becomes a child of the subreaper `parent`; returns its id, in itself 0."""
    reading, writing = os.pipe()
    between = os.fork()
    if between:
        os.close(writing)
        os.waitpid(between, 0)
        pid = int(os.read(reading, 32))
        os.close(reading)
        return pid
    between = os.getpid()
    pid = os.fork()
    if pid:
        os.write(writing, b"%d" % pid)
        os._exit(0)
    os.close(reading)
    os.close(writing)
    while os.getppid() == between:
        time.sleep(0.001)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)
    return 0


def _become(words: Sequence[str], *, log: str, umask: int) -> None:
    """Runs `python -m MODULE …` in this process, as if it had been started with these words."""
    os.setsid()
    os.umask(umask)
    nothing, file = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for source, target in ((nothing, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(file)
    _show(words)
    module = words[words.index("-m") + 1]
    sys.argv = list(words[words.index("-m") + 1 :])
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _show(words: Sequence[str]) -> None:
    """Lets `ps` show these words instead of the nursery's."""
    fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    start, end = int(fields[45]), int(fields[46])
    if not start:
        return  # the kernel does not say where they stand
    text = b"\0".join(map(os.fsencode, words))[: end - start - 1]
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    main()
