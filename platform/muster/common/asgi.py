"""The asynchronous side of the web process: database work in threads that persist, and refusals as problems."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from muster.common.errors import MusterError, TooLarge, TooMany, Unavailable

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# Threads keep their database connections; a thread made for one call would open one each time.
_POOL = ThreadPoolExecutor(max_workers=12, thread_name_prefix="db")
# One thread: large chunks come from jobs that print faster than users read, and all other calls share the interpreter
# with it. With two threads, logs are stored a quarter faster, and a followed line arrives a quarter later.
_BULK = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bulk")
BULK_BYTES = 128 << 10
# One thread as well: a check of a member's upload may take the interpreter seconds.
_CHECKS = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checks")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The function's result, computed in a thread that may use the database."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, partial(_call, partial(function, *args, **kwargs)))


async def store_in_thread(size: int, function: Callable[[], T]) -> T:
    """The same for a function that stores `size` bytes; functions with large sizes run one at a time."""
    pool = _BULK if size >= BULK_BYTES else _POOL
    return await asyncio.get_running_loop().run_in_executor(pool, partial(_call, function))


async def checked_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for a slow function; these run one at a time, on a thread that other calls do not use."""
    return await asyncio.get_running_loop().run_in_executor(_CHECKS, partial(_call, partial(function, *args, **kwargs)))


def _call(function: Callable[[], T]) -> T:
    # No health check before each call, as Django's own requests have: these callers send again what failed.
    try:
        return function()
    except (OperationalError, InterfaceError) as error:
        close_old_connections()
        raise Unavailable("the database does not answer; send the call again") from error
    except DatabaseError:
        close_old_connections()
        raise


async def read_body(request: Request, *, largest: int) -> bytes:
    """The whole body; `TooLarge` as soon as it is longer than `largest` bytes."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > largest:
        raise TooLarge(f"the body may have {largest} bytes at most")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise TooLarge(f"the body may have {largest} bytes at most")
        parts.append(part)
    return b"".join(parts)


def problem(error: MusterError) -> Response:
    """The refusal as an RFC 9457 problem document."""
    body = {
        "type": f"about:blank#{error.code}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "errors": [{"field": one.field, "message": one.message} for one in error.errors],
    }
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = "1"
    if isinstance(error, TooMany):
        headers["Retry-After"] = str(error.retry_after_s)
    return JSONResponse(body, status_code=error.status, media_type="application/problem+json", headers=headers)


async def on_refusal(_request: Request, error: Exception) -> Response:
    if not isinstance(error, MusterError):
        raise error
    return problem(error)


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Starlette's handler for a client that disconnects while it sends its body; the answer is not read."""
    return Response(status_code=400)


async def on_failure(request: Request, error: Exception) -> Response:
    """Starlette's handler for unexpected errors: the log has the traceback, the answer has no details."""
    log.error("unexpected_error path=%s", request.url.path, exc_info=error)
    return JSONResponse(
        {"type": "about:blank#internal", "title": "Internal error", "status": 500, "detail": "", "errors": []},
        status_code=500,
        media_type="application/problem+json",
    )


EXCEPTION_HANDLERS = {MusterError: on_refusal, ClientDisconnect: on_disconnect, Exception: on_failure}
