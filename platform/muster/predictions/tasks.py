"""Celery: the policies of pools run forward, the rows of waits, and the models of waits and of run times."""

from __future__ import annotations

from celery import shared_task
from celery.signals import worker_shutting_down

from muster.common.periodic import only_if
from muster.common.turns import in_batches
from muster.events.selectors import has_news_sql
from muster.predictions import children
from muster.predictions.forward import runs
from muster.predictions.learned import progress
from muster.predictions.learned.training import train_run_times as train_if_due
from muster.predictions.waits import records, training

only_if("predictions.run_forward", runs.HAS_LIVE_JOBS)
only_if("predictions.read_waits", f"({has_news_sql('predictions_waitreader')} OR {records.HAS_OUTLIVED})")
only_if("predictions.follow_progress", f"EXISTS ({progress.REPORTS})")


@shared_task(name="predictions.run_forward")
def run_forward() -> int:
    """Run the policies of pools with live jobs forward, each at its turn; returns how many were run."""
    return runs.run_due_pools()


@shared_task(name="predictions.read_waits")
def read_waits() -> int:
    """Write and complete the rows of waits by new events, and count waits that outlive their p90; returns how many."""
    return in_batches(records.read_events, of=records.BATCH) + in_batches(records.count_outlived, of=records.BATCH)


@shared_task(name="predictions.train_waits")
def train_waits() -> int:
    """Train the models of pools with enough new starts; returns how many were replaced."""
    return training.train_waits()


@shared_task(name="predictions.forget_waits")
def forget_waits() -> int:
    """Delete rows of waits that were over long ago; returns how many."""
    return records.forget()


@shared_task(name="predictions.follow_progress")
def follow_progress() -> int:
    """Correct the run times of jobs that report their steps; returns how many changed."""
    return progress.follow_progress()


@shared_task(name="predictions.train_run_times")
def train_run_times() -> bool:
    """Train the model of run times if enough runs have ended; returns whether it was trained."""
    return train_if_due()


@worker_shutting_down.connect
def _stop_children(**_: object) -> None:
    children.stop()
