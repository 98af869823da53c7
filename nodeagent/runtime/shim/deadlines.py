"""Deadlines at which a job is signalled and killed: pure bookkeeping over one clock, carried out by the shim.

Three causes may end a job early: the agent asks, the time limit is reached, or the lease of the agent runs out. Each
sends the stop signal first. SIGKILL is due when the earliest of their graces is over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Optional


class Cause(Enum):
    """Causes for which a job is being stopped."""

    ASKED = "asked"
    TIME_LIMIT = "time_limit"
    LEASE = "lease"


@dataclass(frozen=True)
class Due:
    """The action due now: `signal` to every process of the job, or SIGKILL."""

    signal: str
    kill: bool = False


class Deadlines:
    """The deadlines of one job. All times are of one clock that never goes back."""

    def __init__(self, stop_signal: str, grace_s: float) -> None:
        self._stop_signal = stop_signal
        self._grace_s = grace_s
        self._kill_at = math.inf
        self._pending: Optional[str] = None
        self._limit_at = math.inf
        self._limit_kill_at = math.inf  # finite once the limit was reached
        self._lease_over = False
        self.lease_until = math.inf
        """The end of the lease; the owner of this object moves it."""
        self.cause: Optional[Cause] = None
        """The cause for which we stopped the job; None if we did not."""

    @property
    def stopping(self) -> bool:
        """True if the job has been told to end."""
        return self.cause is not None

    def set_limit(self, now: float, left_s: float) -> None:
        """Let the time limit be `left_s` from now. A later limit takes back a stop that an earlier one began."""
        self._limit_at = now + left_s
        if left_s > 0:
            self._limit_kill_at = math.inf
            if self.cause is Cause.TIME_LIMIT:
                self.cause = Cause.LEASE if self._lease_over else None

    def ask(self, now: float, signal: str, grace_s: float) -> None:
        """Begin a stop, or hasten one that has begun; a stop is never put off."""
        self._pending = signal
        self._kill_at = min(self._kill_at, now + max(0.0, grace_s))
        if self.cause is None or self.cause is Cause.TIME_LIMIT:
            self.cause = Cause.ASKED

    def due(self, now: float) -> Optional[Due]:
        """The action due now, or None; each signal is due once, SIGKILL for as long as it is asked."""
        if now >= self.lease_until and not self._lease_over:
            self._lease_over = True
            self._kill_at = min(self._kill_at, self.lease_until + self._grace_s)
            self._begin(Cause.LEASE)
        if now >= self._limit_at and math.isinf(self._limit_kill_at):
            # From now on and not from the limit: a limit that is lowered to a moment in the past leaves the grace too.
            self._limit_kill_at = now + self._grace_s
            self._begin(Cause.TIME_LIMIT)
        if now >= min(self._kill_at, self._limit_kill_at):
            return Due(signal="KILL", kill=True)
        if self._pending is not None:
            signal, self._pending = self._pending, None
            return Due(signal=signal)
        return None

    def next_at(self) -> float:
        """The latest time at which `due` must be asked again; infinity when nothing is planned."""
        if self._pending is not None:
            return -math.inf
        lease = math.inf if self._lease_over else self.lease_until
        limit = self._limit_at if math.isinf(self._limit_kill_at) else self._limit_kill_at
        return min(self._kill_at, limit, lease)

    def _begin(self, cause: Cause) -> None:
        if self.cause is None:
            self.cause = cause
            self._pending = self._stop_signal
