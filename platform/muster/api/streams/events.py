"""`GET /stream`: what happens to the things a page shows, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from muster.accounts.models import User
from muster.api.streams import sse
from muster.api.streams.callers import caller
from muster.common.asgi import in_thread
from muster.common.errors import Invalid, MusterError
from muster.events.hub import hub
from muster.events.models import Event
from muster.events.redis import EVENTS_CHANNEL
from muster.events.selectors import EventCursor, after, newest
from muster.fleet.models import Node
from muster.jobs.selectors import get_job
from muster.tenants.selectors import tenants_of

log = logging.getLogger(__name__)

READ_AGAIN_AFTER_S = 5.0
# Under load, events are read in handfuls; a page does not see the difference, and the database does.
GATHER_S = 0.03
MOST_AT_ONCE = 500
MOST_WAITING = 2000
ALLOWED_AGAIN_EVERY_S = 30.0

_TOPIC = re.compile(r"jobs|nodes|job:[0-9]{1,18}")


@dataclass(eq=False, slots=True)
class _Listener:
    """One open stream; one that reads too slowly is told to load everything again."""

    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))
    missed: bool = False

    def give(self, event: Event) -> None:
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.missed = True


class Feed:
    """The one reader of events in this process, who hands them to every open stream."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    @contextlib.contextmanager
    def listener(self) -> Iterator[_Listener]:
        """A listener for as long as the stream is open."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def run(self) -> None:
        """Read until cancelled. Nobody is listening: nothing is read, and reading starts anew at the newest event."""
        cursor: EventCursor | None = None
        with hub.waiter(EVENTS_CHANNEL) as waiter:
            while True:
                await waiter.wait(READ_AGAIN_AFTER_S)
                await asyncio.sleep(GATHER_S)
                try:
                    cursor = await self._read(cursor) if self._listeners else None
                except MusterError as error:
                    log.warning("event_feed_waits error=%s", error)

    async def _read(self, cursor: EventCursor | None) -> EventCursor:
        if cursor is None:
            cursor = await in_thread(_before_newest)
        while True:
            events = await in_thread(lambda place: list(after(place)[:MOST_AT_ONCE]), cursor)
            for event in events:
                for listener in self._listeners:
                    listener.give(event)
            if events:
                cursor = EventCursor(events[-1].tx, events[-1].pk)
            if len(events) < MOST_AT_ONCE:
                return cursor


feed = Feed()


async def stream(request: Request) -> Response:
    """The events of `?topics=jobs,job:1042,nodes` that the caller may see."""
    user = await caller(request)
    topics = [topic for topic in request.query_params.get("topics", "jobs").split(",") if topic]
    if not topics or len(topics) > 50 or not all(_TOPIC.fullmatch(topic) for topic in topics):
        raise Invalid.field("topics", "write jobs, nodes or job:ID, with commas between them")
    job_ids = {int(topic.removeprefix("job:")) for topic in topics if topic.startswith("job:")}
    for job_id in job_ids:
        await in_thread(get_job, user, job_id)
    return sse.stream(_events(user, frozenset(topics), job_ids))


async def _events(user: User, topics: frozenset[str], job_ids: set[int]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    names = await in_thread(_node_names)
    allowed = await in_thread(_tenant_ids, user)
    allowed_until = loop.time() + ALLOWED_AGAIN_EVERY_S
    with feed.listener() as listener:
        yield sse.event({"topic": "stream", "kind": "open", "job": None, "node": None, "at": None, "data": {}})
        while True:
            if loop.time() > allowed_until:
                allowed, names = await in_thread(_tenant_ids, user), await in_thread(_node_names)
                allowed_until = loop.time() + ALLOWED_AGAIN_EVERY_S
            try:
                async with asyncio.timeout(sse.KEEP_ALIVE_AFTER_S):
                    event = await listener.queue.get()
            except TimeoutError:
                yield sse.KEEP_ALIVE
                continue
            if listener.missed:
                listener.missed = False
                yield sse.event(
                    {"topic": "stream", "kind": "missed", "job": None, "node": None, "at": None, "data": {}}
                )
            topic = _topic_of(event, topics, job_ids, allowed)
            if topic:
                yield sse.event(_data(event, topic, names))


def _topic_of(event: Event, topics: frozenset[str], job_ids: set[int], allowed: frozenset[int] | None) -> str | None:
    if event.job_id is not None:
        if allowed is not None and event.tenant_id not in allowed:
            return None
        if event.job_id in job_ids:
            return f"job:{event.job_id}"
        return "jobs" if "jobs" in topics else None
    if event.node_id is not None and "nodes" in topics:
        return "nodes"
    return None


def _data(event: Event, topic: str, names: dict[int, str]) -> dict[str, object]:
    return {
        "topic": topic,
        "kind": event.kind,
        "job": event.job_id,
        "node": names.get(event.node_id) if event.node_id else None,
        "at": event.at.isoformat(),
        "data": event.data,
    }


def _before_newest() -> EventCursor:
    # The event that woke us may be the newest one: start just before it rather than miss it.
    place = newest()
    return EventCursor(place.tx, place.id - 1)


def _tenant_ids(user: User) -> frozenset[int] | None:
    """The tenants whose jobs the user may see, None for all; nothing for a user who was deactivated meanwhile."""
    user.refresh_from_db(fields=["is_active", "is_staff"])
    if not user.is_active:
        return frozenset()
    return None if user.is_operator else frozenset(tenants_of(user).values_list("pk", flat=True))


def _node_names() -> dict[int, str]:
    return dict(Node.objects.values_list("pk", "name"))
