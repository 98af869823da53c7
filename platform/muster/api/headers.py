"""What browsers may do with our answers."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

_COMMON = "base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
PAGES = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    f"img-src 'self' data:; font-src 'self' data:; {_COMMON}"
)
# The admin's skin evaluates expressions in attributes and has scripts in its pages; nothing comes from elsewhere.
ADMIN = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    f"connect-src 'self'; img-src 'self' data: blob:; font-src 'self' data:; {_COMMON}"
)
DATA = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

_DATA_PATHS = ("/api/", "/healthz", "/readyz", "/metrics")


class ContentSecurityPolicy:
    """Middleware: the strictest policy with which each part of the site works."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.path.startswith("/admin/"):
            policy = ADMIN
        elif request.path.startswith(_DATA_PATHS):
            policy = DATA
        else:
            policy = PAGES
        response.headers.setdefault("Content-Security-Policy", policy)
        if request.path.startswith("/api/"):
            # What one user may see must not lie in a cache that the next one reads.
            response.headers.setdefault("Cache-Control", "no-store")
        return response
