"""The web process: streams and agents' calls natively, everything else through Django in threads that persist."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from typing import Any, cast

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "muster.settings")
django.setup()

from a2wsgi import WSGIMiddleware  # noqa: E402  (Django must be set up before anything of ours is imported)
from django.conf import settings  # noqa: E402
from django.db import DatabaseError  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.routing import Mount, Route  # noqa: E402
from starlette.types import ASGIApp  # noqa: E402
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: E402

import muster.urls  # noqa: E402, F401  (Django would read it with the first request, and it is much)
from muster.accounts.scopes import Scope  # noqa: E402
from muster.agents.endpoint import ROUTES as AGENT_ROUTES  # noqa: E402
from muster.agents.shells import SHELL_ROUTES  # noqa: E402
from muster.api.checks import check_public_url, check_trusted_proxies  # noqa: E402
from muster.api.events.stream import feed, stream  # noqa: E402
from muster.api.headers import SecurityHeaders  # noqa: E402
from muster.api.logs.stream import logs  # noqa: E402
from muster.api.offers.stream import offers  # noqa: E402
from muster.api.outputs.stream import output_file  # noqa: E402
from muster.api.shells.stream import close_shell, shell_input, shell_output  # noqa: E402
from muster.api.streaming.access import Authorised, access_watch  # noqa: E402
from muster.api.uploads.stream import known, upload  # noqa: E402
from muster.common.asgi import EXCEPTION_HANDLERS, in_thread  # noqa: E402
from muster.common.crowds import allow_open_files, spared_collector  # noqa: E402
from muster.common.errors import MusterError  # noqa: E402
from muster.common.lingering import Lingering  # noqa: E402
from muster.events.hub import hub  # noqa: E402
from muster.fleet.leases import tick  # noqa: E402
from muster.shells.watch import watch  # noqa: E402
from muster.wsgi import application as django_application  # noqa: E402

log = logging.getLogger(__name__)

WSGI_THREADS = 8
TICK_EVERY_S = 2.0


@contextlib.asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncIterator[None]:
    """The hub, the feed, the watches and the tick run for as long as the process serves."""
    for message in (*check_trusted_proxies(None), *check_public_url(None)):
        log.warning("%s %s (%s)", message.msg, message.hint, message.id)
    tasks = [asyncio.create_task(job) for job in (hub.listen(), feed.run(), access_watch.run(), _tick(), watch())]
    allow_open_files()
    try:
        with spared_collector():
            yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tick() -> None:
    """Say every few seconds that agents' calls are being answered; the reaper counts no other time."""
    while True:
        try:
            await in_thread(tick, "web")
        except (MusterError, DatabaseError) as error:  # the latter before the database is migrated
            log.warning("tick_failed error=%s", error)
        await asyncio.sleep(TICK_EVERY_S)


_site = Starlette(
    routes=[
        *AGENT_ROUTES,
        *SHELL_ROUTES,
        Route("/api/v1/jobs/{job_id:int}/logs", Authorised(logs, Scope.READ, open_to_jobs=True), methods=["GET"]),
        Route(
            "/api/v1/jobs/{job_id:int}/files/{file_id:int}",
            Authorised(output_file, Scope.READ, open_to_jobs=True),
            methods=["GET"],
        ),
        Route("/api/v1/shells/{shell_id:int}/output", shell_output, methods=["GET"]),
        Route("/api/v1/shells/{shell_id:int}/input", shell_input, methods=["POST"]),
        Route("/api/v1/shells/{shell_id:int}:close", close_shell, methods=["POST"]),
        Route("/api/v1/stream", Authorised(stream, Scope.READ), methods=["GET"]),
        Route("/api/v1/offers", Authorised(offers, Scope.READ), methods=["GET"]),
        Route("/api/v1/uploads", Authorised(upload, Scope.SUBMIT), methods=["POST"]),
        Route("/api/v1/uploads/{sha256}", Authorised(known, Scope.READ), methods=["HEAD", "GET"]),
        # Both libraries describe the same two calls in types of their own.
        Mount("/", cast(ASGIApp, WSGIMiddleware(cast(Any, django_application), workers=WSGI_THREADS))),
    ],
    exception_handlers=EXCEPTION_HANDLERS,
    lifespan=lifespan,
)


def behind_proxies(app: ASGIApp, proxies: list[str]) -> ASGIApp:
    """The application, for which a client's address and scheme are what one of these proxies forwards."""
    wrapped: Any = ProxyHeadersMiddleware(cast(Any, app), trusted_hosts=proxies)
    return cast(ASGIApp, wrapped)


application = behind_proxies(Lingering(SecurityHeaders(_site)), settings.TRUSTED_PROXIES)
