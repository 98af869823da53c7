"""Times to check a GPU between jobs, and passed checks that return it to the scheduler. Pure decisions."""

from __future__ import annotations

from scheduler.diagnosis.health import HealthLevel, Recovers

IDLE_S = 300.0
"""A GPU that is not in doubt is checked once it has been free for this long."""
FIRST_PAUSE_S, MAX_PAUSE_S = 10.0, 3600.0
"""The pause before the next check of a GPU in doubt: the first after a pass, doubled with each failure in a row."""
UNANSWERED_AFTER_S = 900.0
"""A check without an answer is abandoned after this time, for instance if the agent is too old to know checks."""
RELAPSE_S = 86_400.0
"""A GPU that fails again within this time after checks returned it stays out of service until an operator acts."""


def pause_s(*, every_s: float, in_doubt: bool, streak: int) -> float | None:
    """The time until the next check; None for no check. `streak` counts passes in a row, or failures if negative."""
    if not in_doubt:
        return every_s or None
    failures = max(0, -streak)
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, 20), MAX_PAUSE_S)


def can_recover(condition: Recovers | None, *, restarted: bool) -> bool:
    """True if a check can show that the GPU has recovered; `restarted`: its machine restarted after the failure."""
    return condition in {Recovers.AT_ONCE, Recovers.BY_CHECKS} or (condition is Recovers.BY_RESTART and restarted)


def returns_to_service(
    level: HealthLevel, condition: Recovers | None, *, restarted: bool, passes: int, needed: int
) -> bool:
    """True if a GPU returns to service after `passes` passes in a row.

    `needed` is the number that the pool asks for, 0 for never. One pass is enough for a GPU whose only failure was a
    check. A GPU whose failure has no known cause does not return by itself.
    """
    if level is HealthLevel.OK or not can_recover(condition, restarted=restarted):
        return False
    if condition is Recovers.AT_ONCE:
        return passes >= 1
    return needed > 0 and passes >= needed


def is_relapse(*, failed_at_s: float, given_back_at_s: float | None) -> bool:
    """True if the GPU failed shortly after checks returned it to service."""
    return given_back_at_s is not None and failed_at_s - given_back_at_s < RELAPSE_S
