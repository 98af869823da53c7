"""`GET /stream`: what happens to the things a page shows, as it happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from muster.accounts.models import User
from muster.api.streaming import sse
from muster.api.streaming.callers import caller
from muster.common.asgi import in_thread
from muster.common.errors import Invalid, MusterError
from muster.events.hub import Waiter, hub
from muster.events.models import Event
from muster.events.redis import EVENTS_CHANNEL
from muster.events.selectors import EventCursor, after, newest
from muster.fleet.models import Node
from muster.jobs.selectors import get_job
from muster.tenants.selectors import tenants_of
from scheduler.model.lifecycle import GroupKind

log = logging.getLogger(__name__)

READ_AGAIN_AFTER_S = 5.0
# Under load, events are read in handfuls; a page does not see the difference, and the database does.
GATHER_S = 0.03
UNSETTLED_AGAIN_AFTER_S = 0.1
MAX_EVENTS_AT_ONCE = 500
MAX_QUEUED_EVENTS = 2000
NAMES_AGAIN_EVERY_S = 30.0

_OF_GROUPS = tuple(f"{kind}." for kind in GroupKind)
_TOPIC = re.compile(r"jobs|nodes|job:[0-9]{1,18}")


@dataclass(eq=False, slots=True)
class _Listener:
    """One open stream; one that reads too slowly is told to load everything again."""

    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED_EVENTS))
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
        self._place: EventCursor | None = None
        self._waiter: Waiter | None = None

    @contextlib.asynccontextmanager
    async def listener(self) -> AsyncIterator[_Listener]:
        """A listener for as long as the stream is open: it is given everything that is stored from now on."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            if self._place is None:
                place = await in_thread(newest)
                # Another stream may have opened meanwhile.
                self._place = self._place or place
                self._look_again()
            yield listener
        finally:
            self._listeners.discard(listener)

    async def run(self) -> None:
        """Read events until cancelled, but only while there are listeners."""
        self._place = None
        with hub.waiter(EVENTS_CHANNEL) as self._waiter:
            while True:
                await self._waiter.wait(READ_AGAIN_AFTER_S)
                await asyncio.sleep(GATHER_S)
                try:
                    await self._read()
                except MusterError as error:
                    log.warning("event_feed_waits error=%s", error)

    async def _read(self) -> None:
        if not self._listeners:
            self._place = None
        while self._place is not None:
            events, unsettled = await in_thread(_behind, self._place)
            for event in events:
                for listener in self._listeners:
                    listener.give(event)
            if events:
                self._place = EventCursor(events[-1].tx, events[-1].pk)
            if len(events) < MAX_EVENTS_AT_ONCE:
                if unsettled:
                    # They were announced already, so no message will wake us for them.
                    asyncio.get_running_loop().call_later(UNSETTLED_AGAIN_AFTER_S, self._look_again)
                return

    def _look_again(self) -> None:
        if self._waiter is not None:
            self._waiter.wake()


feed = Feed()


async def stream(request: Request) -> Response:
    """The events of `?topics=jobs,job:1042,nodes` that the caller may see."""
    user = caller(request)
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
    names_until = loop.time() + NAMES_AGAIN_EVERY_S
    async with feed.listener() as listener:
        yield sse.event({"topic": "stream", "kind": "open", "job": None, "node": None, "at": None, "data": {}})
        while True:
            if loop.time() > names_until:
                names = await in_thread(_node_names)
                names_until = loop.time() + NAMES_AGAIN_EVERY_S
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
    if event.kind.startswith(_OF_GROUPS):
        # Of its members' submission only the group tells.
        return "jobs" if "jobs" in topics and (allowed is None or event.tenant_id in allowed) else None
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


def _behind(place: EventCursor) -> tuple[list[Event], bool]:
    """The next events, and whether more are stored that a running transaction could still slip in front of."""
    events = list(after(place)[:MAX_EVENTS_AT_ONCE])
    last = events[-1].tx if events else place.tx
    return events, Event.objects.filter(tx__gt=last).exists()


def _tenant_ids(user: User) -> frozenset[int] | None:
    """The tenants whose jobs the user may see, None for all."""
    return None if user.is_operator else frozenset(tenants_of(user).values_list("pk", flat=True))


def _node_names() -> dict[int, str]:
    return dict(Node.objects.values_list("pk", "name"))
