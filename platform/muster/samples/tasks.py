"""Celery: what sums samples up, and what forgets them."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from muster.fleet.leases import tick
from muster.samples.levels import forget, roll_up
from muster.samples.rates import refresh_rates


@shared_task(name="samples.roll_up")
def roll_up_samples() -> int:
    """Bring minutes and hours up to date; returns how many windows of time were done."""
    tick("default")
    return roll_up(now=timezone.now())


@shared_task(name="samples.refresh_rates")
def refresh_rates_of_jobs() -> int:
    """Estimate the rates of live jobs if something is new; returns how many jobs have an estimate now."""
    return refresh_rates()


@shared_task(name="samples.forget")
def forget_old_samples() -> int:
    """Delete what is past its time; returns how many rows."""
    return forget(now=timezone.now())
