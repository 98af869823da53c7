"""Why a job waits, as the last cycle that looked at it found."""

from __future__ import annotations

from typing import Any

from muster.dispatch.models import Cycle
from muster.jobs.models import Job
from muster.jobs.selectors import positions
from scheduler.lifecycle import JobState


def why(job: Job) -> dict[str, Any]:
    """The dominant reason, its evidence, what would help and the place in the queue; for a job that does not wait,
    why it is where it is."""
    cycle = Cycle.objects.filter(pool_id=job.pool_id).order_by("-pk").values("pk", "started_at").first()
    answer: dict[str, Any] = {
        "state": job.state,
        "reason": job.reason or None,
        "detail": job.reason_detail or _SENTENCES[JobState(job.state)],
        "evidence": {},
        "helps": [],
        "position": None,
        "cycle": cycle["pk"] if cycle else None,
        "at": cycle["started_at"] if cycle else None,
    }
    if job.state == JobState.QUEUED:
        answer["position"] = positions([job]).get(job.pk)
        if job.hold:
            answer |= {key: job.hold[key] for key in ("reason", "detail", "evidence", "helps")}
        else:
            answer |= {"reason": None, "detail": "no cycle has looked at it yet"}
    return answer


_SENTENCES = {
    JobState.QUEUED: "it waits",
    JobState.ACTIVE: "it has its GPUs",
    JobState.SUCCEEDED: "it succeeded",
    JobState.FAILED: "it failed",
    JobState.CANCELLED: "it was cancelled",
}
