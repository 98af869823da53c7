"""Reading events in the order in which they became visible."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from muster.events.models import Event


@dataclass(frozen=True, slots=True, order=True)
class EventCursor:
    """The place of a reader in the order of events."""

    tx: int
    id: int


_NEWS = """
NOT EXISTS (SELECT FROM {table} WHERE (tx, event_id) = (
    SELECT tx, id FROM events_event WHERE tx < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    ORDER BY tx DESC, id DESC LIMIT 1
))"""


def settled() -> QuerySet[Event]:
    """Events that no running transaction can still slip in front of."""
    horizon = RawSQL("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", ())
    return Event.objects.filter(tx__lt=horizon).order_by("tx", "id")


def after(cursor: EventCursor) -> QuerySet[Event]:
    """Settled events behind the reader's place."""
    return settled().filter(Q(tx__gt=cursor.tx) | Q(tx=cursor.tx, id__gt=cursor.id))


def has_news_sql(table: str) -> str:
    """An SQL condition: the place that this table stores is not the newest settled event, or it stores none yet."""
    return _NEWS.format(table=table)


def of_job(job_id: int, cursor: EventCursor) -> QuerySet[Event]:
    """The job's events behind the reader's place, settled or not.

    All of them are written under the lock of their job, so none appears in front of one that was read.
    """
    return Event.objects.filter(job_id=job_id, id__gt=cursor.id).order_by("id")


def newest() -> EventCursor:
    """The place behind every settled event."""
    last = settled().reverse().values_list("tx", "id").first()
    return EventCursor(*last) if last else EventCursor(0, 0)
