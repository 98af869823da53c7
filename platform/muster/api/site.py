"""The researchers' pages: the built frontend, served from the origin of the API."""

from __future__ import annotations

import gzip
import mimetypes
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_WORTH_PACKING = frozenset({"text/html", "text/css", "text/javascript", "application/json", "image/svg+xml"})
_NOT_BUILT = (
    "The web pages of Muster are not built.\n\n"
    "Run `make setup`, or use the REST API under /api/v1, the `muster` command, or the admin under /admin/.\n"
)


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    packed: bytes | None
    content_type: str


@require_safe
def page(request: HttpRequest, path: str = "") -> HttpResponse:
    """The page of the application for every path that is its own, or a file beside it such as an icon."""
    root = Path(settings.FRONTEND_DIST)
    if path and _FILE_NAME.fullmatch(path) and path != "index.html" and (root / path).is_file():
        response = _respond(request, _read_current(root / path))
        response["Cache-Control"] = "public, max-age=3600"
        return response
    try:
        response = _respond(request, _read_current(root / "index.html"))
    except FileNotFoundError:
        return HttpResponse(_NOT_BUILT, status=503, content_type="text/plain; charset=utf-8")
    # The names of the assets in it change with each build.
    response["Cache-Control"] = "no-cache"
    return response


@require_safe
def asset(request: HttpRequest, name: str) -> HttpResponse:
    """A file of the build. Its name holds a digest of its content, so it may be kept for ever."""
    path = Path(settings.FRONTEND_DIST) / "assets" / name
    if not _FILE_NAME.fullmatch(name) or not path.is_file():
        raise Http404(name)
    response = _respond(request, _read_current(path))
    response["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


def _read_current(path: Path) -> _File:
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, _changed_at: int) -> _File:
    """A file, and packed once if that is worth it; a rebuild changes the time and so the key."""
    body = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    packed = gzip.compress(body, mtime=0) if kind in _WORTH_PACKING and len(body) > 1024 else None
    return _File(body, packed, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)


def _respond(request: HttpRequest, file: _File) -> HttpResponse:
    if file.packed is None:
        return HttpResponse(file.body, content_type=file.content_type)
    accepted = re.search(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\b)", request.headers.get("Accept-Encoding", ""))
    response = HttpResponse(file.packed if accepted else file.body, content_type=file.content_type)
    if accepted:
        response["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response
