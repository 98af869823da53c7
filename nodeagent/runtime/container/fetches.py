"""The pulls that run, and an end to them where they fill a disk that jobs need."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import Iterator, List


@dataclass
class Fetch:
    """A pull; `given_up` says why it is to end, and is empty while it may go on."""

    given_up: str = ""


class Fetches:
    """The image pulls that run now; may be asked from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: List[Fetch] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[Fetch]:
        """A pull, for as long as it runs."""
        fetch = Fetch()
        with self._lock:
            self._running.append(fetch)
        try:
            yield fetch
        finally:
            with self._lock:
                self._running = [other for other in self._running if other is not fetch]

    def give_up(self, why: str) -> bool:
        """Make all fetches end; returns whether one of them had not been told before."""
        with self._lock:
            told = [fetch for fetch in self._running if not fetch.given_up]
            for fetch in told:
                fetch.given_up = why
        return bool(told)
