"""Removes containers without an allocation, and retries if the engine refuses or has yet to create them."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Iterable, List, Optional

from nodeagent.runtime.container.engine import Engine, EngineError
from nodeagent.system.backoff import Backoff

_log = logging.getLogger("nodeagent.runtime")

_MAX_WAIT_S = 60.0
_LATE_S = 600.0
"""So long an engine that answers may still make a container that it was asked for before."""


@dataclass
class _Stray:
    name: str
    late_s: float = 0.0
    """For how long it may still be made."""
    gone_since: Optional[float] = None
    """Since when the engine has said at every look that there is none."""


class Strays:
    """Removes containers by name, in the background. Names are never reused, so a failed removal blocks no job."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mutex = threading.Lock()
        self._left: List[_Stray] = []
        self._thread: Optional[threading.Thread] = None
        self._closing = threading.Event()

    def remove(self, names: Iterable[str]) -> None:
        """Remove these; after the first that cannot be removed, the others are removed in the background."""
        waiting = list(names)
        while waiting and self._try(waiting[0]):
            waiting.pop(0)
        self._later([_Stray(name) for name in waiting])

    def remove_also_late(self, name: str) -> None:
        """Remove this one, also if its engine makes it only later: who asked for it may have had no answer."""
        self.remove([name])
        self._later([_Stray(name, _LATE_S)])

    def close(self) -> None:
        """Try no more."""
        self._closing.set()

    def _later(self, strays: List[_Stray]) -> None:
        with self._mutex:
            self._left += strays
            if self._left and self._thread is None:
                self._thread = threading.Thread(target=self._go_on, name="strays", daemon=True)
                self._thread.start()

    def _go_on(self) -> None:
        backoff = Backoff(first_s=1.0, max_s=_MAX_WAIT_S)
        while not self._closing.is_set():
            with self._mutex:
                strays = tuple(self._left)
                if not strays:
                    self._thread = None
                    return
            over = [stray for stray in strays if not self._closing.is_set() and self._is_over(stray)]
            with self._mutex:
                self._left = [stray for stray in self._left if stray not in over]
            if len(over) < len(strays):
                self._closing.wait(backoff.wait_s())

    def _is_over(self, stray: _Stray) -> bool:
        """Remove it; whether nothing of it can come any more."""
        if not self._try(stray.name):
            stray.gone_since = None
            return False
        now = time.monotonic()
        if stray.gone_since is None:
            stray.gone_since = now
        return now - stray.gone_since >= stray.late_s

    def _try(self, name: str) -> bool:
        try:
            self._engine.remove(name)
        except EngineError as error:
            _log.warning("container %s belongs to no allocation and cannot be removed for now: %s", name, error)
            return False
        except Exception:  # noqa: BLE001 - the others are removed whatever becomes of one
            _log.exception("container %s belongs to no allocation, and its removal failed", name)
            return False
        return True
