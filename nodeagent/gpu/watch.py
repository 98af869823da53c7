"""Health events from a driver's counters and states, told when a condition begins and again while it lasts.

Pure: the driver brings what it reads and the time, so that any driver can use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from nodeagent.protocol.messages import HealthEvent

LOOK_EVERY_S = 20.0
AGAIN_AFTER_S = 600.0
"""Seconds until a lasting condition is reported again; the platform ends a warning after an hour without one."""
PATIENCE_S = 60.0
"""Seconds that a GPU may be slow, or keep memory of no process, before it is reported."""


@dataclass(frozen=True)
class Condition:
    """The state of one GPU at one moment; None for a value that the GPU does not count."""

    uuid: str
    ecc_uncorrected: Optional[int] = None
    nvlink_errors: Optional[int] = None
    remap_pending: bool = False
    remap_failed: bool = False
    slowdown: str = ""
    """The reason that its hardware slows it down; empty if it does not."""
    held_mib: int = 0
    """Memory that is in use while no process is there."""


class Watch:
    """Remembers what was told of each GPU."""

    def __init__(self) -> None:
        self._counts: Dict[Tuple[str, str], int] = {}
        self._since: Dict[Tuple[str, str], float] = {}
        self._told: Dict[Tuple[str, str], float] = {}

    def look(self, conditions: Sequence[Condition], now: float) -> Tuple[HealthEvent, ...]:
        """The events to report at this time."""
        events: List[HealthEvent] = []

        def tell(kind: str, uuid: str, detail: str) -> None:
            if now - self._told.get((uuid, kind), -AGAIN_AFTER_S) >= AGAIN_AFTER_S:
                self._told[uuid, kind] = now
                events.append(HealthEvent(kind, uuid, detail))

        for one in conditions:
            grown = self._growth(one.uuid, "ecc", one.ecc_uncorrected)
            if grown:
                events.append(HealthEvent("ecc", one.uuid, "{} memory errors that were not corrected".format(grown)))
            if one.remap_failed:
                tell("row_remap_failed", one.uuid, "a row of its memory could not be remapped")
            elif one.remap_pending:
                tell("row_remap_pending", one.uuid, "rows of its memory wait for a reset to be remapped")
            grown = self._growth(one.uuid, "nvlink", one.nvlink_errors)
            if grown:
                tell("nvlink", one.uuid, "{} NVLink errors since the last look".format(grown))
            if self._lasts(one.uuid, "throttle", bool(one.slowdown), now):
                tell("throttle", one.uuid, one.slowdown)
            if self._lasts(one.uuid, "memory_held", bool(one.held_mib), now):
                tell("memory_held", one.uuid, "{} MiB are in use and no process is there".format(one.held_mib))
        return tuple(events)

    def _growth(self, uuid: str, kind: str, count: Optional[int]) -> int:
        """By how much a counter grew; nothing at the first look, and after a reset of the GPU."""
        if count is None:
            return 0
        before, self._counts[uuid, kind] = self._counts.get((uuid, kind), count), count
        return max(0, count - before)

    def _lasts(self, uuid: str, kind: str, is_so: bool, now: float) -> bool:
        """True if a condition has lasted longer than it is tolerated."""
        if not is_so:
            self._since.pop((uuid, kind), None)
            return False
        return now - self._since.setdefault((uuid, kind), now) >= PATIENCE_S
