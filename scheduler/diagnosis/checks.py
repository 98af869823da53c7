"""When a GPU is checked between jobs, and when checks that it passed give it back to the scheduler. Pure decisions."""

from __future__ import annotations

from scheduler.diagnosis.health import Heals, HealthLevel

IDLE_S = 300.0
"""A GPU that nothing speaks against is checked when nobody has had it for so long."""
FIRST_PAUSE_S, MAX_PAUSE_S = 10.0, 3600.0
"""Until the next check of a GPU that is in doubt: after a pass the first, after each failure in a row twice as long."""
UNANSWERED_AFTER_S = 900.0
"""A check of which nothing came for so long is given up; agents of before know nothing of checks."""
RELAPSE_S = 86_400.0
"""What fails again so soon after it was given back is not given back by itself any more."""


def pause_s(*, every_s: float, in_doubt: bool, streak: int) -> float | None:
    """How long until the next check; None for none. `streak` counts passes in a row, or below 0 failures."""
    if not in_doubt:
        return every_s or None
    failures = max(0, -streak)
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, 20), MAX_PAUSE_S)


def can_heal(heals: Heals | None, *, restarted: bool) -> bool:
    """Whether a check can show that a GPU is well again; `restarted`: its machine was, since it failed."""
    return heals in {Heals.AT_ONCE, Heals.BY_CHECKS} or (heals is Heals.BY_RESTART and restarted)


def gives_back(level: HealthLevel, heals: Heals | None, *, restarted: bool, passes: int, needed: int) -> bool:
    """Whether a GPU is given back after so many passes in a row.

    `needed` is what its pool asks for, 0 for never; one pass is enough for a GPU of which nothing is known but that it
    failed a check. A GPU of which nobody knows why it failed is not given back by itself.
    """
    if level is HealthLevel.OK or not can_heal(heals, restarted=restarted):
        return False
    if heals is Heals.AT_ONCE:
        return passes >= 1
    return needed > 0 and passes >= needed


def is_relapse(*, failed_at_s: float, given_back_at_s: float | None) -> bool:
    """Whether what failed had been given back by itself shortly before."""
    return given_back_at_s is not None and failed_at_s - given_back_at_s < RELAPSE_S
