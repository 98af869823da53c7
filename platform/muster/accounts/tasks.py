"""Celery: removing what sign-ins leave behind."""

from __future__ import annotations

from celery import shared_task

from muster.accounts.rates import remove_drained
from muster.accounts.sessions import remove_ended
from muster.accounts.signin import forget_addresses


@shared_task(name="accounts.forget")
def forget() -> int:
    """Remove ended sessions, drained counters and addresses unused for long; returns how many rows."""
    return remove_ended() + remove_drained() + forget_addresses()
