"""Celery: what looks at running jobs every minute."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from muster.idle.watch import look


@shared_task(name="idle.look")
def look_for_idle_jobs() -> int:
    """Tell owners of idle jobs, and stop what must be; returns how many jobs are idle."""
    return look(now=timezone.now())
