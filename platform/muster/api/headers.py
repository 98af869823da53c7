"""Headers that restrict what browsers do with the platform's answers."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
# Documents: text and pictures of this repository, and one script that sets the theme.
HELP = f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; {_COMMON}"
# Nothing here is a page. `sandbox`: a browser that shows an answer all the same, such as a file that a job wrote, runs
# nothing of it and treats it as from no origin.
DATA = "sandbox; default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

# The documentation of REST is the one page among the paths of data.
_DOCUMENTATION = "/api/v1/docs"
_DATA_PATHS = ("/api/", "/agent/", "/healthz", "/readyz", "/metrics", "/downloads/")


class SecurityHeaders:
    """ASGI middleware: the security headers of every answer, of Django's views and of the asynchronous routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on, and set each header that the answer does not set itself."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        missing = security_headers(scope["path"], https=scope["scheme"] == "https")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in missing.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def security_headers(path: str, *, https: bool) -> dict[str, str]:
    """The headers for an answer at `path`; `https` says whether the client's connection is encrypted."""
    headers = {
        "Content-Security-Policy": _policy(path),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    if path.startswith("/api/"):
        # What one user may see must not lie in a cache that the next one reads.
        headers["Cache-Control"] = "no-store"
    if https:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    return headers


def _policy(path: str) -> str:
    if path.startswith("/admin/"):
        return ADMIN
    if path == "/docs" or path.startswith("/docs/"):
        return HELP
    return DATA if path.startswith(_DATA_PATHS) and path != _DOCUMENTATION else PAGES
