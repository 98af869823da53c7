"""Why members of a sweep wait, as a pending reason."""

from __future__ import annotations

from typing import Any

from muster.jobs.models import JobGroup
from scheduler.model.lifecycle import HoldReason


def waits_for_turn(group: JobGroup) -> dict[str, Any]:
    """Of a member that the sweep's budget holds back."""
    at_once = f"{group.parallel} member{'' if group.parallel == 1 else 's'} at once"
    return {
        "reason": HoldReason.GROUP,
        "detail": f"waits for its turn: sweep {group.pk} runs at most {at_once}",
        "evidence": {"parallel": group.parallel},
        "helps": ["a member of the sweep has ended"],
    }


def is_paused(group: JobGroup) -> dict[str, Any]:
    """Of a member that is at a rung before the others."""
    return {
        "reason": HoldReason.GROUP,
        "detail": f"paused at a rung: the best members of sweep {group.pk} go on when all of them are there",
        "evidence": {},
        "helps": ["the other members have reached the rung or ended"],
    }
