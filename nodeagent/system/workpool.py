"""A few threads that run tasks now or later. Threads are made when they are needed."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import Callable, List, Tuple

Task = Callable[[], None]
Failure = Callable[[BaseException], None]


class WorkPool:
    """Runs tasks in up to `threads` threads, in the order of their times; `failed` hears of a task that raised."""

    def __init__(self, name: str, threads: int, failed: Failure) -> None:
        self._name = name
        self._most = threads
        self._failed = failed
        self._wake = threading.Condition()
        self._heap: List[Tuple[float, int, Task]] = []
        self._numbers = itertools.count()
        self._threads: List[threading.Thread] = []
        self._idle = 0
        self._closing = False

    def submit(self, task: Task, delay_s: float = 0.0) -> None:
        """Run `task` in `delay_s` seconds or soon after."""
        due = time.monotonic() + delay_s
        with self._wake:
            heapq.heappush(self._heap, (due, next(self._numbers), task))
            if self._idle == 0 and len(self._threads) < self._most:
                name = "{}-{}".format(self._name, len(self._threads))
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
            else:
                self._wake.notify()

    def close(self, timeout_s: float) -> None:
        """Let each thread finish the task in hand, leave the others, and wait up to `timeout_s` for that."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _serve(self) -> None:
        while True:
            task = self._next()
            if task is None:
                return
            try:
                task()
            except BaseException as error:
                self._failed(error)
                raise

    def _next(self) -> "Task | None":
        with self._wake:
            while not self._closing:
                now = time.monotonic()
                if self._heap and self._heap[0][0] <= now:
                    return heapq.heappop(self._heap)[2]
                self._idle += 1
                self._wake.wait(self._heap[0][0] - now if self._heap else None)
                self._idle -= 1
            return None
