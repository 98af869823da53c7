"""Carrying out what the outbox holds: at least once, with back-off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from smtplib import SMTPException
from typing import Any

from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from muster.events.models import Outbox

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
LONGEST_PAUSE_S = 3600


def deliver_due(limit: int = 50) -> int:
    """Deliver up to `limit` rows that are due and return how many were.

    1. A short transaction takes the rows by moving their due time past the lease; others skip them.
    2. Each is carried out with no transaction open.
    3. Success marks it delivered; a failure stores the error and the next try.
    """
    now = timezone.now()
    with transaction.atomic():
        rows = list(
            Outbox.objects.select_for_update(skip_locked=True)
            .filter(delivered_at__isnull=True, due_at__lte=now)
            .order_by("due_at")[:limit]
        )
        Outbox.objects.filter(pk__in=[row.pk for row in rows]).update(due_at=now + LEASE, tries=F("tries") + 1)
    return sum(_deliver(row) for row in rows)


def _deliver(row: Outbox) -> bool:
    try:
        HANDLERS[row.topic](row.payload)
    except (OSError, SMTPException, LookupError, ValueError) as error:
        # A topic that nobody knows and a payload that is no mail come here too: they must not stop the rows behind.
        pause = timedelta(seconds=min(2 ** min(row.tries + 1, 12), LONGEST_PAUSE_S))
        Outbox.objects.filter(pk=row.pk).update(due_at=timezone.now() + pause, last_error=repr(error)[:2000])
        log.warning("outbox_delivery_failed id=%s topic=%s error=%r", row.pk, row.topic, error)
        return False
    Outbox.objects.filter(pk=row.pk).update(delivered_at=timezone.now(), last_error="")
    return True


def _send_mail(payload: dict[str, Any]) -> None:
    send_mail(payload["subject"], payload["body"], None, payload["to"])


HANDLERS: dict[str, Callable[[dict[str, Any]], None]] = {"mail": _send_mail}
