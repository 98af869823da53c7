"""Writing down why each waiting job waits, only where that changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Case, JSONField, Value, When

from muster.jobs.models import Job
from scheduler.lifecycle import HoldReason, JobState
from scheduler.plan import Hold

BATCH = 500


def hold_as_data(hold: Hold) -> dict[str, Any]:
    """What is stored of a hold. The place in the queue is not: it would change for everybody behind each start."""
    return {
        "reason": str(hold.reason),
        "detail": hold.detail,
        "evidence": dict(hold.evidence),
        "helps": list(hold.helps),
    }


def write_holds(pool_id: int, holds: Iterable[Hold], refused: dict[int, str]) -> int:
    """Store the holds that differ from what is stored, and return how many did."""
    new: dict[int, dict[str, Any]] = {hold.job_id: hold_as_data(hold) for hold in holds}
    for job_id, why in refused.items():
        new[job_id] = {
            "reason": str(HoldReason.REFUSED),
            "detail": f"it was about to start, and then: {why}",
            "evidence": {},
            "helps": ["the next cycle tries again"],
        }
    old = dict(Job.objects.filter(pool_id=pool_id, state=JobState.QUEUED).values_list("pk", "hold"))
    changed = {pk: data for pk, data in new.items() if pk in old and old[pk] != data}
    ids = sorted(changed)
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        Job.objects.filter(pk__in=some, state=JobState.QUEUED).update(
            hold=Case(*(When(pk=pk, then=Value(changed[pk], JSONField())) for pk in some)),
            hold_reason=Case(*(When(pk=pk, then=Value(changed[pk]["reason"])) for pk in some)),
        )
    return len(changed)
