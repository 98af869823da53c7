"""A semaphore for each registry's host: a registry that is slow or silent leaves room for pulls from the others."""

from __future__ import annotations

import threading
from typing import Dict, List


class PullSlots:
    """Up to `at_once` pulls of one host, in the order in which they asked. May be used from any thread."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._of_host: Dict[str, List[int]] = {}

    def ask(self, host: str, allocation_id: int) -> None:
        """Queue for a slot, which is given back by `end`."""
        with self._lock:
            self._of_host.setdefault(host, []).append(allocation_id)

    def has(self, host: str, allocation_id: int) -> bool:
        """True if the allocation has a slot now."""
        with self._lock:
            return allocation_id in self._of_host[host][: self._at_once]

    def end(self, host: str, allocation_id: int) -> None:
        """Give the slot back, or leave the queue."""
        with self._lock:
            self._of_host[host].remove(allocation_id)
            if not self._of_host[host]:
                del self._of_host[host]
