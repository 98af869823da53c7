"""Celery: the delivery of the outbox."""

from __future__ import annotations

from celery import shared_task

from muster.common.periodic import only_if
from muster.events.delivery import WEBHOOK, any_waiting_sql, deliver_due, forget_old

only_if("events.deliver", any_waiting_sql(f"<> '{WEBHOOK}'"))


@shared_task(name="events.deliver")
def deliver() -> int:
    """Deliver what is due; returns how many rows were."""
    return deliver_due()


@shared_task(name="events.forget_deliveries")
def forget_deliveries() -> int:
    """Remove old rows of the outbox; returns how many."""
    return forget_old()
