"""Limits how many pulls run at once: in total, per host and per owner, so that slow ones leave room for others.

1. Serve pulls in order of request, owners with fewer running pulls first.
2. A pull that has waited for `LATE_S` preempts one of another owner: one that has run for `MAX_TURN_S`, or the slowest
   that has run for `LATE_S` below `SLOW_BYTES_PER_S`. The preempted pull is told by `yields`.
3. A pull that its engine queues behind other pulls (`held_up`) counts as waiting, though it has a turn.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, List, Optional, Tuple

LATE_S = 600.0
MAX_TURN_S = 3600.0
SLOW_BYTES_PER_S = float(1 << 20)


class Turns:
    """Up to `max_at_once`, and up to `max_alike` of one host or owner. May be used from any thread."""

    def __init__(self, max_at_once: int, max_alike: int, now: Callable[[], float] = time.monotonic) -> None:
        self._max_at_once = max_at_once
        self._max_alike = max_alike
        self._now = now
        self._lock = threading.Lock()
        self._waiting: List[Turn] = []
        self._taken: List[Turn] = []

    def ask(self, *, owner: str, host: str) -> Turn:
        """A turn that waits from now on."""
        turn = Turn(self, owner, host, self._now())
        with self._lock:
            self._waiting.append(turn)
        return turn

    def take(self, turn: Turn) -> bool:
        """As `Turn.take`."""
        with self._lock:
            able = [other for other in self._waiting if self._fits(other)]
            # `min` returns the first of equals: the oldest request.
            if not able or min(able, key=self._taken_by_owner) is not turn:
                return False
            self._waiting.remove(turn)
            self._taken.append(turn)
            turn.since = self._now()
            return True

    def end(self, turn: Turn) -> None:
        """As `Turn.end`."""
        with self._lock:
            self._waiting = [other for other in self._waiting if other is not turn]
            self._taken = [other for other in self._taken if other is not turn]

    def note(self, turn: Turn, bytes_per_s: Optional[float], held_up: bool) -> None:
        """As `Turn.note`."""
        with self._lock:
            turn.bytes_per_s = bytes_per_s
            if not held_up:
                turn.held_up_since = None
            elif turn.held_up_since is None:
                turn.held_up_since = self._now()

    def yields(self, turn: Turn) -> bool:
        """As `Turn.yields`."""
        with self._lock:
            late = self._late()
            going = sum(other.yielding for other in self._taken)
            if not turn.yielding and going < len(late):
                able = [one for one in self._taken if self._may_be_taken(one) and self._helps_any(one, late)]
                turn.yielding = bool(able) and min(able, key=_pace_of) is turn
            return turn.yielding

    def has_others(self, turn: Turn) -> bool:
        """As `Turn.has_others`."""
        with self._lock:
            return any(one is not turn and one.held_up_since is None for one in self._taken)

    def _late(self) -> List[Turn]:
        """The turns that have waited for `LATE_S`, before they were taken or since."""
        until = self._now() - LATE_S
        late = [one for one in self._waiting if one.since <= until and not self._fits(one)]
        return late + [one for one in self._taken if one.held_up_since is not None and one.held_up_since <= until]

    def _may_be_taken(self, turn: Turn) -> bool:
        had_s = self._now() - turn.since
        is_slow = turn.bytes_per_s is not None and turn.bytes_per_s < SLOW_BYTES_PER_S
        return not turn.yielding and (had_s >= MAX_TURN_S or (had_s >= LATE_S and is_slow))

    def _helps_any(self, turn: Turn, late: List[Turn]) -> bool:
        """Whether the end of `turn` would let a late turn of another owner go on."""
        others = [one for one in late if one.owner != turn.owner]
        return any(turn.held_up_since is None if one in self._taken else self._fits(one, turn) for one in others)

    def _fits(self, turn: Turn, ended: Optional[Turn] = None) -> bool:
        """Whether the limits allow the turn now, or once `ended` has ended."""
        taken = [one for one in self._taken if one is not ended]
        of_owner = sum(one.owner == turn.owner for one in taken)
        of_host = sum(one.host == turn.host for one in taken)
        return len(taken) < self._max_at_once and max(of_owner, of_host) < self._max_alike

    def _taken_by_owner(self, turn: Turn) -> int:
        return sum(one.owner == turn.owner for one in self._taken)


class Turn:
    """One turn, from its request to its end. Its fields belong to its `Turns` and are guarded by their lock."""

    def __init__(self, turns: Turns, owner: str, host: str, since: float) -> None:
        self._turns = turns
        self.owner = owner
        self.host = host
        self.since = since
        """When it was asked for; once taken, when it was taken."""
        self.bytes_per_s: Optional[float] = None
        self.held_up_since: Optional[float] = None
        self.yielding = False

    def take(self) -> bool:
        """Take the turn if it is next. If not, call again a moment later: the place in the queue stays."""
        return self._turns.take(self)

    def end(self) -> None:
        """Give the turn back, or stop waiting for it."""
        self._turns.end(self)

    def note(self, *, bytes_per_s: Optional[float], held_up: bool) -> None:
        """Note the speed (None if it says nothing of the server) and whether the engine queues it behind others."""
        self._turns.note(self, bytes_per_s, held_up)

    def has_others(self) -> bool:
        """Whether another pull runs and is not held up."""
        return self._turns.has_others(self)

    def yields(self) -> bool:
        """Whether this pull must end now to make room for one that has waited too long."""
        return self._turns.yields(self)


def _pace_of(turn: Turn) -> Tuple[bool, float]:
    return (turn.bytes_per_s is None, turn.bytes_per_s or 0.0)
