"""When nothing of an attempt can be left on a node that stays away: arithmetic on the platform's clock alone.

An agent counts from the moment at which it sent the newest request that was answered, the platform from when it handled
the newest one that came. So the agent always begins first, and all that can go wrong is the rate of the two clocks and
the length of what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

CLOCKS_APART = 0.03
"""By so much of what is counted the agent may be late. Two clocks within 1 % of the right rate, one slow and one fast,
are 2.02 % apart; the rest is for the kernel to end what it was told to kill."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A `stop_after` that the pool had until a moment: whoever was answered before that may still go by it."""

    from_s: float
    at: datetime


def fence_s(*, stop_after_s: float, grace_s: float, margin_s: float) -> float:
    """How long after the last answered request no process can be left; `margin_s` at the least beyond the SIGKILL."""
    kill_s = stop_after_s + grace_s
    return kill_s + max(margin_s, CLOCKS_APART * kill_s)


def fence_at(
    *,
    heard_at: datetime,
    away_since: datetime,
    stop_after_s: float,
    grace_s: float,
    margin_s: float,
    lowered: Lowered | None = None,
) -> datetime:
    """From when on no process can be left on a node that was heard last at `heard_at`, and away since `away_since`.

    The shim of a job looks for a newer lease only when the one that it knows has run out, so the longest of the answers
    counts and not the newest. Of a time that was lowered that is one from before `lowered.at`, and from before the
    node fell silent.
    """
    fence = away_since + timedelta(seconds=fence_s(stop_after_s=stop_after_s, grace_s=grace_s, margin_s=margin_s))
    if lowered is None:
        return fence
    longer_s = fence_s(stop_after_s=lowered.from_s, grace_s=grace_s, margin_s=margin_s)
    return max(fence, min(heard_at, lowered.at) + timedelta(seconds=longer_s))
