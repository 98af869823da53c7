"""Carrying out what the outbox holds: at least once, with back-off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from smtplib import SMTPException, SMTPRecipientsRefused
from typing import Any

from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from muster.events.models import Outbox

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
MAX_PAUSE_S = 3600
KEPT_FOR = timedelta(days=7)

WEBHOOK = "webhook"
"""Has a task of its own: its receivers may be slow, and mail must not wait for them."""
APART = (WEBHOOK,)


class Hopeless(Exception):
    """No further try can help: the row is given up."""


def deliver_due(limit: int = 50) -> int:
    """Deliver up to `limit` rows that are due and return how many were.

    1. A short transaction takes the rows by moving their due time past the lease; others skip them.
    2. Each is carried out with no transaction open.
    3. Success marks it delivered; a failure stores the error and the next try.
    """
    return sum(_deliver(row) for row in take_due(waiting().exclude(topic__in=APART), limit=limit))


def waiting() -> QuerySet[Outbox]:
    """The rows that are neither delivered nor given up."""
    return Outbox.objects.filter(delivered_at__isnull=True, dropped_at__isnull=True)


def any_waiting_sql(topics: str) -> str:
    """An SQL condition: rows wait whose topic meets `topics`, such as `<> 'webhook'`, due or not."""
    return f"EXISTS (SELECT FROM events_outbox WHERE delivered_at IS NULL AND dropped_at IS NULL AND topic {topics})"


def take_due(rows: QuerySet[Outbox], *, limit: int) -> list[Outbox]:
    """The oldest due rows, leased to this worker: no other worker gets them until the lease ends."""
    now = timezone.now()
    due = rows.filter(due_at__lte=now)
    if not due.exists():  # nearly always, and one statement instead of a transaction
        return []
    with transaction.atomic():
        taken = list(due.select_for_update(skip_locked=True, no_key=True).order_by("due_at")[:limit])
        Outbox.objects.filter(pk__in=[row.pk for row in taken]).update(due_at=now + LEASE, tries=F("tries") + 1)
    return taken


def note_delivered(row: Outbox) -> None:
    """Mark the row as carried out."""
    Outbox.objects.filter(pk=row.pk).update(delivered_at=timezone.now(), last_error="")


def note_failed(row: Outbox, error: str, *, due_at: datetime | None = None) -> None:
    """Store the error, and the next try: after a pause that grows, or at `due_at`; too late for one, it is given up."""
    pause = timedelta(seconds=min(2 ** min(row.tries + 1, 12), MAX_PAUSE_S))
    due_at = due_at or timezone.now() + pause
    if row.give_up_at is not None and due_at > row.give_up_at:
        drop([row.pk], error)
        return
    Outbox.objects.filter(pk=row.pk).update(due_at=due_at, last_error=error[:2000])
    log.warning("outbox_delivery_failed id=%s topic=%s error=%s", row.pk, row.topic, error)


def drop(ids: Iterable[int], why: str) -> None:
    """Give the rows up: they are tried no more, and say why."""
    dropped = waiting().filter(pk__in=list(ids)).update(dropped_at=timezone.now(), last_error=why[:2000])
    log.warning("outbox_rows_dropped count=%s why=%s", dropped, why)


def forget_old(*, most: int = 10_000) -> int:
    """Remove the oldest rows that were carried out or given up a week ago, and return how many."""
    over = Outbox.objects.exclude(delivered_at__isnull=True, dropped_at__isnull=True)
    old = over.filter(created_at__lt=timezone.now() - KEPT_FOR).order_by("created_at").values("pk")[:most]
    return Outbox.objects.filter(pk__in=old).delete()[0]


def _deliver(row: Outbox) -> bool:
    try:
        HANDLERS[row.topic](row.payload)
    except Hopeless as error:
        drop([row.pk], str(error))
        return False
    except (OSError, SMTPException, LookupError, ValueError) as error:
        # An unknown topic and a malformed payload come here too: they must not stop the rows behind them.
        note_failed(row, repr(error))
        return False
    note_delivered(row)
    return True


def _send_mail(payload: dict[str, Any]) -> None:
    """Hand a mail in. Its `id`, the same at each try, tells readers that one which came twice is one."""
    headers = {"Auto-Submitted": "auto-generated"} | ({"Message-ID": payload["id"]} if "id" in payload else {})
    mail = EmailMessage(payload["subject"], payload["body"], None, payload["to"], headers=headers)
    try:
        mail.send()
    except SMTPRecipientsRefused as error:
        if all(code >= 500 for code, _ in error.recipients.values()):
            raise Hopeless(repr(error)) from error
        raise


HANDLERS: dict[str, Callable[[dict[str, Any]], None]] = {"mail": _send_mail}
