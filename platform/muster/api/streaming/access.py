"""Calls that stay open end with the access of their callers.

`Authorised` authenticates the caller of a handler, and ends the call as soon as the caller's access has ended or
changed. One task in a process asks for all open calls together: when an access change is announced, and every
`RECHECK_EVERY_S` seconds in case an announcement was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from django.db import DatabaseError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import Message, Receive, Send
from starlette.types import Scope as StarletteScope

from muster.accounts.scopes import Scope
from muster.api.access import Access, accesses_of
from muster.api.authentication import Caller
from muster.api.scopes import require_open_to, require_scope
from muster.api.streaming.callers import CALLER, Unauthenticated, authenticated
from muster.common.asgi import in_thread
from muster.common.errors import MusterError, Unavailable
from muster.events.hub import hub
from muster.events.redis import ACCESS_CHANNEL

log = logging.getLogger(__name__)

RECHECK_EVERY_S = 5.0
# A burst of announcements, such as of an operator who deactivates a hundred users, costs one recheck.
PAUSE_S = 0.1


class AccessEnded(Exception):
    """The caller's access ended or changed while the call was open; `access` is the present one, None for none."""

    def __init__(self, access: Access | None) -> None:
        super().__init__()
        self.access = access


@dataclass(eq=False, slots=True)
class _OpenCall:
    caller: Caller
    access: Access | None
    ending: asyncio.Timeout

    def end(self, access: Access | None) -> None:
        self.access = access
        self.ending.reschedule(asyncio.get_running_loop().time())


class AccessWatch:
    """The open calls of this process."""

    def __init__(self) -> None:
        self._calls: set[_OpenCall] = set()

    @asynccontextmanager
    async def watched(self, caller: Caller, access: Access) -> AsyncIterator[None]:
        """Cancel the body when the caller no longer has this access, and raise `AccessEnded`."""
        ending = asyncio.timeout(None)
        call = _OpenCall(caller, access, ending)
        self._calls.add(call)
        try:
            async with ending:
                yield
        except TimeoutError:
            if ending.expired():
                raise AccessEnded(call.access) from None
            raise
        finally:
            self._calls.discard(call)

    async def run(self) -> None:
        """Recheck until cancelled."""
        with hub.waiter(ACCESS_CHANNEL) as waiter:
            while True:
                await waiter.wait(RECHECK_EVERY_S)
                try:
                    await self.recheck()
                except (MusterError, DatabaseError) as error:
                    log.warning("access_not_rechecked error=%s", error)
                await asyncio.sleep(PAUSE_S)

    async def recheck(self) -> None:
        """End the calls of callers whose access is no longer that of the beginning."""
        calls = list(self._calls)
        if not calls:
            return
        accesses = await in_thread(accesses_of, {call.caller for call in calls})
        for call in calls:
            access = accesses.get(call.caller)
            if access != call.access and call in self._calls:
                self._calls.discard(call)
                call.end(access)


access_watch = AccessWatch()


class Authorised:
    """An ASGI application: a handler for authenticated callers, which finds its caller by `callers.caller`."""

    def __init__(
        self, handler: Callable[[Request], Awaitable[Response]], scope: Scope, *, open_to_jobs: bool = False
    ) -> None:
        self._app = request_response(handler)
        self.open_to_jobs = open_to_jobs
        """True if the token of a job may call it."""
        self.scope = scope
        """The scope that a token needs."""

    async def __call__(self, scope: StarletteScope, receive: Receive, send: Send) -> None:
        """Authenticate the caller and answer the call.

        When access ends before the answer has begun, the answer is a refusal. An event stream is ended in order, so
        that its client connects again; any other answer is broken off, so that no client takes a part for the whole.
        """
        caller, access = await authenticated(Request(scope))
        require_open_to(caller.token, jobs=self.open_to_jobs)
        require_scope(caller.token, self.scope)
        scope[CALLER] = caller
        answer = _Answer(send)
        try:
            async with access_watch.watched(caller, access):
                await self._app(scope, receive, answer.send)
        except AccessEnded as ended:
            if answer.is_event_stream:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif not answer.has_begun:
                raise _refusal(ended) from ended


class _Answer:
    """The part of the answer that the handler has sent so far."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False
        self.is_event_stream = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            kind = dict(message["headers"]).get(b"content-type", b"")
            self.is_event_stream = kind.startswith(b"text/event-stream")
        await self._send(message)


def _refusal(ended: AccessEnded) -> MusterError:
    if ended.access is None:
        return Unauthenticated("your session or token ended during the call; sign in again")
    return Unavailable("your roles changed during the call; send it again")
