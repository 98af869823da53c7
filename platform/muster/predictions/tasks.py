"""Celery: the policies of pools run forward."""

from __future__ import annotations

from celery import shared_task

from muster.common.periodic import only_if
from muster.predictions.forward import runs

only_if("predictions.run_forward", runs.HAS_LIVE_JOBS)


@shared_task(name="predictions.run_forward")
def run_forward() -> int:
    """Run the policies of pools with live jobs forward, each at its turn; returns how many were run."""
    return runs.run_due_pools()
