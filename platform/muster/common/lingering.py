"""Answers that come before the end of the request's body, such as 413, reach a client that is still sending it."""

from __future__ import annotations

import asyncio
import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# How long the rest of a refused body is read and thrown away.
LINGER_S = 30.0


class Lingering:
    """An application whose connections stay open until the client has sent its body, or `LINGER_S` are over.

    A connection that is closed while bytes are unread is reset, and a client that is still writing loses the answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        rest = _Body(receive, awaited=_awaits_consent(scope))

        async def send_and_linger(message: Message) -> None:
            if message["type"] != "http.response.body" or message.get("more_body", False) or rest.is_over:
                await send(message)
                return
            await send({**message, "more_body": True})
            await rest.discard()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, rest.receive, send_and_linger)


class _Body:
    """The body of a request; `awaited` = the client sends none of it before it is asked for."""

    def __init__(self, receive: Receive, *, awaited: bool) -> None:
        self._receive = receive
        self.is_over = awaited

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_over = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def discard(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self.is_over:
                    await self.receive()


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _awaits_consent(scope: Scope) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"])
