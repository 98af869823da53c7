"""Containers that nobody answers for, and that their engine would not remove: tried again until it does."""

from __future__ import annotations

import logging
import threading
from typing import Iterable, List, Optional

from nodeagent.backoff import Backoff
from nodeagent.runtime.container.engine import Engine, EngineError

_log = logging.getLogger("nodeagent.runtime")

_LONGEST_WAIT_S = 60.0


class Strays:
    """Removes containers by their names, which never come again. What cannot be removed keeps nobody from anything."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = threading.Lock()
        self._left: List[str] = []
        self._thread: Optional[threading.Thread] = None
        self._closing = threading.Event()

    def remove(self, names: Iterable[str]) -> None:
        """Remove these; after the first that cannot be removed, the others are removed in the background."""
        waiting = list(names)
        while waiting and self._try(waiting[0]):
            waiting.pop(0)
        if waiting:
            self._later(waiting)

    def close(self) -> None:
        """Try no more."""
        self._closing.set()

    def _later(self, names: List[str]) -> None:
        with self._mutex:
            self._left += names
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="strays", daemon=True)
                self._thread.start()

    def _go_on(self) -> None:
        backoff = Backoff(first_s=1.0, longest_s=_LONGEST_WAIT_S)
        while not self._closing.is_set():
            with self._mutex:
                names = tuple(self._left)
                if not names:
                    self._thread = None
                    return
            gone = {name for name in names if not self._closing.is_set() and self._try(name)}
            with self._mutex:
                self._left = [name for name in self._left if name not in gone]
            if len(gone) < len(names):
                self._closing.wait(backoff.wait_s())

    def _try(self, name: str) -> bool:
        try:
            self._engine.remove(name)
        except EngineError as error:
            _log.warning("container %s: nobody answers for it, and it cannot be removed for now: %s", name, error)
            return False
        except Exception:  # noqa: BLE001 - the others are removed whatever becomes of one
            _log.exception("container %s: nobody answers for it, and its removal broke", name)
            return False
        return True
