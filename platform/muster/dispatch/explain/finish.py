"""The finish of a waiting job on each GPU type that it accepts, for its page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from muster.dispatch.config.planners import planner_of
from muster.dispatch.config.settings import config_of
from muster.dispatch.snapshot.snapshot import snapshot_without_others
from muster.jobs.models import Job
from scheduler.engine.finish import Finish, conclusion, finishes, in_words
from scheduler.model.lifecycle import Desired, JobState, Stage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FinishByType:
    """The finish on each type, the earliest first, and what follows in words; an empty `summary`: nothing follows."""

    summary: str
    detail: str
    types: Sequence[Finish]


def finish_by_type(job: Job) -> FinishByType | None:
    """The finishes of the job; None unless it waits and its pool could give it GPUs of several types."""
    waits = job.state == JobState.QUEUED and job.desired == Desired.RUN and job.stage == Stage.FULL
    if not waits or job.blocked_by or not job.request.needs_gpus or job.request.only_type is not None:
        return None
    snapshot = snapshot_without_others(job)
    try:
        config = config_of(job.pool, planner_of(job.pool_id, job.vc_id))
        found = finishes(snapshot, config, snapshot.waiting_by_id[job.pk])
    # A plug-in may fail in any way. The next cycle falls back and notifies the operators; the page shows the rest.
    except Exception:
        log.exception("finish_failed pool=%s", job.pool.name)
        return None
    return FinishByType(conclusion(found), in_words(found), found) if len(found) > 1 else None
