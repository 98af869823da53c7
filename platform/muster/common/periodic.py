"""Tasks that a worker does by its own clock, without messages; only one worker of a database does them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connection

from muster.common.session_lock import SessionLock

log = logging.getLogger(__name__)

_LOCK = 0x636C6F63  # "cloc"; the second half of the key is the clock's number
_PAUSE_S = 5.0
"""After an error of the database, and between two looks whether the worker that does the tasks has ended."""
_FIRST_WITHIN_S = 60.0
"""So soon after a start comes each task for the first time, or a worker that is restarted often would never do some."""


class Clock(threading.Thread):
    """A thread that does some tasks one after the other, each once in its period, while its session holds a lock.

    Tasks that may wait long for each other belong to different clocks; `number` tells their locks apart.
    """

    def __init__(self, number: int, periods: Mapping[str, timedelta], do: Callable[[str], object]) -> None:
        super().__init__(name=f"clock-{number}", daemon=True)
        self._number, self._do = number, do
        self._period_s = {name: period.total_seconds() for name, period in periods.items()}
        self._due_at: dict[str, float] = {}
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
            for name in [name for name, due_at in self._due_at.items() if due_at <= time.monotonic()]:
                # Before the task: one that fails has its next turn a period later as well.
                self._due_at[name] = time.monotonic() + self._period_s[name]
                self._do_one(name)
        except (DatabaseError, InterfaceError) as error:
            log.warning("clock_failed number=%s error=%s", self._number, error)
            connection.close()
            return _PAUSE_S
        return max(0.0, min(self._due_at.values()) - time.monotonic())

    def stop(self) -> None:
        """Stop after the current turn."""
        self._stopped.set()

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
