"""Signals as calls in a thread of their own, which may take locks."""

from __future__ import annotations

import queue
import signal
import threading
from typing import Callable, Iterable


def call_on_signals(numbers: Iterable[int], call: Callable[[int], None]) -> None:
    """Calls `call` with the number of each such signal that comes from now on.

    A handler cannot set a `threading.Event`: it may have interrupted the event's own `wait`, or itself for another
    signal, while that holds the lock of the event, and then waits for ever for what it has interrupted itself.
    """
    come: "queue.SimpleQueue[int]" = queue.SimpleQueue()  # the one queue whose `put` may interrupt itself

    def pass_on() -> None:
        while True:
            call(come.get())

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    for number in numbers:
        signal.signal(number, lambda number, _: come.put(number))
