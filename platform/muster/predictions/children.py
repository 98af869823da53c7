"""Trains and runs forward in a child process of the worker `default`: nice, one at a time on a machine, cancellable.

A pure function gets items one after the other, so that neither side needs all of them in one message; its answer comes
back as a whole. The child ends with its parent. `lightgbm` is imported by functions that run there and nowhere else.
"""

from __future__ import annotations

import fcntl
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, TypeVar

from django.conf import settings
from django.db import transaction

from muster.events.services import mail_operators, record

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MAX_BYTES = 3 << 30
"""Of allocated memory, unless a caller sets another limit."""
_LOOK_EVERY_S = 0.2
_BATCH = 1000
_stopped = threading.Event()
_failed: set[str] = set()
"""The work whose last child failed: operators are told of the first failure in a row."""


class ChildError(RuntimeError):
    """A child without an answer; the message says why."""


class Busy(ChildError):
    """Another child runs on this machine."""


class Stopped(ChildError):
    """The worker ends."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a child: its run time, s; the time that it waits for another child, s; its memory, bytes."""

    run_s: float
    wait_s: float = 0.0
    max_bytes: int = MAX_BYTES


def in_child(function: Callable[[Iterator[Item]], Answer], items: Iterable[Item], *, limits: Limits) -> Answer:
    """The answer of a module's function, or of a `partial` of one, that gets the items; `ChildError` without one."""
    with _turn(limits.wait_s):
        words = [sys.executable, "-m", "muster.predictions.child", str(os.getpid()), str(limits.max_bytes)]
        with _Child(words, limits.run_s) as child:
            child.send(function, items)
            done, answer = child.answer()
    if not done:
        raise ChildError(str(answer))
    return answer  # type: ignore[no-any-return]  # it is what the function returned


def attempt(what: str, act: Callable[[], object]) -> bool:
    """Do work that needs a child; returns whether it was done. A failure is logged and told to operators once."""
    try:
        act()
    except (Busy, Stopped) as why:
        log.info("prediction_put_off what=%r why=%s", what, why)
        return False
    except ChildError as failure:
        log.exception("prediction_failed what=%r", what)
        if what not in _failed:
            _failed.add(what)
            _tell_operators(what, str(failure))
        return False
    _failed.discard(what)
    return True


def stop() -> None:
    """End the child that runs, and start no other one: the worker ends."""
    _stopped.set()


class _Child:
    """The process, and a thread that ends it when its time is over or the worker ends."""

    def __init__(self, words: list[str], run_s: float) -> None:
        # The folders on this process's path, as a new interpreter has only those of its environment.
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._run_s, self._over, self._ended_for = run_s, threading.Event(), ""
        self._watch = threading.Thread(target=self._end_in_time, daemon=True)
        self._watch.start()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def send(self, function: Callable[[Iterator[Item]], object], items: Iterable[Item]) -> None:
        """Send the function and the items, in batches. A child that reads no more has answered, or has died."""
        pipe, left = self._pipe(self._process.stdin), iter(items)
        with suppress(BrokenPipeError):
            pickle.dump(function, pipe, pickle.HIGHEST_PROTOCOL)
            while batch := list(islice(left, _BATCH)):
                pickle.dump(batch, pipe, pickle.HIGHEST_PROTOCOL)
            pipe.close()

    def answer(self) -> tuple[bool, Any]:
        """(True, the value), or (False, the words of what it raised)."""
        data = self._pipe(self._process.stdout).read()
        status = self._process.wait()
        self._over.set()
        self._watch.join()
        if _stopped.is_set():
            raise Stopped("the worker ends")
        if self._ended_for or status or not data:
            raise ChildError(self._ended_for or f"the child process has died, with status {status}")
        done, answer = pickle.loads(data)  # noqa: S301 - the child is of this program
        return bool(done), answer

    def _end_in_time(self) -> None:
        end_at = time.monotonic() + self._run_s
        while not self._over.wait(_LOOK_EVERY_S):
            if _stopped.is_set() or time.monotonic() >= end_at:
                self._ended_for = f"it took longer than {self._run_s:g} s"
                self._process.kill()
                return

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise ChildError("the child process has no pipes")
        return pipe


@contextmanager
def _turn(wait_s: float) -> Iterator[None]:
    """The turn of one child on this machine, for which this waits at most `wait_s`."""
    give_up_at = time.monotonic() + wait_s
    with (settings.STATE_FOLDER / "predictions.lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as taken:
                if time.monotonic() >= give_up_at:
                    raise Busy("another child runs on this machine") from taken
            if _stopped.wait(_LOOK_EVERY_S):
                raise Stopped("the worker ends")
        if _stopped.is_set():
            raise Stopped("the worker ends")
        yield


def _tell_operators(what: str, why: str) -> None:
    with transaction.atomic():
        record("prediction.failed", actor="platform", data={"what": what, "why": why[:500]})
        mail_operators(
            subject=f"{what.capitalize()} has failed",
            body=f"{why}\n\nThe platform goes on with what it predicted by before, and tries again at the next turn.",
        )
