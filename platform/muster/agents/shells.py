"""The calls by which an agent carries the bytes of shells, on the asynchronous side."""

from __future__ import annotations

import asyncio
import base64
import binascii

from django.conf import settings
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from muster.agents.endpoint import read_message, secret_of
from muster.common.asgi import in_thread
from muster.common.errors import Invalid
from muster.shells import services
from muster.shells.models import Shell, ShellReason
from muster.shells.relay import Closed, Relay, relays
from muster.shells.selectors import AGENT_LOST_AFTER_S
from nodeagent.protocol.shellwire import (
    MAX_SHELL_BYTES,
    ShellEndRequest,
    ShellInputAnswer,
    ShellInputRequest,
    ShellOpenAnswer,
    ShellOpenRequest,
    ShellOutputAnswer,
    ShellOutputRequest,
)

MAX_BODY_BYTES = 2 * MAX_SHELL_BYTES
MAX_WAIT_S = 25.0
ROOM_WAIT_S = 10.0
_SIGNAL_BASE = 128
_MAX_DETAIL_CHARS = 500


async def open_shell(request: Request) -> Response:
    """Give the shell to this run of the agent, and say what to start."""
    shell = await _shell(request)
    message = await read_message(request, ShellOpenRequest, largest=MAX_BODY_BYTES)
    services.require_agent(shell, fence=message.fence, epoch=message.epoch)
    await in_thread(lambda: services.open_shell(shell, epoch=message.epoch))
    relay = relays.of(shell)
    with relay.caller("agent"):
        answer = ShellOpenAnswer(
            command=tuple(shell.command),
            terminal=shell.terminal,
            term=shell.term,
            rows=relay.rows,
            cols=relay.cols,
            ends_in_s=settings.SHELL_LONGEST.total_seconds(),
            lost_after_s=AGENT_LOST_AFTER_S,
        )
        return JSONResponse(answer.to_dict())


async def output(request: Request) -> Response:
    """Take the shell's output; while the window is full, wait for the client to read."""
    shell = await _shell(request)
    message = await read_message(request, ShellOutputRequest, largest=MAX_BODY_BYTES)
    data = _bytes(message.data)
    relay = _relay(shell, message)
    with relay.caller("agent") as waiter:
        window = relay.output
        window.begin(message.first)
        until = asyncio.get_running_loop().time() + ROOM_WAIT_S
        while window.room <= 0 and relay.closed is None and window.acked <= message.first:
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0 or await request.is_disconnected():
                break
            await waiter.wait(min(left_s, 1.0))
        if window.put(message.start, data):
            relay.changed(bytes_moved=True)
        return JSONResponse(ShellOutputAnswer(size=window.end, acked=window.acked).to_dict())


async def input_(request: Request) -> Response:
    """Hand out what was typed, as soon as there is something, or the terminal should have another size."""
    shell = await _shell(request)
    message = await read_message(request, ShellInputRequest, largest=MAX_BODY_BYTES)
    relay = _relay(shell, message)
    with relay.caller("agent") as waiter:
        loop = asyncio.get_running_loop()
        until = loop.time() + min(max(message.wait_s, 0.0), MAX_WAIT_S)
        acked = relay.input.acked
        while True:
            data = relay.input.take(message.taken)
            if relay.input.acked > acked:
                acked = relay.input.acked
                relay.changed()  # wakes the client's calls that wait for room
            over = relay.input_over_at is not None and message.taken + len(data) >= relay.input_over_at
            resized = (relay.rows, relay.cols) != (message.rows, message.cols)
            left_s = until - loop.time()
            if data or resized or (over and not message.over) or relay.closed is not None or left_s <= 0:
                break
            await waiter.wait(min(left_s, 5.0))
            if await request.is_disconnected():
                break
        text = base64.b64encode(data).decode()
        return JSONResponse(ShellInputAnswer(data=text, rows=relay.rows, cols=relay.cols, over=over).to_dict())


async def end_shell(request: Request) -> Response:
    """Take the end of the shell."""
    shell = await _shell(request)
    message = await read_message(request, ShellEndRequest, largest=MAX_BODY_BYTES)
    services.require_agent(shell, fence=message.fence, epoch=message.epoch)
    await in_thread(_end, shell, message)
    closed = Closed.of(shell)
    if closed is not None:
        relays.of(shell).close(closed)
    return JSONResponse({})


def _end(shell: Shell, message: ShellEndRequest) -> None:
    exit_code = message.exit_code if message.signal is None else _SIGNAL_BASE + message.signal
    if exit_code is not None and not 0 <= exit_code <= 255:
        raise Invalid.field("exit_code", "write 0 to 255")
    services.end_shell(
        shell,
        epoch=message.epoch,
        ended=services.Ended(ShellReason(message.reason.value), exit_code, message.detail[:_MAX_DETAIL_CHARS]),
    )
    shell.refresh_from_db(fields=["state", "reason", "detail", "exit_code"])


def _relay(shell: Shell, message: ShellOutputRequest | ShellInputRequest) -> Relay:
    services.require_agent(shell, fence=message.fence, epoch=message.epoch)
    services.require_open(shell, message.epoch)
    return relays.of(shell)


async def _shell(request: Request) -> Shell:
    secret, numbers = secret_of(request), request.path_params
    return await in_thread(
        lambda: services.shell_of_agent(secret, allocation_id=numbers["id"], shell_id=numbers["shell_id"])
    )


def _bytes(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid.field("data", "write base64") from error
    if len(data) > MAX_SHELL_BYTES:
        raise Invalid.field("data", f"write {MAX_SHELL_BYTES} bytes at most")
    return data


_PREFIX = "/agent/v1/allocations/{id:int}/shells/{shell_id:int}"
SHELL_ROUTES = [
    Route(f"{_PREFIX}/open", open_shell, methods=["POST"]),
    Route(f"{_PREFIX}/output", output, methods=["POST"]),
    Route(f"{_PREFIX}/input", input_, methods=["POST"]),
    Route(f"{_PREFIX}/end", end_shell, methods=["POST"]),
]
