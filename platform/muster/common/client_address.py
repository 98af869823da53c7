"""The address of the client behind the request that is being served."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponseBase

_current: ContextVar[str | None] = ContextVar("client_address", default=None)


def current_address() -> str | None:
    """The address of the client whose request this thread serves; None outside requests."""
    return _current.get()


def parse_address(text: str | None) -> str | None:
    """The IP address in its shortest form, IPv4 also where a socket wrote it as IPv6; None for any other text."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


class ClientAddress:
    """Middleware: makes the client's address available to code that runs during the request.

    REMOTE_ADDR is the client's own: `muster.asgi` replaces the address of a trusted proxy with the one it forwards.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        token = _current.set(parse_address(request.META.get("REMOTE_ADDR")))
        try:
            return self.get_response(request)
        finally:
            _current.reset(token)
