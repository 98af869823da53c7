"""Trains the model of run times when enough runs have ended since the last time, and replaces it by a better one."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from muster.common.clock import database_now
from muster.jobs.attempt.history import ended_since, newest_runs
from muster.predictions.children import Limits, attempt, in_child
from muster.predictions.learned.fitting import fitted
from muster.predictions.models import Kind, PredictorModel
from muster.predictions.versions import store_model
from scheduler.predict.runtimes.model import MAX_RUNS, MIN_RUNS

log = logging.getLogger(__name__)

EVERY = timedelta(days=1)
MIN_NEW_RUNS, MIN_GROWTH = 20, 0.1
"""New runs for the next training: the minimum after a day, and the share of the old ones that needs no day."""
LIMITS = Limits(run_s=1800, wait_s=120)
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


def train_run_times() -> bool:
    """Train if it is time to; returns whether a model was trained, better or not."""
    return is_due(database_now()) and attempt("the training of the model of run times", _train)


def is_due(now: datetime) -> bool:
    """True if enough runs have ended since the last training."""
    last = PredictorModel.objects.filter(kind=Kind.RUN_TIME).order_by("-version").values("trained_at", "rows").first()
    if last is None:
        return ended_since(_EVER, most=MIN_RUNS) >= MIN_RUNS
    growth = max(MIN_NEW_RUNS, int(MIN_GROWTH * last["rows"]))
    least = MIN_NEW_RUNS if now - last["trained_at"] >= EVERY else growth
    return ended_since(last["trained_at"], most=least) >= least


def _train() -> None:
    active = PredictorModel.objects.filter(kind=Kind.RUN_TIME, active=True).first()
    before = None if active is None else bytes(active.data)
    fit = partial(fitted, before, database_now().timestamp())
    found = in_child(fit, newest_runs(MAX_RUNS), limits=LIMITS)
    if found is None:
        return
    store_model(
        kind=Kind.RUN_TIME, pool_id=None, rows=found.runs, scores=found.scores, data=found.data, active=found.better
    )
    log.info("model_trained kind=%s runs=%s better=%s scores=%s", Kind.RUN_TIME, found.runs, found.better, found.scores)
