"""Celery: losses from logs, advice by losses, rates of failures, and what is forgotten."""

from __future__ import annotations

import time

from celery import shared_task
from django.conf import settings

from muster.common.turns import in_batches
from muster.training import services
from muster.training.loglines import read_logs

MAX_TURN_S = 10.0
"""So long a worker may go on with what has changed before it looks at other tasks."""
_COARSEST_S = 3600


@shared_task(name="training.look")
def look() -> int:
    """Read losses from logs, and tell what there is to tell; returns how many figures were looked at."""
    until = time.monotonic() + MAX_TURN_S
    read_logs(until=until)
    return in_batches(services.look_at_losses, of=services.MAX_SERIES, until=until)


@shared_task(name="training.count_failures")
def count_failures() -> None:
    """Bring the rates of failures up to date."""
    services.count_failures()


@shared_task(name="training.forget")
def forget() -> int:
    """Remove what is kept no longer than the coarsest samples; returns how many figures."""
    return services.forget_old_series(older_than=settings.SAMPLES_KEPT_FOR[_COARSEST_S])
