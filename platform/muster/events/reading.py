"""Work that follows events: each is read once, in the order in which they became visible.

The place up to which events were read is stored in the transaction of what is done about them, so a worker that dies in
the middle has neither done anything nor passed an event by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from django.db import transaction

from muster.events.models import Event, EventReader
from muster.events.selectors import EventCursor, after, newest


def read_new(
    readers: type[EventReader], kinds: Collection[str], act: Callable[[Sequence[Event]], object], *, most: int
) -> int:
    """Act on up to `most` new events of these kinds, and return how many there were; 0 if another worker reads.

    The first call only stores the place of the newest event.
    """
    rows = readers._default_manager
    horizon = newest()
    if rows.filter(tx=horizon.tx, event_id=horizon.id).exists():
        return 0
    with transaction.atomic():
        reader = rows.select_for_update(skip_locked=True, no_key=True).first()
        # Read before the events: all that is committed by now is among them, or is passed by.
        horizon = newest()
        if reader is None:
            rows.bulk_create([readers(id=1, tx=horizon.tx, event_id=horizon.id)], ignore_conflicts=True)
            return 0
        place = EventCursor(reader.tx, reader.event_id)
        events = list(after(place).filter(kind__in=kinds)[:most])
        last = EventCursor(events[-1].tx, events[-1].id) if events else place
        new = last if len(events) == most else max(last, horizon)
        act(events)
        if new != place:
            rows.filter(pk=reader.pk).update(tx=new.tx, event_id=new.id)
    return len(events)
