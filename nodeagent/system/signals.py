"""Signals as calls in a thread of their own, which may take locks, at once and whatever the main thread does."""

from __future__ import annotations

import os
import signal
import threading
from typing import Callable, Iterable


def call_on_signals(numbers: Iterable[int], call: Callable[[int], None]) -> None:
    """Calls `call` with the number of each such signal that comes from now on. Once in a process, by its main thread.

    A handler in Python will not do. It cannot set a `threading.Event`: it may have interrupted the event's own `wait`,
    or itself for another signal, while that holds the lock of the event, and then waits for ever for what it has
    interrupted itself. And it runs when the main thread gets to it, which may have been about to wait for something
    for half a minute, or not have been the thread that the kernel interrupted. So what counts is the byte that Python's
    handler in C writes.
    """
    wanted = frozenset(int(number) for number in numbers)
    come, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def pass_on() -> None:
        while True:
            for number in os.read(come, 64):
                if number in wanted:
                    call(number)

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in wanted:
        signal.signal(number, lambda *_: None)
