"""Celery: losses from logs, advice by losses, idle jobs, rates of failures, and what is forgotten."""

from __future__ import annotations

import time

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from muster.common.turns import in_batches
from muster.monitoring import idle, services
from muster.monitoring.loglines import read_logs

MAX_TURN_S = 10.0
"""So long a worker may go on with what has changed before it looks at other tasks."""
_COARSEST_S = 3600


@shared_task(name="monitoring.look_at_losses")
def look_at_losses() -> int:
    """Read losses from logs, and tell what there is to tell; returns how many figures were looked at."""
    until = time.monotonic() + MAX_TURN_S
    read_logs(until=until)
    return in_batches(services.look_at_losses, of=services.MAX_SERIES, until=until)


@shared_task(name="monitoring.look_for_idle_jobs")
def look_for_idle_jobs() -> int:
    """Tell owners of idle jobs, and stop what must be; returns how many jobs are idle."""
    return idle.look(now=timezone.now())


@shared_task(name="monitoring.count_failures")
def count_failures() -> None:
    """Bring the rates of failures up to date."""
    services.count_failures()


@shared_task(name="monitoring.forget")
def forget() -> int:
    """Remove what is kept no longer than the coarsest samples; returns how many figures."""
    return services.forget_old_series(older_than=settings.SAMPLES_KEPT_FOR[_COARSEST_S])
