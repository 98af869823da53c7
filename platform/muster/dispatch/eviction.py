"""The time after which no process of an attempt can be left on a silent node, by the platform's clock alone.

An agent counts from the time at which it sent the newest answered request, the platform from the time at which it
handled the newest request. So the agent always starts to count first. The margin covers the rates of the two clocks
and the time of the kill.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

MAX_CLOCK_DRIFT = 0.03
"""The fraction by which the agent may be late. Two clocks within 1 % of the right rate differ by up to 2.02 %; the rest
is time for the kernel to end killed processes."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A `stop_after` that the pool had until a moment; agents answered before then may still use it."""

    from_s: float
    at: datetime


def eviction_after_s(*, stop_after_s: float, grace_s: float, margin_s: float) -> float:
    """Seconds after the last answered request when no process can be left; at least `margin_s` after the SIGKILL."""
    kill_s = stop_after_s + grace_s
    return kill_s + max(margin_s, MAX_CLOCK_DRIFT * kill_s)


def eviction_deadline(
    *,
    heard_at: datetime,
    away_since: datetime,
    stop_after_s: float,
    grace_s: float,
    margin_s: float,
    lowered: Lowered | None = None,
) -> datetime:
    """The eviction deadline: when no process can be left on a node last heard at `heard_at`, silent since `away_since`.

    A job's shim looks for a newer lease only when the one that it knows has expired, so the longest answered lease
    counts: if `stop_after` was lowered, one from before `lowered.at`.
    """
    deadline = away_since + timedelta(
        seconds=eviction_after_s(stop_after_s=stop_after_s, grace_s=grace_s, margin_s=margin_s)
    )
    if lowered is None:
        return deadline
    longer_s = eviction_after_s(stop_after_s=lowered.from_s, grace_s=grace_s, margin_s=margin_s)
    return max(deadline, min(heard_at, lowered.at) + timedelta(seconds=longer_s))
