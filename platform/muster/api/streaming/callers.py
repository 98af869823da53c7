"""Authentication of callers of streams."""

from __future__ import annotations

import hmac

from django.conf import settings
from starlette.requests import Request

from muster.accounts.models import User
from muster.api.access import Access, access_of
from muster.api.authentication import Caller, authenticate_request
from muster.common.asgi import in_thread
from muster.common.errors import Forbidden, Invalid, MusterError


class Unauthenticated(MusterError, status=401, code="unauthenticated", title="Sign in first"):
    """The call carries no session and no token that are good."""


CALLER = "muster.caller"


async def authenticated(request: Request) -> tuple[Caller, Access]:
    """The caller, and the access of its user; a session that changes something must show its CSRF token too."""
    authorization = request.headers.get("authorization")
    session_key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    found = await in_thread(_authenticate, authorization, session_key)
    if found is None:
        raise Unauthenticated("send a session cookie, or Authorization: Bearer TOKEN")
    # Without a token the session authenticated the call, whatever else its Authorization header says.
    if found[0].token is None and request.method not in {"GET", "HEAD"}:
        _require_csrf(request)
    return found


def caller(request: Request) -> User:
    """The user behind a call to a handler that is `Authorised`."""
    found: Caller = request.scope[CALLER]
    return found.user


def number(request: Request, name: str, *, least: int = 0, default: int | None = None) -> int | None:
    """A whole number from the query; `Invalid` names it if it is none."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or int(text) < least:
        raise Invalid.field(name, f"write a whole number from {least} on")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """A switch from the query: 1 or 0."""
    text = request.query_params.get(name, "0")
    if text not in {"0", "1", "true", "false"}:
        raise Invalid.field(name, "write 1 or 0")
    return text in {"1", "true"}


def _authenticate(authorization: str | None, session_key: str | None) -> tuple[Caller, Access] | None:
    found = authenticate_request(authorization=authorization, session_key=session_key)
    return (found, access_of(found.user)) if found else None


def _require_csrf(request: Request) -> None:
    cookie = request.cookies.get(settings.CSRF_COOKIE_NAME, "")
    header = request.headers.get("x-csrftoken", "")
    if not cookie or not hmac.compare_digest(cookie.encode(), header.encode()):
        raise Forbidden("the CSRF token is missing or wrong: send the csrftoken cookie's value as X-CSRFToken")
