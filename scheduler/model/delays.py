"""The five delays of a waiting job, and the delay to which each pending reason belongs.

Several of them can hold at once, as when a job lacks quota while no GPU is free. Then the first in this order counts:
not eligible, fair share, capacity, fragmentation, order. A decision knows which of the last three holds by the GPUs
that are free after it (`scheduler.engine.delays`); the table is for reasons that are told without a decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduler.model.lifecycle import HoldReason


class Delay(StrEnum):
    """The cause of a wait, in the order of precedence."""

    NOT_ELIGIBLE = "not_eligible"
    """No decision may start it yet, whatever is free."""
    FAIR_SHARE = "fair_share"
    """The quota of its virtual cluster or a cap on its owner has no room for it; it may be borrowing GPUs."""
    CAPACITY = "capacity"
    """Fewer GPUs that it may use are free than it asks for."""
    FRAGMENTATION = "fragmentation"
    """Enough of them are free, but not together, or not with its CPUs and memory."""
    ORDER = "order"
    """It would fit into what is free, which the policy keeps for others or has not offered to it yet."""
    OTHER = "other"
    """It can never start in this pool as it is, the platform starts no job, or nothing was decided yet."""


def _all(delay: Delay, *reasons: HoldReason) -> dict[HoldReason, Delay]:
    return dict.fromkeys(reasons, delay)


_R = HoldReason

DELAY_OF: Mapping[HoldReason, Delay] = {
    **_all(Delay.NOT_ELIGIBLE, _R.BEGIN, _R.DEPENDENCY, _R.HELD, _R.BACK_OFF, _R.STILL_STOPPING, _R.GROUP),
    **_all(Delay.FAIR_SHARE, _R.QUOTA, _R.QUOTA_TOO_SMALL, _R.CAP),
    **_all(Delay.CAPACITY, _R.NO_FREE_GPUS, _R.RESERVED),
    **_all(Delay.FRAGMENTATION, _R.FRAGMENTED, _R.CPU_OR_MEMORY, _R.RUNTIME, _R.SINGLE_USER, _R.NAMED_NODES),
    **_all(Delay.ORDER, _R.BEHIND_HEAD, _R.POLICY, _R.CYCLE_LIMIT),
    **_all(Delay.OTHER, _R.INFEASIBLE, _R.REFUSED, _R.MAINTENANCE),
}
"""The delay of each pending reason where no decision has told it."""

WITHIN_QUOTA = (Delay.CAPACITY, Delay.FRAGMENTATION, Delay.ORDER)
"""The delays of a job that is eligible and within its quota; their sum is the fragmentation delay of Philly's authors
(Jeon et al., USENIX ATC 2019, §3.1)."""

FIXED = frozenset(
    reason
    for reason, delay in DELAY_OF.items()
    if delay in {Delay.NOT_ELIGIBLE, Delay.FAIR_SHARE} or reason is HoldReason.INFEASIBLE
)
"""The pending reasons whose delay no free GPU changes."""
