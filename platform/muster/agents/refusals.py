"""Audit entries for registrations and claims that the platform refuses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from django.db import transaction
from starlette.requests import Request
from starlette.responses import Response

from muster.accounts.rates import Counter, Exceeded, Limit, take
from muster.common.asgi import in_thread
from muster.common.client_address import parse_address
from muster.common.errors import MusterError
from muster.events.services import audit

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

# Anybody can be refused as often as they like; above these limits no more entries are written.
PER_ADDRESS = Limit("agent_refusals_address", burst=30, every=timedelta(minutes=1))
ALL = Limit("agent_refusals", burst=100, every=timedelta(seconds=5))

_AUDITED = frozenset({401, 403, 404, 409, 412})


def audited(handler: Handler, action: str, *, object_type: str) -> Handler:
    """The handler, whose refusals also leave an audit entry with the client's address."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except MusterError as refusal:
            told = {"status": refusal.status, "reason": refusal.detail}
            object_id = request.path_params.get("id", "(unknown)")
            await audit_refusal(request, told, action, object_type=object_type, object_id=object_id)
            raise

    return handle


async def audit_refusal(
    request: Request, told: dict[str, object], action: str, *, object_type: str, object_id: object
) -> None:
    """Leave an audit entry with the client's address of what was told, if its status is that of a refusal."""
    if told["status"] in _AUDITED:
        address = parse_address(request.client.host if request.client else None)
        await in_thread(_store, told, action, object_type, str(object_id), address)


def _store(told: dict[str, object], action: str, object_type: str, object_id: str, address: str | None) -> None:
    try:
        with transaction.atomic():
            take([Counter(PER_ADDRESS, address or ""), Counter(ALL, "")])
            audit(action, actor="agent", object_type=object_type, object_id=object_id, after=told, address=address)
    except Exceeded:
        log.warning("refusal_not_audited action=%s address=%s reason=%s", action, address, told["reason"])
