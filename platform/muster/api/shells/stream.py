"""A shell from its user's side: what it writes, what is typed, leaving it. Each call carries the shell's own token."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from muster.api.authentication import bearer_secret
from muster.api.streaming.callers import Unauthenticated, number
from muster.common.asgi import in_thread, read_body
from muster.common.errors import Invalid, MusterError, NotFound, unknown_key
from muster.common.secrets import digest
from muster.shells import services
from muster.shells.models import Shell
from muster.shells.relay import Closed, Relay, relays
from nodeagent.protocol.shellwire import MAX_SHELL_BYTES

MAX_WAIT_S = 25
ROOM_WAIT_S = 10.0
MAX_BODY_BYTES = 2 * MAX_SHELL_BYTES
_MAX_OFFSET = 10**18
_KEYS = {"first", "start", "data", "rows", "cols", "over"}


async def shell_output(request: Request) -> Response:
    """`GET /shells/{id}/output`: what the shell wrote from `offset` on, once there is something.

    To ask from an offset confirms what is before it. When all is read and the shell is closed, the answer says how.
    """
    relay = await _relay(request)
    offset = number(request, "offset", default=0) or 0
    wait_s = number(request, "wait", default=MAX_WAIT_S) or 0
    if wait_s > MAX_WAIT_S:
        raise Invalid.field("wait", f"write at most {MAX_WAIT_S}")
    with relay.caller("client") as waiter:
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            full = relay.output.room <= 0
            data = relay.output.take(offset)
            if full and relay.output.room > 0:
                relay.changed()
            left_s = until - loop.time()
            if data or relay.closed is not None or left_s <= 0:
                break
            await waiter.wait(min(left_s, 5.0))
            if await request.is_disconnected():
                break
        closed = None if data else relay.closed
        return JSONResponse({"data": base64.b64encode(data).decode(), **_state(closed)})


async def shell_input(request: Request) -> Response:
    """`POST /shells/{id}/input`: what was typed from `start` on, and the size of the terminal; waits for room."""
    relay = await _relay(request)
    given = _read(await read_body(request, largest=MAX_BODY_BYTES))
    with relay.caller("client") as waiter:
        window = relay.input
        window.begin(given["first"])
        if given["rows"] is not None:
            relay.rows = given["rows"]
        if given["cols"] is not None:
            relay.cols = given["cols"]
        loop = asyncio.get_running_loop()
        until = loop.time() + ROOM_WAIT_S
        while window.room <= 0 and relay.closed is None and window.acked <= given["first"] and loop.time() < until:
            await waiter.wait(1.0)
            if await request.is_disconnected():
                break
        taken = window.put(given["start"], given["data"])
        if given["over"] and window.end == given["start"] + len(given["data"]):
            relay.input_over_at = window.end
        relay.changed(bytes_moved=bool(taken))
        return JSONResponse({"size": window.end, "acked": window.acked, **_state(relay.closed)})


async def close_shell(request: Request) -> Response:
    """`POST /shells/{id}:close`: the user leaves, and the shell ends."""
    secret, shell_id = _secret(request), request.path_params["shell_id"]

    def leave() -> Shell:
        shell = services.shell_of_token(shell_id, secret)
        services.leave_shell(shell)
        shell.refresh_from_db(fields=["state", "reason", "detail", "exit_code"])
        return shell

    shell = await in_thread(leave)
    closed = Closed.of(shell)
    if closed is not None:
        relays.of(shell).close(closed)
    return JSONResponse(_state(closed))


async def _relay(request: Request) -> Relay:
    """The relay of the shell whose token this is; the database is asked when this process does not know it."""
    secret, shell_id = _secret(request), request.path_params["shell_id"]
    relay = relays.known(shell_id)
    if relay is not None:
        if relay.token_digest != digest(secret):
            raise NotFound(f"there is no shell {shell_id}, or it has another token")
        return relay
    return relays.of(await in_thread(services.shell_of_token, shell_id, secret))


def _secret(request: Request) -> str:
    secret = bearer_secret(request.headers.get("authorization"))
    if not secret:
        raise Unauthenticated("send the shell's own token: Authorization: Bearer msh_…")
    return secret


def _state(closed: Closed | None) -> dict[str, Any]:
    if closed is None:
        return {"closed": False, "reason": None, "detail": None, "exit_code": None}
    return {"closed": True, "reason": closed.reason, "detail": closed.detail, "exit_code": closed.exit_code}


def _read(body: bytes) -> dict[str, Any]:
    """The body's fields, each checked."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MusterError("the body is not JSON") from error
    if not isinstance(given, dict):
        raise Invalid("the body must be an object")
    for name in sorted(set(given) - _KEYS):
        raise Invalid.field(name[:100], unknown_key(name, sorted(_KEYS)))
    text, over = given.get("data", ""), given.get("over", False)
    if not isinstance(over, bool):
        raise Invalid.field("over", "write true or false")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise Invalid.field("data", "write base64") from error
    if len(data) > MAX_SHELL_BYTES:
        raise Invalid.field("data", f"write {MAX_SHELL_BYTES} bytes at most")
    first, start = (_whole(given, name, 0) for name in ("first", "start"))
    rows, cols = (given.get(name) for name in ("rows", "cols"))
    for name, side in (("rows", rows), ("cols", cols)):
        if side is not None:
            services.require_side(name, _whole(given, name, 1))
    return {"first": first, "start": start, "data": data, "rows": rows, "cols": cols, "over": over}


def _whole(given: dict[str, Any], name: str, least: int) -> int:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MAX_OFFSET:
        raise Invalid.field(name, f"write a whole number from {least} on")
    return value
