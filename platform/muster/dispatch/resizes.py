"""Stops resized attempts that make no progress, so that their jobs go on in their former sizes."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import JSONField, Value

from muster.common.clock import database_now
from muster.fleet.models import Pool
from muster.jobs.attempt.attempts import stop_attempt
from muster.jobs.attempt.resizes import TRIAL_S, resized_from
from muster.jobs.models import Attempt
from muster.samples.models import Speed
from scheduler.model.lifecycle import AttemptState, Stage
from scheduler.model.reasons import Reason

# A slow job may take longer for a step than the trial lasts.
_STEPS = 3


def stop_stuck_resizes(pool: Pool) -> None:
    """Stop attempts without progress for `TRIAL_S` and three steps in a new size, if the old size had any."""
    now = database_now()
    running = Attempt.objects.filter(
        job__pool=pool,
        state=AttemptState.RUNNING,
        stage=Stage.FULL,
        number__gt=1,
        running_at__lt=now - timedelta(seconds=TRIAL_S),
        unreachable_since__isnull=True,
        kept_until__isnull=True,
    )
    silent = running.exclude(job__request__elastic=Value(None, JSONField())).exclude(speed__since__isnull=False)
    for attempt in silent.select_related("job").order_by("pk"):
        before = resized_from(attempt)
        ran = None if before is None else before.attempt
        speed = None if ran is None else Speed.objects.filter(attempt=ran, since__isnull=False).first()
        if speed is None or speed.since is None or attempt.running_at is None:
            continue
        step_s = (speed.at - speed.since).total_seconds() / max(speed.steps, 1)
        ran_s = (now - attempt.running_at).total_seconds()
        if ran_s >= max(TRIAL_S, _STEPS * step_s):
            stop_attempt(
                attempt_id=attempt.pk,
                outcome=AttemptState.FAILED,
                reason=Reason.RESIZE_FAILED,
                detail=f"it made no progress in {ran_s / 60:.0f} minutes",
                actor="platform",
            )
