"""Writing down why each waiting job waits, only where that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import transaction
from django.db.models import Case, JSONField, Value, When

from muster.events.services import record, recorded_together
from muster.jobs.models import Job
from scheduler.lifecycle import HoldReason, JobState
from scheduler.plan import Hold, Plan

BATCH = 500


def hold_as_data(hold: Hold) -> dict[str, Any]:
    """What is stored of a hold. The place in the queue is not: it would change for everybody behind each start."""
    return {
        "reason": str(hold.reason),
        "detail": hold.detail,
        "evidence": dict(hold.evidence),
        "helps": list(hold.helps),
    }


def reserved_holds(plan: Plan, reserved: Iterable[int]) -> Iterator[Hold]:
    """Why those wait for whom others have just been asked to stop: the next cycle would say the same."""
    places = {place.job_id: place for place in plan.places}
    for job_id in reserved:
        gpus = sum(len(share.gpu_ids) for share in places[job_id].allocations)
        yield Hold(
            job_id,
            HoldReason.RESERVED,
            f"{gpus} GPU{'' if gpus == 1 else 's'} are kept for this job while those who hold them stop",
            {"gpus": gpus},
            ("the jobs that were asked to stop have stopped",),
            position=1,
        )


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
    queued = Job.objects.filter(pool_id=pool_id, state=JobState.QUEUED)
    old = {row["pk"]: row for row in queued.values("pk", "tenant_id", "hold", "hold_reason")}
    changed = {pk: data for pk, data in new.items() if pk in old and old[pk]["hold"] != data}
    ids = sorted(changed)
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        with transaction.atomic(), recorded_together():
            Job.objects.filter(pk__in=some, state=JobState.QUEUED).update(
                hold=Case(*(When(pk=pk, then=Value(changed[pk], JSONField())) for pk in some)),
                hold_reason=Case(*(When(pk=pk, then=Value(changed[pk]["reason"])) for pk in some)),
            )
            for pk in some:
                _tell_if_new(pk, old[pk], changed[pk])
    return len(changed)


def _tell_if_new(job_id: int, before: Mapping[str, Any], hold: dict[str, Any]) -> None:
    """An event for a job that waits for another reason than before; numbers that move are no news."""
    if before["hold_reason"] != hold["reason"]:
        data = {"state": str(JobState.QUEUED), "reason": hold["reason"], "detail": hold["detail"]}
        record("job.held", actor="scheduler", tenant_id=before["tenant_id"], job_id=job_id, data=data)
