"""Who may fetch now: few at once, and of each kind fewer, so that one kind that hangs leaves room for the others."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Sequence


class Turns:
    """Up to `most` at once, and up to `most_alike` that share a key. Its methods may be called from any thread."""

    def __init__(self, most: int, most_alike: int) -> None:
        self._most = most
        self._most_alike = most_alike
        self._lock = threading.Lock()
        self._taken = 0
        self._alike: "Counter[str]" = Counter()

    def take(self, keys: Sequence[str]) -> bool:
        """Take a turn if there is one; whoever gets none asks again later."""
        with self._lock:
            if self._taken >= self._most or any(self._alike[key] >= self._most_alike for key in keys):
                return False
            self._taken += 1
            self._alike.update(keys)
            return True

    def give_back(self, keys: Sequence[str]) -> None:
        """Give back a turn that was taken with these keys."""
        with self._lock:
            self._taken -= 1
            self._alike.subtract(keys)
            for key in keys:
                if self._alike[key] <= 0:
                    del self._alike[key]
