"""Waits between tries."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits that double up to a limit, with jitter so that many clients do not return at once."""

    tries: int = 6
    first_s: float = 0.25
    max_s: float = 8.0
    # A server that says "later" gets this much patience in all, whatever the number of tries.
    throttled_s: float = 300.0
    sleep: Callable[[float], None] = field(default=time.sleep)
    # Hears why a request waits and for how long, before it does.
    told: Callable[[str, float], None] = field(default=lambda *_: None)
    jitter: Callable[[], float] = field(default=random.random)

    def wait_s(self, failures: int) -> float:
        """Return the wait after this many failures in a row: between half and all of the doubled time."""
        full_s = min(self.max_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return full_s * (0.5 + self.jitter() / 2)

    def wait(self, why: str, wait_s: float) -> None:
        """Wait, and tell why."""
        self.told(why, wait_s)
        self.sleep(wait_s)
