"""Who may fetch now: few at once, few of one host and few for one owner, so that whoever hangs leaves room for others.

What is fetched comes from servers that may be as slow as they like, so room is also made:

1. Whoever waits is served before those whose owner fetches more already, and else in the order in which they asked.
2. Whoever has waited for `LATE_S` may take the turn of another owner: of the slowest that has had it for as long and is
   slower than `SLOW_BYTES_PER_S`, and of any that has had it for `MAX_TURN_S`. That one is told that it `yields`.
3. A turn does not always help: an engine may keep it waiting until it has done with what others fetch. Whoever says so
   counts as one who waits.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, List, Optional, Tuple

LATE_S = 600.0
MAX_TURN_S = 3600.0
SLOW_BYTES_PER_S = float(1 << 20)


class Turns:
    """Up to `most` at once, and up to `most_alike` of one host or owner. May be used from any thread."""

    def __init__(self, most: int, most_alike: int, now: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._most_alike = most_alike
        self._now = now
        self._lock = threading.Lock()
        self._waiting: List[Turn] = []
        self._taken: List[Turn] = []

    def ask(self, *, owner: str, host: str) -> Turn:
        """A turn that is waited for from now on, until it ends."""
        turn = Turn(self, owner, host, self._now())
        with self._lock:
            self._waiting.append(turn)
        return turn

    def take(self, turn: Turn) -> bool:
        """As `Turn.take`."""
        with self._lock:
            able = [other for other in self._waiting if self._fits(other)]
            # Of equals the first is the one that asked first.
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
        """Those that have waited for long, for a turn or with one."""
        until = self._now() - LATE_S
        late = [one for one in self._waiting if one.since <= until and not self._fits(one)]
        return late + [one for one in self._taken if one.held_up_since is not None and one.held_up_since <= until]

    def _may_be_taken(self, turn: Turn) -> bool:
        had_s = self._now() - turn.since
        is_slow = turn.bytes_per_s is not None and turn.bytes_per_s < SLOW_BYTES_PER_S
        return not turn.yielding and (had_s >= MAX_TURN_S or (had_s >= LATE_S and is_slow))

    def _helps_any(self, turn: Turn, late: List[Turn]) -> bool:
        """Whether the end of the one would let any of the others go on. What an owner does to itself does not count."""
        others = [one for one in late if one.owner != turn.owner]
        return any(turn.held_up_since is None if one in self._taken else self._fits(one, turn) for one in others)

    def _fits(self, turn: Turn, ended: Optional[Turn] = None) -> bool:
        """Whether there is a turn for it, now or once the other has ended."""
        taken = [one for one in self._taken if one is not ended]
        of_owner = sum(one.owner == turn.owner for one in taken)
        of_host = sum(one.host == turn.host for one in taken)
        return len(taken) < self._most and max(of_owner, of_host) < self._most_alike

    def _taken_by_owner(self, turn: Turn) -> int:
        return sum(one.owner == turn.owner for one in self._taken)


class Turn:
    """One turn, from when it is asked for to its end. Its fields are its `Turns`', under the lock of those."""

    def __init__(self, turns: Turns, owner: str, host: str, since: float) -> None:
        self._turns = turns
        self.owner = owner
        self.host = host
        self.since = since
        """When it was asked for, and then when it was taken."""
        self.bytes_per_s: Optional[float] = None
        self.held_up_since: Optional[float] = None
        self.yielding = False

    def take(self) -> bool:
        """Take it if it has come; whoever gets none asks again a moment later, and keeps its place until then."""
        return self._turns.take(self)

    def end(self) -> None:
        """Give it back, or wait for it no more."""
        self._turns.end(self)

    def note(self, *, bytes_per_s: Optional[float], held_up: bool) -> None:
        """Note how fast it fetches, where that tells of whom it fetches from, and whether others keep it waiting."""
        self._turns.note(self, bytes_per_s, held_up)

    def has_others(self) -> bool:
        """Whether there is another turn of somebody who fetches and is not kept waiting."""
        return self._turns.has_others(self)

    def yields(self) -> bool:
        """Whether it is to end now, as others have waited for too long."""
        return self._turns.yields(self)


def _pace_of(turn: Turn) -> Tuple[bool, float]:
    return (turn.bytes_per_s is None, turn.bytes_per_s or 0.0)
