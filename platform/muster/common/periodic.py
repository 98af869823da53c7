"""Tasks that a worker does by its own clock, without messages; only one worker of a database does them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connection

from muster.common.session_lock import SessionLock
from muster.common.statements import Statement

log = logging.getLogger(__name__)

_LOCK = 0x636C6F63  # "cloc"; the second half of the key is the clock's number
_PAUSE_S = 5.0
"""After an error of the database, and between two looks whether the worker that does the tasks has ended."""
_TOGETHER_S = 0.1
"""Conditions due within this time are done now, so that one statement asks for all of them."""
_FIRST_WITHIN_S = 60.0
"""So soon after a start comes each task for the first time, or a worker that is restarted often would never do some."""

_conditions: dict[str, str] = {}


def only_if(task: str, condition: str) -> None:
    """Let a clock do the task only when this SQL condition holds, as it must whenever the task would find anything."""
    _conditions[task] = condition


def conditions_of(tasks: Iterable[str]) -> dict[str, str]:
    return {task: _conditions[task] for task in tasks if task in _conditions}


class Clock(threading.Thread):
    """A thread that does some tasks one after the other, each once in its period, while its session holds a lock.

    Tasks that may wait long for each other belong to different clocks; `number` tells their locks apart. One statement
    asks all `conditions`, and a task whose condition does not hold is not done in that period.
    """

    def __init__(
        self,
        number: int,
        periods: Mapping[str, timedelta],
        do: Callable[[str], object],
        conditions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name=f"clock-{number}", daemon=True)
        self._number, self._do = number, do
        self._period_s = {name: period.total_seconds() for name, period in periods.items()}
        self._due_at: dict[str, float] = {}
        self._conditional = list(conditions or ())
        self._ask = Statement(f"SELECT {', '.join((conditions or {}).values())}")
        self._lock = SessionLock(_LOCK, number)
        self._stopped = threading.Event()

    def run(self) -> None:
        """Do what is due until stopped; wait while the database is down, or another worker does it."""
        start = time.monotonic()
        self._due_at = {name: start + min(every_s, _FIRST_WITHIN_S) for name, every_s in self._period_s.items()}
        while not self._stopped.wait(self.turn()):
            pass
        connection.close()

    def turn(self) -> float:
        """Do what is due now; returns the seconds until the next turn."""
        try:
            if not (self._lock.held or self._lock.take()):
                return _PAUSE_S
            now = time.monotonic()
            due = [name for name, due_at in self._due_at.items() if due_at <= now + _TOGETHER_S]
            idle = self._idle() if any(name in self._conditional for name in due) else set()
            for name in due:
                # Before the task: one that fails has its next turn a period later as well.
                self._due_at[name] = now + self._period_s[name]
                if name not in idle:
                    self._do_one(name)
        except (DatabaseError, InterfaceError) as error:
            log.warning("clock_failed number=%s error=%s", self._number, error)
            connection.close()
            return _PAUSE_S
        return max(0.0, min(self._due_at.values()) - time.monotonic())

    def stop(self) -> None:
        self._stopped.set()

    def _idle(self) -> set[str]:
        (holds,) = self._ask.rows()
        return {name for name, has_work in zip(self._conditional, holds, strict=True) if not has_work}

    def _do_one(self, name: str) -> None:
        try:
            self._do(name)
        except (DatabaseError, InterfaceError):
            raise
        except Exception:
            log.exception("task_failed name=%s", name)


def consumes(worker: object, queue: str) -> bool:
    """Whether the sender of Celery's signal `worker_ready` takes tasks from the queue."""
    queues = getattr(getattr(getattr(worker, "app", None), "amqp", None), "queues", None)
    return queues is not None and queue in queues.consume_from
